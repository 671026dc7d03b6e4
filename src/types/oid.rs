//! Names of the built-in types' OIDs, from PostgreSQL's `src/include/catalog/pg_type.dat` (they never change between
//! majors).
//!
//! Holds only names and numbers. `types/scalar.rs` decides which of them have a decoder.

#![allow(missing_docs, reason = "each constant is the type's own name")]

use crate::boundary::layouts;

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
pub const TID: u32 = 27;
pub const XID: u32 = 28;
pub const CID: u32 = 29;
pub const OIDVECTOR: u32 = 30;
pub const JSON: u32 = 114;
pub const JSON_ARRAY: u32 = 199;
pub const POINT: u32 = 600;
pub const LSEG: u32 = 601;
pub const PATH: u32 = 602;
pub const BOX: u32 = 603;
pub const POLYGON: u32 = 604;
pub const LINE: u32 = 628;
pub const CIDR: u32 = 650;
pub const FLOAT4: u32 = 700;
pub const FLOAT8: u32 = 701;
pub const UNKNOWN: u32 = 705;
pub const CIRCLE: u32 = 718;
pub const MACADDR8: u32 = 774;
pub const MONEY: u32 = 790;
pub const MACADDR: u32 = 829;
pub const INET: u32 = 869;
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
pub const BIT: u32 = 1560;
pub const VARBIT: u32 = 1562;
pub const NUMERIC: u32 = 1700;
pub const REFCURSOR: u32 = 1790;
pub const RECORD: u32 = 2249;
pub const CSTRING: u32 = 2275;
pub const UUID: u32 = 2950;
pub const UUID_ARRAY: u32 = 2951;
pub const TXID_SNAPSHOT: u32 = 2970;
pub const PG_LSN: u32 = 3220;
pub const JSONB: u32 = 3802;
pub const JSONB_ARRAY: u32 = 3807;
pub const JSONPATH: u32 = 4072;
pub const PG_SNAPSHOT: u32 = 5038;
pub const XID8: u32 = 5069;
/// hstore has a different OID in every database. No type of any server has this OID.
pub const HSTORE: u32 = layouts::HSTORE;
/// pgvector's vector, for the same reason.
pub const VECTOR: u32 = layouts::VECTOR;

/// Arrays and their elements, sorted. int2vector and oidvector are arrays on the wire and for `to_json`.
#[rustfmt::skip]
pub const ARRAYS: &[(u16, u16)] = &[
    (22, 21), (30, 26), (199, 114), (271, 5069), (629, 628), (651, 650), (719, 718), (775, 774), (1000, 16), (1001, 17),
    (1002, 18), (1003, 19), (1005, 21), (1006, 22), (1007, 23), (1009, 25), (1010, 27), (1011, 28), (1012, 29),
    (1013, 30), (1014, 1042), (1015, 1043), (1016, 20), (1017, 600), (1018, 601), (1019, 602), (1020, 603), (1021, 700),
    (1022, 701), (1027, 604), (1028, 26), (1040, 829), (1041, 869), (1115, 1114), (1182, 1082), (1183, 1083),
    (1185, 1184), (1187, 1186), (1231, 1700), (1263, 2275), (1270, 1266), (1561, 1560), (1563, 1562), (2201, 1790),
    (2287, 2249), (2951, 2950), (3221, 3220), (3807, 3802), (3905, 3904), (3907, 3906), (3909, 3908), (3911, 3910),
    (3913, 3912), (3927, 3926), (4073, 4072), (6150, 4451), (6151, 4532), (6152, 4533), (6153, 4534), (6155, 4535),
    (6157, 4536),
];

/// Arrays of types of which only the text is known here, and their elements, sorted.
#[rustfmt::skip]
pub const ARRAYS_OF_TEXT: &[(u16, u16)] = &[
    (143, 142), (791, 790), (1008, 24), (1034, 1033), (2207, 2202), (2208, 2203), (2209, 2204), (2210, 2205),
    (2211, 2206), (2949, 2970), (3643, 3614), (3645, 3615), (3735, 3734), (3770, 3769), (4090, 4089),
    (4097, 4096), (4192, 4191), (5039, 5038), (6442, 6437), (6491, 6490),
];

/// Ranges and their subtypes, sorted.
#[rustfmt::skip]
pub const RANGES: &[(u16, u16)] = &[(3904, 23), (3906, 1700), (3908, 1114), (3910, 1184), (3912, 1082), (3926, 20)];

/// Multiranges and their ranges, sorted.
#[rustfmt::skip]
pub const MULTIRANGES: &[(u16, u16)] = &[
    (4451, 3904), (4532, 3906), (4533, 3908), (4534, 3910), (4535, 3912), (4536, 3926),
];
