// OIDs of the types whose values the shim looks at, by pg_type.dat.
//
// Numbers only; what else is known of a type is in element-types.ts.

export const BOOL = 16;
export const BYTEA = 17;
export const NAME = 19;
export const INT8 = 20;
export const INT2 = 21;
export const INT4 = 23;
export const TEXT = 25;
export const OID = 26;
export const JSON_ = 114;
export const BOX = 603;
export const FLOAT4 = 700;
export const FLOAT8 = 701;
export const UNKNOWN = 705;
export const BPCHAR = 1042;
export const VARCHAR = 1043;
export const DATE = 1082;
export const TIME = 1083;
export const TIMESTAMP = 1114;
export const TIMESTAMPTZ = 1184;
export const INTERVAL = 1186;
export const NUMERIC = 1700;
export const RECORD = 2249;
export const RECORD_ARRAY = 2287;
export const UUID = 2950;
export const JSONB = 3802;

/** OIDs below this are the same in every database, and the core knows those whose values can be read. */
export const FIRST_OF_A_DATABASE = 10_000;
