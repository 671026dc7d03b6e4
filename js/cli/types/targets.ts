// The targets of a query: the expressions of its columns, and the type of each.
//
// Knows nodes and the OIDs of pg_catalog's types, which PostgreSQL's source fixes. Must not know NULL.
import { COMMAND, SUBLINK } from "./enums.ts";
import { isNode, nodes, type Node, type Value } from "../../util/node-tree.ts";

export function targetsOf(query: Node): readonly Node[] {
  const isSelect = query["commandType"] === COMMAND.select;
  return nodes(query[isSelect ? "targetList" : "returningList"]).filter(({ resjunk }) => resjunk !== "true");
}

/** The OID of an expression's type, or `undefined` if that is not known. */
export function typeOf(value: Value): Value {
  if (!isNode(value)) return undefined;
  const { kind, arg, subLinkType, subselect } = value;
  if (BOOLEAN_KINDS.has(kind)) return BOOL;
  if (kind === "GROUPINGFUNC") return INT4;
  if (kind === "COLLATEEXPR" || kind === "COLLATE") return typeOf(arg);
  if (kind === "SUBLINK") {
    if (subLinkType !== SUBLINK.scalar) return subLinkType === SUBLINK.array ? undefined : BOOL;
    return isNode(subselect) ? typeOf(targetsOf(subselect)[0]?.["expr"]) : undefined;
  }
  const field = TYPE_FIELDS.find((name) => name in value);
  return field === undefined ? undefined : value[field];
}

/**
 * Whether a cast from one type to the other never makes a value NULL: the types are the same, or pg_catalog has the
 * cast.
 */
export function isLossless(from: Value, to: Value): boolean {
  if (typeof from !== "string" || typeof to !== "string") return false;
  return from === to || FAMILIES.some((family) => family.has(from) && family.has(to));
}

const BOOL = "16";
const INT4 = "23";
const BOOLEAN_KINDS: ReadonlySet<string> = new Set([
  "BOOLEXPR",
  "SCALARARRAYOPEXPR",
  "NULLTEST",
  "BOOLEANTEST",
  "DISTINCTEXPR",
]);
const TYPE_FIELDS = (
  "vartype consttype paramtype funcresulttype opresulttype resulttype refrestype casetype coalescetype minmaxtype " +
  "aggtype wintype array_typeid row_typeid type"
).split(" ");
/** Numbers, texts, times. A user cannot create another cast between two types of a family. */
const FAMILIES: readonly ReadonlySet<string>[] = [
  new Set(["20", "21", "23", "700", "701", "1700"]),
  new Set(["19", "25", "1042", "1043"]),
  new Set(["1082", "1114", "1184"]),
];
