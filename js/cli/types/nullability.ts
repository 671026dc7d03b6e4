// Finds out which columns of a statement can be NULL, from the tree that the server has made of the statement.
//
// Knows the nodes of a rewritten query (src/include/nodes/parsenodes.h, primnodes.h) and SQL's rules for NULL. Must not
// know how a tree was obtained. There is one rule: what is not known can be NULL. A node, a function or a kind of
// relation that is not named here makes its column nullable, so a newer server can make an answer less precise, but
// never wrong.
//
// The tree is the one before planning: views are expanded, and nothing depends on statistics or on the plan.
import { Conditions } from "./conditions.ts";
import { COMMAND, JOIN, RETURNING, RTE, SETOP, SUBLINK } from "./enums.ts";
import { AGGREGATES, ALWAYS, isExact, nameOf, NEVER_NULL_WINDOWS, SET_RETURNING } from "./functions.ts";
import { isLossless, targetsOf, typeOf } from "./targets.ts";
import { everyNode, isNode, items, nodes, type Node, type Value } from "../../util/node-tree.ts";

/** What the catalog says about the objects that a tree names. */
export interface Facts {
  /**
   * Whether the column has no NULL in any row that a query of the table sees. With `children` it sees their rows too.
   */
  isNotNull(table: number, column: number, children: boolean): boolean;
  /** The signature of a function of pg_catalog, such as `lower(text)`; `undefined` for any other function. */
  builtin(oid: number): string | undefined;
  /** pg_proc.proisstrict: a NULL among the arguments gives NULL. */
  isStrict(oid: number): boolean;
  /** Whether the domain refuses NULL. */
  refusesNull(domain: number): boolean;
}

/** OIDs that `Facts` will be asked about. */
export interface Named {
  readonly tables: ReadonlySet<number>;
  readonly functions: ReadonlySet<number>;
  readonly domains: ReadonlySet<number>;
}

export function named(tree: Value): Named {
  const tables = new Set<number>();
  const functions = new Set<number>();
  const domains = new Set<number>();
  for (const node of everyNode(tree)) {
    if (node.kind === "RANGETBLENTRY" && node["rtekind"] === RTE.relation) tables.add(Number(node["relid"]));
    for (const field of ["funcid", "opfuncid", "aggfnoid", "winfnoid"])
      if (typeof node[field] === "string") functions.add(Number(node[field]));
    if (node.kind === "COERCETODOMAIN") domains.add(Number(node["resulttype"]));
  }
  return { tables, functions, domains };
}

/**
 * Whether each column of the result can be NULL. `undefined`: any column may be NULL, because nothing is known. That is
 * so for a statement that rules have turned into several.
 */
export function nullability(tree: Value, facts: Facts): boolean[] | undefined {
  const queries = nodes(tree);
  const [query] = queries;
  if (queries.length !== 1 || query?.kind !== "QUERY" || query["commandType"] === COMMAND.utility) return undefined;
  return new Query(query, facts, undefined).columns().map((isNotNull) => !isNotNull);
}

/** The default frame: the current row and all rows before it. The lowest bit says that the frame was written out. */
const DEFAULT_FRAME = 1058;
const LAST_VALUE_FUNCTION_BUT_SCHEMA = 13;

/**
 * A query at one level, with the relations and conditions that make its rows. Each boolean answers "is it never NULL?".
 */
class Query {
  readonly #query: Node;
  readonly #facts: Facts;
  readonly #outer: Query | undefined;
  readonly #relations: readonly Node[];
  readonly #conditions: Conditions;
  /**
   * The columns of queries in FROM. Without this cache they would be computed once for each column of each query above.
   */
  readonly #subqueries = new Map<Node, readonly boolean[]>();
  /** The columns of queries of WITH; for a recursive query, what is assumed about them. */
  readonly #ctes = new Map<Node, readonly boolean[]>();
  /** With grouping sets any expression may be NULL in place of its value. */
  readonly #hasGroupingSets: boolean;

  constructor(query: Node, facts: Facts, outer: Query | undefined) {
    this.#query = query;
    this.#facts = facts;
    this.#outer = outer;
    this.#relations = nodes(query["rtable"]);
    this.#hasGroupingSets = query["groupingSets"] !== undefined;
    this.#conditions = new Conditions(query, (oid) => facts.isStrict(oid));
  }

