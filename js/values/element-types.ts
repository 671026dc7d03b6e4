// Built-in types of which the shim knows more than their text: names for error messages, arrays and their elements,
// ranges and their bounds.
//
// Knows pg_type.dat and pg_range.dat. Must not know values.

/** `array` is the OID of the array type, if the shim looks at its elements. */
const TYPES: readonly (readonly [oid: number, name: string, array?: number])[] = [
  [16, "bool", 1000],
  [17, "bytea", 1001],
  [18, '"char"'],
  [19, "name", 1003],
  [20, "int8", 1016],
  [21, "int2", 1005],
  [23, "int4", 1007],
  [25, "text", 1009],
  [26, "oid", 1028],
  [114, "json", 199],
  [142, "xml"],
  [603, "box", 1020],
  [700, "float4", 1021],
  [701, "float8", 1022],
  [1042, "bpchar", 1014],
  [1043, "varchar", 1015],
  [1082, "date", 1182],
  [1083, "time", 1183],
  [1114, "timestamp", 1115],
  [1184, "timestamptz", 1185],
  [1186, "interval", 1187],
  [1266, "timetz"],
  [1700, "numeric", 1231],
  [1790, "refcursor"],
  [2950, "uuid", 2951],
  [3614, "tsvector"],
  [3615, "tsquery"],
  [3802, "jsonb", 3807],
];

const RANGES: readonly { range: number; bound: number; array: number; multirange: number }[] = [
  { range: 3904, bound: 23, array: 3905, multirange: 4451 }, // int4range
  { range: 3906, bound: 1700, array: 3907, multirange: 4532 }, // numrange
  { range: 3908, bound: 1114, array: 3909, multirange: 4533 }, // tsrange
  { range: 3910, bound: 1184, array: 3911, multirange: 4534 }, // tstzrange
  { range: 3912, bound: 1082, array: 3913, multirange: 4535 }, // daterange
  { range: 3926, bound: 20, array: 3927, multirange: 4536 }, // int8range
];

/** Type names by OID. */
export const names: Record<number, string> = {};
/** The element type by the OID of an array type. */
export const elements: Record<number, number> = {};
/** The type of the bounds by the OID of a range type, and the range type by the OID of a multirange type. */
export const parts: Record<number, number> = {};

for (const [oid, name, array] of TYPES) {
  names[oid] = name;
  if (array !== undefined) elements[array] = oid;
}
for (const { range, bound, array, multirange } of RANGES) {
  parts[range] = bound;
  parts[multirange] = range;
  elements[array] = range;
}
