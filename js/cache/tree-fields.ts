// What the fields of a rewritten tree hold (PostgreSQL's src/include/nodes/parsenodes.h and primnodes.h, 15 to 19).
//
// Knows names of nodes and fields, in the spelling of outfuncs.c. Must not know what follows from a tree.
//
// A node or a field that is not here is unknown: a newer server may have put a function or a relation into it.

const words = (text: string): readonly string[] => text.trim().split(/\s+/);

/** OIDs of functions. `opfuncid` may be 0 in the tree of a view; its `opno` then says the function. */
export const FUNCTIONS: ReadonlySet<string> = new Set(
  words("funcid opfuncid hashfuncid negfuncid aggfnoid winfnoid startInRangeFunc endInRangeFunc"),
);

export const OPERATORS: ReadonlySet<string> = new Set(words("opno opnos eqop sortop cycle_mark_neop"));

export const TYPES: ReadonlySet<string> = new Set(
  words(`vartype consttype paramtype funcresulttype opresulttype resulttype aggtype aggargtypes aggtranstype wintype
    refcontainertype refelemtype refrestype casetype coalescetype minmaxtype array_typeid element_typeid row_typeid
    typeId typid type exprBaseType cycle_mark_type colTypes coltypes ctecoltypes funccoltypes`),
);

/** Fields without OIDs, apart from those of collations, constraints and index families. Nodes in them are read. */
export const OTHERS: ReadonlySet<string> = new Set(
  words(`absent_on_null aggcollid aggdirectargs aggdistinct aggfilter aggkind agglevelsup aggno aggorder
    aggpresorted aggsplit aggstar aggtransno aggvariadic alias aliascolnames aliasname all arg arg_names argisrow
    argnumber args array_collid booltesttype boolop btype canSetTag casecollid checkAsUser child child_lateral
    coalescecollid coerce coerceformat coercion coercionformat colCollations colMax colMin colTypmods colcollations
    coldefexprs colexprs collOid collation colnames cols coltypmods column_name colvalexprs commandType
    constbyval constcollid constisnull constlen constraintDeps consttypmod constvalue content copiedOrder
    ctecolcollations ctecolnames ctecoltypmods ctelevelsup cteList ctematerialized ctename ctequery cterecursive
    cterefcount cycle_clause cycle_col_list cycle_mark_collation cycle_mark_column cycle_mark_default
    cycle_mark_typmod cycle_mark_value cycle_path_column defresult distinctClause docexpr elemexpr elements encoding
    endOffset eref errorOnError expr extraUpdatedCols fieldnum format format_type formatted_expr frameOptions fromlist
    func funccolcollations funccolcount funccollid funccolnames funccoltypmods funcexpr funcformat funcordinality
    funcparams funcretset functions functype funcvariadic groupClause groupClauses groupDistinct groupexprs
    groupingSets hasAggs hasDistinctOn hasForUpdate hasGroupRTE hasModifyingCTE hasRecursive hasRowSecurity
    hasSubLinks hasTargetSRFs hasWindowFuncs hashable havingQual ignore_nulls inFromCl inRangeAsc inRangeColl
    inRangeNullsFirst indent inh inputcollid inputcollids insertedCols isNatural isReturn item_type join_using_alias
    joinaliasvars joinleftcols joinmergedcols joinrightcols jointree jointype larg largs lateral limitCount
    limitOffset limitOption lplan list_end list_start location minmaxcollid multidims name named_args notnulls ns_names
    ns_uris nulls_first nulltesttype omit_quotes on_empty on_error op opcollid operName opfamilies opretset
    orderClause ordinalitycol orig_query override paramcollid paramid paramkind paramtypmod partitionClause
    passing_names passing_values passingvalexprs path path_spec perminfoindex plan quals querySource rarg rargs
    raw_expr rctype rplan convertformat cmptype refassgnexpr refcollid refexpr reflowerindexpr refname refs reftypmod refupperindexpr
    relabelformat relid relkind rellockmode repeatable requiredPerms resjunk resname resno resorigcol resorigtbl
    ressortgroupref result resultRelation resultcollid resulttypmod returning reverse_sort rowMarks row_format
    rowexpr rtable rtekind rteperminfos rtindex runCondition search_breadth_first search_clause search_col_list
    search_seq_column securityQuals security_barrier selectedCols self_reference setOperations sortClause
    startOffset stmt_len stmt_location subLinkId subLinkType subquery subselect tablefunc tablesample targetList
    testexpr tleSortGroupRef tsmhandler typeMod typmod unique unique_keys updatedCols useOr use_io_coercion
    use_json_coercion usingClause value values_lists varattno varattnosyn varcollid varlevelsup varno varnosyn
    varnullingrels varreturningtype vartypmod winagg wincollid windowClause winref winstar wrapper xmloption`),
);

/** Nodes that read nothing by themselves: what they are made of decides. */
export const NODES: ReadonlySet<string> = new Set(
  words(`AGGREF ALIAS ARRAYCOERCEEXPR ARRAYEXPR BOOLEANTEST BOOLEXPR CASEEXPR CASETESTEXPR CASEWHEN COALESCE
    COALESCEEXPR COERCETODOMAIN COERCETODOMAINVALUE COERCEVIAIO COLLATE COLLATEEXPR COMMONTABLEEXPR CONST
    CONVERTROWTYPEEXPR CTECYCLECLAUSE CTESEARCHCLAUSE DISTINCTEXPR FIELDSELECT FROMEXPR FUNCEXPR GROUPINGFUNC
    GROUPINGSET JOINEXPR JSONBEHAVIOR JSONCONSTRUCTOREXPR JSONEXPR JSONFORMAT JSONISPREDICATE JSONRETURNING
    JSONTABLEPATH JSONTABLEPATHSCAN JSONTABLESIBLINGJOIN JSONVALUEEXPR MINMAXEXPR NAMEDARGEXPR NULLIFEXPR NULLTEST
    OPEXPR PARAM QUERY RANGETBLENTRY RANGETBLFUNCTION RANGETBLREF RELABELTYPE ROWCOMPAREEXPR ROWEXPR ROWMARKCLAUSE
    RTEPERMISSIONINFO SCALARARRAYOPEXPR SETOPERATIONSTMT SORTGROUPCLAUSE SQLVALUEFUNCTION SUBLINK SUBSCRIPTINGREF
    TABLEFUNC TABLESAMPLECLAUSE TARGETENTRY VAR WINDOWCLAUSE WINDOWFUNC XMLEXPR`),
);

/** RANGETBLENTRY's kinds: relation, subquery, join, function, table function, VALUES, WITH, no FROM, GROUP BY. */
export const RANGE_TABLE_KINDS: ReadonlySet<string> = new Set("0123456".split("").concat("8", "9"));