  columns(): readonly boolean[] {
    const { setOperations, commandType } = this.#query;
    if (isNode(setOperations)) return this.#combined(setOperations);
    // It is not known which of MERGE's actions made a row.
    if (commandType === COMMAND.merge) return targetsOf(this.#query).map(() => false);
    return targetsOf(this.#query).map((target) => this.#target(target));
  }

  #target({ expr }: Node): boolean {
    if (this.#hasGroupingSets && isNode(expr)) return isCount(expr, this.#facts) || expr.kind === "GROUPINGFUNC";
    return this.#never(expr);
  }

  #combined(operation: Node): boolean[] {
    const left = this.#side(operation, operation["larg"]);
    const right = this.#side(operation, operation["rarg"]);
    switch (operation["op"]) {
      case SETOP.union:
        return left.map((isNotNull, index) => isNotNull && right[index] === true);
      case SETOP.intersect: // its rows are in both
        return left.map((isNotNull, index) => isNotNull || right[index] === true);
      case SETOP.except:
        return left;
    }
    return left.map(() => false);
  }

  /**
   * Returns the columns of one side, which is a query or another set operation. The planner casts them to the
   * operation's types, which the tree does not show.
   */
  #side({ colTypes }: Node, side: Value): boolean[] {
    if (!isNode(side)) return [];
    const relation = side.kind === "RANGETBLREF" ? this.#relation(side["rtindex"]) : undefined;
    const query = relation?.["subquery"];
    const columns = relation ? this.#subquery(relation) : this.#combined(side);
    const types = isNode(query) ? targetsOf(query).map(({ expr }) => typeOf(expr)) : items(side["colTypes"]);
    return columns.map((isNotNull, index) => isNotNull && isLossless(types[index], items(colTypes)[index]));
  }

