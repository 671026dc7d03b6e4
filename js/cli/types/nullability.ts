// Which columns of a statement can be NULL, from the tree that the server has made of it.
//
// Knows the nodes of a rewritten query (src/include/nodes/parsenodes.h, primnodes.h) and SQL's rules for NULL. Must not
// know how a tree was had. There is one rule: what is not known can be NULL. A node, a function or a kind of relation
// that is not named here makes its column nullable, so a newer server can make an answer worse, and never wrong.
//
// The tree is the one before planning: views are spelled out, and nothing depends on statistics or on the plan.
import { AGGREGATES, ALWAYS, isExact, nameOf, NEVER_NULL_WINDOWS, SET_RETURNING } from "./functions.ts";
import { everyNode, isNode, nodes, type Node, type Value } from "./tree.ts";

/** What the catalog says of what a tree names. */
export interface Facts {
  /** The column has no NULL in any row that a query of the table sees, those of its children with `children`. */
  isNotNull(table: number, column: number, children: boolean): boolean;
  /** A function by its OID: pg_catalog's own by their signature, `lower(text)`, others not at all. */
  builtin(oid: number): string | undefined;
  /** pg_proc.proisstrict: a NULL among the arguments gives NULL. */
  isStrict(oid: number): boolean;
  /** A domain that refuses NULL. */
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
 * Whether each column of the result can be NULL. `undefined`: all of them can, for all that is known; so it is for a
 * statement that rules have made several of.
 */
export function nullability(tree: Value, facts: Facts): boolean[] | undefined {
  const queries = nodes(tree);
  const [query] = queries;
  if (queries.length !== 1 || query?.kind !== "QUERY" || query["commandType"] === COMMAND.utility) return undefined;
  return new Query(query, facts, undefined).columns().map((isNotNull) => !isNotNull);
}

const RTE = {
  relation: "0",
  subquery: "1",
  join: "2",
  function: "3",
  values: "5",
  cte: "6",
  group: "9",
} as const;
const COMMAND = { select: "1", update: "2", insert: "3", delete: "4", merge: "5", utility: "6" } as const;
const JOIN = { inner: "0", left: "1", full: "2", right: "3" } as const;
const SUBLINK = { exists: "0", all: "1", any: "2", scalar: "4", array: "6" } as const;
const RETURNING = { current: "0", old: "1", new: "2" } as const;
const SETOP = { union: "1", intersect: "2", except: "3" } as const;
/** The frame that holds the row itself and all in front of it; the lowest bit says that it was written out. */
const DEFAULT_FRAME = 1058;
const LAST_VALUE_FUNCTION_BUT_SCHEMA = 13;

/** A query at one level, with what makes its rows. All answers are to "is it never NULL?". */
class Query {
  readonly #query: Node;
  readonly #facts: Facts;
  readonly #outer: Query | undefined;
  readonly #relations: readonly Node[];
  /** By relation: the sides of joins, `"3 right"`, that put NULL in place of its rows. */
  readonly #nullers = new Map<number, Set<string>>();
  /** Columns, `"2.1"`, that a condition which each row has passed would not have passed as NULL. */
  readonly #passed = new Set<string>();
  /** The columns of recursive queries, while they are assumed. */
  readonly #assumed = new Map<Node, readonly boolean[]>();
  /** Behind grouping sets any expression may stand for nothing. */
  readonly #hasGroupingSets: boolean;

