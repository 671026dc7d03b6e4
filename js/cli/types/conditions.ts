// What FROM and WHERE make certain of each row of a query: which relations may have no row there, so that all of their
// columns are NULL, and which columns are not NULL, since a condition would not have let them through.
//
// Knows joins, and which expressions a NULL goes through. Must not know the catalog, nor what columns come to.
import { COMMAND, JOIN, RETURNING, SUBLINK } from "./enums.ts";
import { isNode, nodes, type Node, type Value } from "./tree.ts";

export class Conditions {
  readonly #query: Node;
  readonly #isStrictFunction: (oid: number) => boolean;
  /** By relation: the sides of joins, `"3 right"`, that put NULL in place of its rows. */
  readonly #nullers = new Map<number, Set<string>>();
  /** Columns, `"2.1"`, that a condition which each row has passed would not have passed as NULL. */
  readonly #passed = new Set<string>();

  constructor(query: Node, isStrictFunction: (oid: number) => boolean) {
    this.#query = query;
    this.#isStrictFunction = isStrictFunction;
    const from = query["jointree"];
    if (!isNode(from)) return;
    this.#addNullers(from, []);
    this.#addConditions(from);
    // A row that put NULL in place of one relation's row did so for all of that side: where one of its columns is
    // never NULL, no row of the result has it.
    const absent = new Set([...this.#passed].flatMap((column) => [...(this.#nullers.get(parseInt(column)) ?? [])]));
    for (const sides of this.#nullers.values()) for (const side of absent) sides.delete(side);
  }

  /** Whether no row has NULL there, whatever the relation has. */
  hasPassed(relation: Value, column: number): boolean {
    return this.#passed.has(`${String(relation)}.${column}`);
  }

  /** The joins, by their own numbers, that may put NULL in place of the relation's row. */
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
      this.#addTrue(item["quals"]);
      nodes(item["fromlist"]).forEach((part) => this.#addConditions(part));
    }
    if (item.kind !== "JOINEXPR") return;
    const { jointype, larg, rarg, quals } = item;
    if (jointype === JOIN.inner) this.#addTrue(quals);
    if (jointype === JOIN.inner || jointype === JOIN.left) this.#addConditions(larg);
    if (jointype === JOIN.inner || jointype === JOIN.right) this.#addConditions(rarg);
  }

  /** What cannot be NULL since this condition is true. */
  #addTrue(condition: Value): void {
    if (!isNode(condition)) return;
    const { kind, boolop, nulltesttype, arg, args, subLinkType, testexpr } = condition;
    if (kind === "BOOLEXPR" && boolop === "and") return nodes(args).forEach((part) => this.#addTrue(part));
    if (kind === "BOOLEXPR" && boolop === "not") return this.#addKnown(nodes(args)[0]);
    if (kind === "NULLTEST" && nulltesttype === "1") return this.#addKnown(arg);
    // x = any (…) is not true for a NULL on the left. It is false, and so not NULL, where there is nothing on the
    // right.
    if (kind === "SCALARARRAYOPEXPR" && condition["useOr"] === "true" && this.#isStrict(condition))
      this.#addKnown(nodes(args)[0]);
    if (kind === "SUBLINK" && subLinkType === SUBLINK.any && isNode(testexpr) && this.#isStrict(testexpr))
      this.#addKnown(nodes(testexpr["args"])[0]);
    this.#addKnown(condition);
  }

  /** What cannot be NULL since this expression is true or false: the columns that it is built on, through what is strict. */
  #addKnown(value: Value): void {
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
    if (kind === "RELABELTYPE" || kind === "COERCEVIAIO") this.#addKnown(value["arg"]);
    if ((kind === "OPEXPR" || kind === "FUNCEXPR") && this.#isStrict(value))
      nodes(value["args"]).forEach((part) => this.#addKnown(part));
    // Of x = any (array) only the array: without one the answer is NULL, by any operator.
    if (kind === "SCALARARRAYOPEXPR") this.#addKnown(nodes(value["args"])[1]);
  }

  #isStrict(call: Node): boolean {
    const oid = call["funcid"] ?? call["opfuncid"];
    return call["funcretset"] !== "true" && call["opretset"] !== "true" && this.#isStrictFunction(Number(oid));
  }
}