  #relation(index: Value): Node | undefined {
    return this.#relations[Number(index) - 1];
  }

  #subquery(relation: Node): readonly boolean[] {
    const known = this.#subqueries.get(relation);
    if (known) return known;
    const { subquery } = relation;
    const columns = isNode(subquery) ? new Query(subquery, this.#facts, this).columns() : [];
    this.#subqueries.set(relation, columns);
    return columns;
  }

  // -- expressions ----------------------------------------------------------------------------------------------------

  readonly #every = (values: Value): boolean =>
    Array.isArray(values) ? (values as Value[]).every((value) => this.#never(value)) : values === undefined;
  readonly #some = (values: Value): boolean => nodes(values).some((value) => this.#never(value));

  #never(value: Value): boolean {
    if (!isNode(value)) return false;
    const { arg, args } = value;
    switch (value.kind) {
      case "CONST":
        return value["constisnull"] === "false";
      case "VAR":
        return this.#column(value);
      case "RELABELTYPE":
      case "COERCEVIAIO":
      case "ARRAYCOERCEEXPR":
      case "CONVERTROWTYPEEXPR":
      case "COLLATEEXPR":
      case "COLLATE":
      case "NAMEDARGEXPR":
        return this.#never(arg);
      case "COERCETODOMAIN":
        return this.#facts.refusesNull(Number(value["resulttype"])) || this.#never(arg);
      case "FUNCEXPR":
        return this.#call(value, value["funcid"]);
      case "OPEXPR":
        return this.#call(value, value["opfuncid"]);
      case "BOOLEXPR":
        return this.#every(args);
      case "SCALARARRAYOPEXPR":
        return this.#isInList(value);
      case "COALESCE":
      case "COALESCEEXPR":
      case "MINMAX":
      case "MINMAXEXPR":
        return this.#some(args);
      case "CASE":
      case "CASEEXPR":
        return nodes(value["args"]).every((when) => this.#never(when["result"])) && this.#never(value["defresult"]);
      case "SUBLINK":
        return this.#sublink(value);
      case "AGGREF":
        return this.#aggregate(value);
      case "WINDOWFUNC":
        return this.#window(value);
      case "SQLVALUEFUNCTION":
        return Number(value["op"]) <= LAST_VALUE_FUNCTION_BUT_SCHEMA;
      case "DISTINCTEXPR": // its operator may be user-defined
        return this.#facts.builtin(Number(value["opfuncid"])) !== undefined;
      case "NULLTEST":
      case "BOOLEANTEST":
      case "ROW":
      case "ROWEXPR":
      case "ARRAY":
      case "ARRAYEXPR":
      case "GROUPINGFUNC":
        return true;
    }
    return false;
  }

  /** A call is never NULL if its function is built in and returns NULL only for NULL, and no argument is NULL. */
  #call(call: Node, oid: Value): boolean {
    const signature = this.#facts.builtin(Number(oid));
    if (signature === undefined) return false;
    if (ALWAYS.has(nameOf(signature)) && call["funcvariadic"] === "false") return true;
    if (!this.#every(call["args"])) return false;
    if (call["funcretset"] !== "true" && call["opretset"] !== "true") return isExact(signature);
    // If a list of targets has two sets, the shorter one is filled up with NULL. Sets in GROUP BY are in a relation of
    // their own.
    const grouped = this.#relations.filter(({ rtekind }) => rtekind === RTE.group);
    const sets = [...everyNode([this.#query["targetList"], grouped])].filter(({ funcretset, opretset }) =>
      [funcretset, opretset].includes("true"),
    );
    return SET_RETURNING.has(nameOf(signature)) && sets.length === 1;
  }

  /**
   * x in (1, 2) is NULL if no element is equal and one of them is NULL. The elements of an array value are not known.
   */
  #isInList(value: Node): boolean {
    const [left, list] = nodes(value["args"]);
    const name = this.#facts.builtin(Number(value["opfuncid"]));
    if (name === undefined || !isExact(name) || !this.#never(left)) return false;
    // In an array of arrays, x is compared with the elements of the inner arrays.
    if (list?.["multidims"] !== "false") return false;
    return (list.kind === "ARRAYEXPR" || list.kind === "ARRAY") && this.#every(list["elements"]);
  }

  #sublink(value: Node): boolean {
    const { subLinkType, subselect, testexpr } = value;
    if (subLinkType === SUBLINK.exists || subLinkType === SUBLINK.array) return true;
    if (!isNode(subselect)) return false;
    const query = new Query(subselect, this.#facts, this);
    if (subLinkType === SUBLINK.scalar) return query.#hasOneRow() && query.columns()[0] === true;
    if (subLinkType !== SUBLINK.any && subLinkType !== SUBLINK.all) return false;
    // x = any (select …): NULL comes from x, from a row or its cast, or from the operator.
    if (!isNode(testexpr) || testexpr.kind !== "OPEXPR") return false;
    const name = this.#facts.builtin(Number(testexpr["opfuncid"]));
    const [left, right] = nodes(testexpr["args"]);
    const row = right?.kind === "RELABELTYPE" ? right["arg"] : right;
    if (name === undefined || !isExact(name) || !isNode(row) || row.kind !== "PARAM") return false;
    return this.#never(left) && query.columns().every(Boolean);
  }

  /** Whether the query has exactly one row, whatever the tables contain. */
  #hasOneRow(): boolean {
    const { setOperations, groupClause, groupingSets, havingQual, limitCount, limitOffset, commandType } = this.#query;
    const restricts = [setOperations, groupClause, groupingSets, havingQual, limitCount, limitOffset];
    if (commandType !== COMMAND.select || restricts.some((part) => part !== undefined)) return false;
    if (this.#query["hasTargetSRFs"] === "true") return false;
    if (this.#query["hasAggs"] === "true") return true;
    const from = this.#query["jointree"];
    return isNode(from) && from["fromlist"] === undefined && from["quals"] === undefined;
  }

  #aggregate(value: Node): boolean {
    if (isCount(value, this.#facts)) return true;
    const takes = AGGREGATES.get(nameOf(this.#facts.builtin(Number(value["aggfnoid"])) ?? ""));
    if (takes === undefined || value["agglevelsup"] !== "0" || value["aggfilter"] !== undefined) return false;
    // Without GROUP BY there may be no row. With GROUP BY each group has one.
    if (this.#query["groupClause"] === undefined || this.#hasGroupingSets) return false;
    return takes === "any" || this.#never(nodes(value["args"])[0]?.["expr"]);
  }

  #window(value: Node): boolean {
    const name = nameOf(this.#facts.builtin(Number(value["winfnoid"])) ?? "");
    if (NEVER_NULL_WINDOWS.has(name)) return true;
    // Outside the partition it returns its third argument.
    if (name === "lag" || name === "lead") return nodes(value["args"]).length === 3 && this.#every(value["args"]);
    const takes = AGGREGATES.get(name);
    if (takes === undefined || value["aggfilter"] !== undefined) return false;
    const window = nodes(this.#query["windowClause"]).find(({ winref }) => winref === value["winref"]);
    if ((Number(window?.["frameOptions"]) & ~1) !== DEFAULT_FRAME) return false;
    return takes === "any" || this.#never(nodes(value["args"])[0]);
  }

  // -- columns --------------------------------------------------------------------------------------------------------

  #column(column: Node): boolean {
    const query = this.#at(Number(column["varlevelsup"]));
    return query ? query.#ownColumn(column) : false;
  }

  /** The query that is `level` levels up. */
  #at(level: number): Query | undefined {
    if (level === 0) return this;
    return this.#outer ? this.#outer.#at(level - 1) : undefined;
  }

  #ownColumn({ varno, varattno, varreturningtype = RETURNING.current }: Node): boolean {
    const number = Number(varattno);
    const relation = this.#relation(varno);
    if (!relation) return false;
    // OLD of an INSERT and NEW of a DELETE are NULL.
    if (!this.#isThere(varreturningtype)) return false;
    if (this.#conditions.hasPassed(varno, number)) return true;
    if (this.#conditions.nullersOf(varno).length > 0) return false;
    return this.#ofRelation(relation, number);
  }

  #isThere(version: Value): boolean {
    const { commandType } = this.#query;
    if (version === RETURNING.current || commandType === COMMAND.update) return true;
    if (version === RETURNING.new) return commandType === COMMAND.insert;
    return version === RETURNING.old && commandType === COMMAND.delete;
  }

  #ofRelation(relation: Node, number: number): boolean {
    switch (relation["rtekind"]) {
      case RTE.relation:
        return number === 0 || this.#facts.isNotNull(Number(relation["relid"]), number, relation["inh"] === "true");
      case RTE.subquery:
        return this.#subquery(relation)[number - 1] ?? false;
      case RTE.join:
        return this.#merged(relation, number);
      case RTE.function:
        return this.#ofFunction(relation, number);
      case RTE.values:
        return items(relation["values_lists"]).every((row) => this.#never(items(row)[number - 1]));
      case RTE.cte:
        return this.#ofCte(relation, number);
      case RTE.group:
        return !this.#hasGroupingSets && this.#never(items(relation["groupexprs"])[number - 1]);
    }
    return false;
  }

  /** A column of the join itself: one of USING, or one with an alias. */
  #merged(join: Node, number: number): boolean {
    const alias = items(join["joinaliasvars"])[number - 1];
    if (!isNode(alias)) return false;
    if (join["jointype"] !== JOIN.full || !alias.kind.startsWith("COALESCE")) return this.#never(alias);
    // In a FULL JOIN at least one side is present. So its merged column is not NULL if neither side's own column has
    // NULL.
    return nodes(alias["args"]).every((side) => {
      const { kind, varno, varattno, varlevelsup } = side;
      if (kind !== "VAR" || varlevelsup !== "0") return false;
      const relation = this.#relation(varno);
      const index = this.#relations.indexOf(join) + 1;
      if (!relation || this.#conditions.nullersOf(varno).some((nuller) => nuller !== index)) return false;
      return this.#ofRelation(relation, Number(varattno));
    });
  }

  #ofFunction(relation: Node, number: number): boolean {
    const functions = nodes(relation["functions"]);
    const [only] = functions;
    // ROWS FROM fills up the shorter sets with NULL.
    if (functions.length !== 1 || !only) return false;
    const width = Number(only["funccolcount"]);
    if (relation["funcordinality"] === "true" && number === width + 1) return true;
    const call = only["funcexpr"];
    if (number !== 1 || width !== 1 || !isNode(call) || call.kind !== "FUNCEXPR") return false;
    const name = this.#facts.builtin(Number(call["funcid"]));
    return name !== undefined && SET_RETURNING.has(nameOf(name)) && this.#every(call["args"]);
  }

  #ofCte(relation: Node, number: number): boolean {
    const query = this.#at(Number(relation["ctelevelsup"]));
    if (!query) return false;
    const ctes = nodes(query.#query["cteList"]).filter(({ ctename }) => ctename === relation["ctename"]);
    const [cte] = ctes;
    // The server does not allow two queries of one name, so two mean that the names were read wrongly.
    return ctes.length === 1 && cte ? (query.#cteColumns(cte)[number - 1] ?? false) : false;
  }

  /**
   * All columns of a recursive query are assumed to be never NULL. Each column for which that is not true is taken
   * back, until the assumption holds: then it holds for each row by induction. A query of WITH does not see the FROM
   * next to it, so nothing in #subqueries depends on an assumption.
   */
  #cteColumns(cte: Node): readonly boolean[] {
    const known = this.#ctes.get(cte);
    if (known) return known;
    const query = cte["ctequery"];
    if (!isNode(query)) return [];
    const width = nodes(query["targetList"]).length;
    let assumed: readonly boolean[] = Array<boolean>(Math.max(width, 1)).fill(cte["cterecursive"] === "true");
    for (;;) {
      this.#ctes.set(cte, assumed);
      const found = new Query(query, this.#facts, this).columns();
      const isSettled = cte["cterecursive"] !== "true" || found.every((isNotNull, at) => isNotNull === assumed[at]);
      assumed = found;
      if (isSettled) break;
    }
    this.#ctes.set(cte, assumed);
    return assumed;
  }
}

/** Whether it is count(), which is never NULL, even without rows. */
function isCount({ kind, aggfnoid }: Node, facts: Facts): boolean {
  return kind === "AGGREF" && nameOf(facts.builtin(Number(aggfnoid)) ?? "") === "count";
}