  constructor(query: Node, facts: Facts, outer: Query | undefined) {
    this.#query = query;
    this.#facts = facts;
    this.#outer = outer;
    this.#relations = nodes(query["rtable"]);
    this.#hasGroupingSets = query["groupingSets"] !== undefined;
    const from = query["jointree"];
    if (!isNode(from)) return;
    this.#addNullers(from, []);
    this.#addConditions(from);
    // A row that put NULL in place of one relation's row did so for all of that side: where one of its columns is
    // never NULL, no row of the result has it.
    const absent = new Set([...this.#passed].flatMap((column) => [...(this.#nullers.get(parseInt(column)) ?? [])]));
    for (const sides of this.#nullers.values()) for (const side of absent) sides.delete(side);
  }

  columns(): boolean[] {
    const { setOperations, commandType } = this.#query;
    if (isNode(setOperations)) return this.#combined(setOperations);
    // Which of MERGE's actions made a row, nobody knows.
    if (commandType === COMMAND.merge) return this.#targets().map(() => false);
    return this.#targets().map((target) => this.#target(target));
  }

  #targets(): readonly Node[] {
    const isSelect = this.#query["commandType"] === COMMAND.select;
    return nodes(this.#query[isSelect ? "targetList" : "returningList"]).filter(({ resjunk }) => resjunk !== "true");
  }

  #target({ expr }: Node): boolean {
    if (this.#hasGroupingSets && isNode(expr)) return isCount(expr, this.#facts) || expr.kind === "GROUPINGFUNC";
    return this.#never(expr);
  }

  #combined(operation: Value): boolean[] {
    if (!isNode(operation)) return [];
    if (operation.kind === "RANGETBLREF") return this.#subquery(this.#relation(operation["rtindex"]));
    const left = this.#combined(operation["larg"]);
    const right = this.#combined(operation["rarg"]);
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

  #relation(index: Value): Node | undefined {
    return this.#relations[Number(index) - 1];
  }

  #subquery(relation: Node | undefined): boolean[] {
    const subquery = relation?.["subquery"];
    return isNode(subquery) ? new Query(subquery, this.#facts, this).columns() : [];
  }

  // -- joins ----------------------------------------------------------------------------------------------------------

  #addNullers(item: Value, above: readonly string[]): void {
    if (!isNode(item)) return;
    if (item.kind === "FROMEXPR") return nodes(item["fromlist"]).forEach((part) => this.#addNullers(part, above));
    if (item.kind === "RANGETBLREF") return void this.#nullers.set(Number(item["rtindex"]), new Set(above));
    const { jointype, rtindex } = item;
    this.#nullers.set(Number(rtindex), new Set(above));
    const isOneOf = (...types: string[]) => typeof jointype === "string" && types.includes(jointype);
    // A kind of join that is not known may do it to both.
    const keepsLeft = isOneOf(JOIN.inner, JOIN.left);
    const keepsRight = isOneOf(JOIN.inner, JOIN.right);
    this.#addNullers(item["larg"], keepsLeft ? above : [...above, `${String(rtindex)} left`]);
    this.#addNullers(item["rarg"], keepsRight ? above : [...above, `${String(rtindex)} right`]);
  }

  /** Of WHERE, and of ON where no join above makes rows that have not passed it. */
  #addConditions(item: Value): void {
    if (!isNode(item)) return;
    if (item.kind === "FROMEXPR") {
      this.#addCondition(item["quals"]);
      nodes(item["fromlist"]).forEach((part) => this.#addConditions(part));
    }
    if (item.kind !== "JOINEXPR") return;
    const { jointype, larg, rarg, quals } = item;
    if (jointype === JOIN.inner) this.#addCondition(quals);
    if (jointype === JOIN.inner || jointype === JOIN.left) this.#addConditions(larg);
    if (jointype === JOIN.inner || jointype === JOIN.right) this.#addConditions(rarg);
  }

  #addCondition(condition: Value): void {
    if (!isNode(condition)) return;
    const { kind, boolop, nulltesttype, arg, args, subLinkType, testexpr } = condition;
    if (kind === "BOOLEXPR" && boolop === "and") nodes(args).forEach((part) => this.#addCondition(part));
    else if (kind === "BOOLEXPR" && boolop === "not") this.#addPassed(nodes(args)[0]);
    else if (kind === "NULLTEST" && nulltesttype === "1") this.#addPassed(arg);
    // x = any (select …) is not true for a NULL on the left.
    else if (kind === "SUBLINK" && subLinkType === SUBLINK.any && isNode(testexpr) && this.#isStrict(testexpr))
      this.#addPassed(nodes(testexpr["args"])[0]);
    else this.#addPassed(condition);
  }

  /** What would be NULL if this expression were built on a NULL: its columns, through what is strict. */
  #addPassed(value: Value): void {
    if (!isNode(value)) return;
    const { kind, varno, varattno, varlevelsup, varreturningtype = RETURNING.current } = value;
    // UPDATE returns its table's new rows, and the condition has seen the old ones.
    const isChanged = this.#query["commandType"] === COMMAND.update && varno === this.#query["resultRelation"];
    if (
      kind === "VAR" &&
      !isChanged &&
      varlevelsup === "0" &&
      varreturningtype === RETURNING.current &&
      Number(varattno) > 0
    )
      this.#passed.add(`${String(varno)}.${String(varattno)}`);
    if (kind === "RELABELTYPE" || kind === "COERCEVIAIO") this.#addPassed(value["arg"]);
    if ((kind === "OPEXPR" || kind === "FUNCEXPR") && this.#isStrict(value))
      nodes(value["args"]).forEach((part) => this.#addPassed(part));
    // x = any (…) with a strict operator is not true for a NULL on the left; `all` is, of an empty array.
    if (kind === "SCALARARRAYOPEXPR" && value["useOr"] === "true" && this.#isStrict(value))
      this.#addPassed(nodes(value["args"])[0]);
  }

  #isStrict(call: Node): boolean {
    const oid = call["funcid"] ?? call["opfuncid"];
    return call["funcretset"] !== "true" && call["opretset"] !== "true" && this.#facts.isStrict(Number(oid));
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
      case "DISTINCTEXPR":
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

  /** Built-in functions that give NULL for a NULL only. */
  #call(call: Node, oid: Value): boolean {
    const signature = this.#facts.builtin(Number(oid));
    if (signature === undefined) return false;
    if (ALWAYS.has(nameOf(signature)) && call["funcvariadic"] === "false") return true;
    if (!this.#every(call["args"])) return false;
    if (call["funcretset"] !== "true" && call["opretset"] !== "true") return isExact(signature);
    // Of two sets in one list of targets the shorter one is filled up with NULL.
    const sets = [...everyNode(this.#query["targetList"])].filter(({ funcretset, opretset }) =>
      [funcretset, opretset].includes("true"),
    );
    return SET_RETURNING.has(nameOf(signature)) && sets.length === 1;
  }

  /** x in (1, 2) is NULL if nothing equals and one of them is NULL; of an array nobody knows its elements. */
  #isInList(value: Node): boolean {
    const [left, list] = nodes(value["args"]);
    const name = this.#facts.builtin(Number(value["opfuncid"]));
    if (name === undefined || !isExact(name) || !this.#never(left)) return false;
    return (list?.kind === "ARRAYEXPR" || list?.kind === "ARRAY") && this.#every(list["elements"]);
  }

  #sublink(value: Node): boolean {
    const { subLinkType, subselect, testexpr } = value;
    if (subLinkType === SUBLINK.exists || subLinkType === SUBLINK.array) return true;
    if (!isNode(subselect)) return false;
    const query = new Query(subselect, this.#facts, this);
    if (subLinkType === SUBLINK.scalar) return query.#hasOneRow() && query.columns()[0] === true;
    if (subLinkType !== SUBLINK.any && subLinkType !== SUBLINK.all) return false;
    // x = any (select …): NULL comes from x, from a row, or from the operator.
    if (!isNode(testexpr) || testexpr.kind !== "OPEXPR") return false;
    const name = this.#facts.builtin(Number(testexpr["opfuncid"]));
    const [left] = nodes(testexpr["args"]);
    return name !== undefined && isExact(name) && this.#never(left) && query.columns().every(Boolean);
  }

  /** Whatever the tables hold. */
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
    // Without GROUP BY there may be no row; behind it each group has one.
    if (this.#query["groupClause"] === undefined || this.#hasGroupingSets) return false;
    return takes === "any" || this.#never(nodes(value["args"])[0]?.["expr"]);
  }

  #window(value: Node): boolean {
    const name = nameOf(this.#facts.builtin(Number(value["winfnoid"])) ?? "");
    if (NEVER_NULL_WINDOWS.has(name)) return true;
    // Beside the partition's rows it gives its third argument.
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

  /** The query so many levels up. */
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
    if (this.#passed.has(`${String(varno)}.${number}`)) return true;
    if ((this.#nullers.get(Number(varno))?.size ?? 0) > 0) return false;
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
        return lists(relation["values_lists"]).every((row) => this.#never(row[number - 1]));
      case RTE.cte:
        return this.#ofCte(relation, number);
      case RTE.group:
        return !this.#hasGroupingSets && this.#never(nodes(relation["groupexprs"])[number - 1]);
    }
    return false;
  }

  /** A column of a join by itself: that of USING, or one with an alias. */
  #merged(join: Node, number: number): boolean {
    const alias = nodes(join["joinaliasvars"])[number - 1];
    if (join["jointype"] !== JOIN.full || !alias?.kind.startsWith("COALESCE")) return this.#never(alias);
    // FULL JOIN: one side is there, so one of both is, if neither side has NULL of itself.
    return nodes(alias["args"]).every((side) => {
      const { kind, varno, varattno, varlevelsup } = side;
      if (kind !== "VAR" || varlevelsup !== "0") return false;
      const relation = this.#relation(varno);
      const own = [...(this.#nullers.get(Number(varno)) ?? [])];
      const index = this.#relations.indexOf(join) + 1;
      if (!relation || own.some((nuller) => parseInt(nuller) !== index)) return false;
      return this.#ofRelation(relation, Number(varattno));
    });
  }

  #ofFunction(relation: Node, number: number): boolean {
    const functions = nodes(relation["functions"]);
    const [only] = functions;
    // ROWS FROM fills up the shorter ones.
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
    const cte = nodes(query.#query["cteList"]).find(({ ctename }) => ctename === relation["ctename"]);
    return cte ? (query.#cteColumns(cte)[number - 1] ?? false) : false;
  }

  /**
   * A recursive query's own rows are assumed to be never NULL, and each column that is not is taken back until the
   * assumption holds: then it holds for each row by induction.
   */
  #cteColumns(cte: Node): readonly boolean[] {
    const known = this.#assumed.get(cte);
    if (known) return known;
    const query = cte["ctequery"];
    if (!isNode(query)) return [];
    const width = nodes(query["targetList"]).length;
    let assumed: readonly boolean[] = Array<boolean>(Math.max(width, 1)).fill(cte["cterecursive"] === "true");
    for (;;) {
      this.#assumed.set(cte, assumed);
      const found = new Query(query, this.#facts, this).columns();
      const isSettled = cte["cterecursive"] !== "true" || found.every((isNotNull, at) => isNotNull === assumed[at]);
      assumed = found;
      if (isSettled) break;
    }
    this.#assumed.set(cte, assumed);
    return assumed;
  }
}

/** Never NULL, of no rows either. */
function isCount({ kind, aggfnoid }: Node, facts: Facts): boolean {
  return kind === "AGGREF" && nameOf(facts.builtin(Number(aggfnoid)) ?? "") === "count";
}

const lists = (value: Value): readonly (readonly Value[])[] =>
  Array.isArray(value) ? (value as Value[]).filter((row): row is readonly Value[] => Array.isArray(row)) : [];
