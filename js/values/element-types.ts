// Built-in types of which the shim knows more than their text: names for error messages, arrays and their elements,
// ranges and their bounds.
//
// Knows pg_type.dat and pg_range.dat. Must not know values.

/** The base types of PostgreSQL that columns of users have; `array` is the OID of the array type. */
const TYPES: readonly (readonly [oid: number, name: string, array: number])[] = [
  [16, "bool", 1000],
  [17, "bytea", 1001],
  [18, '"char"', 1002],
  [19, "name", 1003],
  [20, "int8", 1016],
  [21, "int2", 1005],
  [23, "int4", 1007],
  [25, "text", 1009],
  [26, "oid", 1028],
  [114, "json", 199],
  [142, "xml", 143],
  [600, "point", 1017],
  [601, "lseg", 1018],
  [602, "path", 1019],
  [603, "box", 1020],
  [604, "polygon", 1027],
  [628, "line", 629],
  [650, "cidr", 651],
  [700, "float4", 1021],
  [701, "float8", 1022],
  [718, "circle", 719],
  [774, "macaddr8", 775],
  [790, "money", 791],
  [829, "macaddr", 1040],
  [869, "inet", 1041],
  [1042, "bpchar", 1014],
  [1043, "varchar", 1015],
  [1082, "date", 1182],
  [1083, "time", 1183],
  [1114, "timestamp", 1115],
  [1184, "timestamptz", 1185],
  [1186, "interval", 1187],
  [1266, "timetz", 1270],
  [1560, "bit", 1561],
  [1562, "varbit", 1563],
  [1700, "numeric", 1231],
  [1790, "refcursor", 2201],
  [2205, "regclass", 2210],
  [2206, "regtype", 2211],
  [2950, "uuid", 2951],
  [3220, "pg_lsn", 3221],
  [3614, "tsvector", 3643],
  [3615, "tsquery", 3645],
  [3802, "jsonb", 3807],
  [4072, "jsonpath", 4073],
  [5069, "xid8", 271],
];

interface Range {
  readonly name: string;
  readonly range: number;
  readonly bound: number;
  readonly array: number;
  readonly multirange: number;
  readonly multiranges: number;
}

/** `array` and `multiranges` are the OIDs of the array types. */
const RANGES: readonly Range[] = [
  { name: "int4", range: 3904, bound: 23, array: 3905, multirange: 4451, multiranges: 6150 },
  { name: "num", range: 3906, bound: 1700, array: 3907, multirange: 4532, multiranges: 6151 },
  { name: "ts", range: 3908, bound: 1114, array: 3909, multirange: 4533, multiranges: 6152 },
  { name: "tstz", range: 3910, bound: 1184, array: 3911, multirange: 4534, multiranges: 6153 },
  { name: "date", range: 3912, bound: 1082, array: 3913, multirange: 4535, multiranges: 6155 },
  { name: "int8", range: 3926, bound: 20, array: 3927, multirange: 4536, multiranges: 6157 },
];

/** Type names by OID. */
export const names: Record<number, string> = {};
/** The element type by the OID of an array type. */
export const elements: Record<number, number> = {};
/** The type of the bounds by the OID of a range type, and the range type by the OID of a multirange type. */
export const parts: Record<number, number> = {};

for (const [oid, name, array] of TYPES) {
  names[oid] = name;
  elements[array] = oid;
}
for (const { name, range, bound, array, multirange, multiranges } of RANGES) {
  names[range] = `${name}range`;
  names[multirange] = `${name}multirange`;
  parts[range] = bound;
  parts[multirange] = range;
  elements[array] = range;
  elements[multiranges] = multirange;
}
