// Built-in types that are more to the shim than their text: their names for error texts, and their array types where
// elements are looked at, as parameters or as values. From pg_type.dat.

/** The name by OID. */
export const names: Record<string, string> = {};
/** The type of the elements by the OID of an array type. */
export const elements: Record<string, number> = {};
/** The type of the bounds by the OID of a range, and the range by that of a multirange. */
export const parts: Record<string, number> = {};
for (const type of '16 bool 1000,17 bytea 1001,18 "char",19 name 1003,20 int8 1016,21 int2 1005,23 int4 1007,25 text 1009,26 oid 1028,114 json 199,603 box 1020,700 float4 1021,701 float8 1022,1042 bpchar 1014,1043 varchar 1015,1082 date 1182,1083 time 1183,1114 timestamp 1115,1184 timestamptz 1185,1186 interval 1187,1266 timetz,1700 numeric 1231,2950 uuid 2951,3802 jsonb 3807'.split(
  ",",
)) {
  const [oid = "", name = "", array = ""] = type.split(" ");
  names[oid] = name;
  elements[array] = Number(oid);
}
// int4, num, ts, tstz, date and int8; their OIDs are in this order, with gaps.
[23, 1700, 1114, 1184, 1082, 20].forEach((bound, index) => {
  const range = index < 5 ? 3904 + 2 * index : 3926;
  parts[range] = bound;
  parts[index ? 4531 + index : 4451] = range;
  elements[range + 1] = range;
});
