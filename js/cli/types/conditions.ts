// Finds what FROM and WHERE guarantee for each row of a query: which relations may have no row in it, so that all of
// their columns are NULL, and which columns are not NULL, because a condition would have rejected the row.
//
// Knows joins, and which expressions pass on a NULL. Must not know the catalog, or what is concluded for the query's
// columns.
import { COMMAND, JOIN, RETURNING, SUBLINK } from "./enums.ts";
import { isNode, nodes, type Node, type Value } from "../../util/node-tree.ts";

export class Conditions {
  readonly #query: Node;
  readonly #isStrictFunction: (oid: number) => boolean;
  /** By relation: the sides of joins, such as `"3 right"`, that may put NULL in place of its rows. */
  readonly #nullers = new Map<number, Set<string>>();
  /** Columns, such as `"2.1"`, that are not NULL: each row has passed a condition that rejects NULL there. */
  readonly #passed = new Set<string>();

  constructor(query: Node, isStrictFunction: (oid: number) => boolean) {
    this.#query = query;
    this.#isStrictFunction = isStrictFunction;
    const from = query["jointree"];
    if (!isNode(from)) return;
    this.#addNullers(from, []);
    this.#addConditions(from);
    // A join puts NULL in place of a whole side. So if one column of the side is never NULL, the side is present in
    // every row of the result.
    const absent = new Set([...this.#passed].flatMap((column) => [...(this.#nullers.get(parseInt(column)) ?? [])]));
    for (const sides of this.#nullers.values()) for (const side of absent) sides.delete(side);
  }

  /** Whether no row of the result has NULL in this column, even if the relation has. */
  hasPassed(relation: Value, column: number): boolean {
    return this.#passed.has(`${String(relation)}.${column}`);
  }

  /** The joins that may put NULL in place of the relation's row, by their index in the range table. */
  nullersOf(relation: Value): readonly number[] {
    return [...(this.#nullers.get(Number(relation)) ?? [])].map((side) => parseInt(side));
  }

  #addNullers(item: Value, above: readonly string[]): void {
    if (!isNode(item)) return;
    if (item.kind === "FROMEXPR") return nodes(item["fromlist"]).forEach((part) => this.#addNullers(part, above));
    if (item.kind === "RANGETBLREF") return void this.#nullers.set(Number(item["rtindex"]), new Set(above));
    const { jointype, rtindex } = item;
    this.#nullers.set(Number(rtindex), new Set(above));
    const isOneOf = (...types: string[]) => typeof jointype === "string" && types.includes(jointype);
    // An unknown kind of join may do so to both sides.
    const keepsLeft = isOneOf(JOIN.inner, JOIN.left);
    const keepsRight = isOneOf(JOIN.inner, JOIN.right);
    this.#addNullers(item["larg"], keepsLeft ? above : [...above, `${String(rtindex)} left`]);
    this.#addNullers(item["rarg"], keepsRight ? above : [...above, `${String(rtindex)} right`]);
  }

  /** Adds the conditions of WHERE, and those of ON unless a join above makes rows that have not passed them. */
  #addConditions(item: Value): void {
    if (!isNode(item)) return;
    if (item.kind === "FROMEXPR") {
      this.#addTrue(item["quals"]);
      nodes(item["fromlist"]).forEach((part) => this.#addConditions(part));
    }
    if (item.kind !== "JOINEXPR") return;
    const { jointype, larg, rarg, quals } = item;
    if (jointype === JOIN.inner) this.#addTrue(quals);
    if (jointype === JOIN.inner || jointype === JOIN.left) this.#addConditions(larg);
    if (jointype === JOIN.inner || jointype === JOIN.right) this.#addConditions(rarg);
  }

  /** Adds the columns that cannot be NULL because this condition is true. */
  #addTrue(condition: Value): void {
    if (!isNode(condition)) return;
    const { kind, boolop, nulltesttype, arg, args, subLinkType, testexpr } = condition;
    if (kind === "BOOLEXPR" && boolop === "and") return nodes(args).forEach((part) => this.#addTrue(part));
    if (kind === "BOOLEXPR" && boolop === "not") return this.#addKnown(nodes(args)[0]);
    if (kind === "NULLTEST" && nulltesttype === "1") return this.#addKnown(arg);
    // x = any (…) is not true if x is NULL. But it can be false for a NULL, and so not NULL, if the right side is
    // empty.
    if (kind === "SCALARARRAYOPEXPR" && condition["useOr"] === "true" && this.#isStrict(condition))
      this.#addKnown(nodes(args)[0]);
    if (kind === "SUBLINK" && subLinkType === SUBLINK.any && isNode(testexpr) && this.#isStrict(testexpr))
      this.#addKnown(nodes(testexpr["args"])[0]);
    this.#addKnown(condition);
  }

  /**
   * Adds the columns that cannot be NULL because this expression is not NULL: those on which it is built through strict
   * functions and operators.
   */
  #addKnown(value: Value): void {
    if (!isNode(value)) return;
    const { kind, varno, varattno, varlevelsup, varreturningtype = RETURNING.current } = value;
    // UPDATE returns its table's new rows, but the condition was checked on the old rows.
    const isChanged = this.#query["commandType"] === COMMAND.update && varno === this.#query["resultRelation"];
    if (
      kind === "VAR" &&
      !isChanged &&
      varlevelsup === "0" &&
      varreturningtype === RETURNING.current &&
      Number(varattno) > 0
    )
      this.#passed.add(`${String(varno)}.${String(varattno)}`);
    if (kind === "RELABELTYPE" || kind === "COERCEVIAIO") this.#addKnown(value["arg"]);
    if ((kind === "OPEXPR" || kind === "FUNCEXPR") && this.#isStrict(value))
      nodes(value["args"]).forEach((part) => this.#addKnown(part));
    // For x = any (array) only the array: if the array is NULL, the result is NULL with any operator.
    if (kind === "SCALARARRAYOPEXPR") this.#addKnown(nodes(value["args"])[1]);
  }

  #isStrict(call: Node): boolean {
    const oid = call["funcid"] ?? call["opfuncid"];
    return call["funcretset"] !== "true" && call["opretset"] !== "true" && this.#isStrictFunction(Number(oid));
  }
}
