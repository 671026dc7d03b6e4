//! Names of the built-in types' OIDs, from PostgreSQL's `src/include/catalog/pg_type.dat` (they never change between majors).
//!
//! Only names and numbers live here; which of them have a decoder is `types/mod.rs`' business.

#![allow(missing_docs, reason = "each constant is the type's own name")]

pub const BOOL: u32 = 16;
pub const BYTEA: u32 = 17;
/// The one-byte type `"char"`, not `character(n)`.
pub const CHAR: u32 = 18;
pub const NAME: u32 = 19;
pub const INT8: u32 = 20;
pub const INT2: u32 = 21;
pub const INT2VECTOR: u32 = 22;
pub const INT4: u32 = 23;
pub const TEXT: u32 = 25;
pub const OID: u32 = 26;
pub const OIDVECTOR: u32 = 30;
pub const JSON: u32 = 114;
pub const JSON_ARRAY: u32 = 199;
pub const FLOAT4: u32 = 700;
pub const FLOAT8: u32 = 701;
pub const UNKNOWN: u32 = 705;
pub const BOOL_ARRAY: u32 = 1000;
pub const BYTEA_ARRAY: u32 = 1001;
pub const CHAR_ARRAY: u32 = 1002;
pub const NAME_ARRAY: u32 = 1003;
pub const INT2_ARRAY: u32 = 1005;
pub const INT4_ARRAY: u32 = 1007;
pub const TEXT_ARRAY: u32 = 1009;
pub const BPCHAR_ARRAY: u32 = 1014;
pub const VARCHAR_ARRAY: u32 = 1015;
pub const INT8_ARRAY: u32 = 1016;
pub const FLOAT4_ARRAY: u32 = 1021;
pub const FLOAT8_ARRAY: u32 = 1022;
pub const OID_ARRAY: u32 = 1028;
pub const BPCHAR: u32 = 1042;
pub const VARCHAR: u32 = 1043;
pub const DATE: u32 = 1082;
pub const TIME: u32 = 1083;
pub const TIMESTAMP: u32 = 1114;
pub const TIMESTAMP_ARRAY: u32 = 1115;
pub const DATE_ARRAY: u32 = 1182;
pub const TIME_ARRAY: u32 = 1183;
pub const TIMESTAMPTZ: u32 = 1184;
pub const TIMESTAMPTZ_ARRAY: u32 = 1185;
pub const INTERVAL: u32 = 1186;
pub const INTERVAL_ARRAY: u32 = 1187;
pub const NUMERIC_ARRAY: u32 = 1231;
pub const TIMETZ: u32 = 1266;
pub const TIMETZ_ARRAY: u32 = 1270;
pub const NUMERIC: u32 = 1700;
pub const UUID: u32 = 2950;
pub const UUID_ARRAY: u32 = 2951;
pub const JSONB: u32 = 3802;
pub const JSONB_ARRAY: u32 = 3807;
