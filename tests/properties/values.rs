//! Values and rows: any bytes become valid JSON on one line, or are refused.

use crate::cases;
use pgz_edge::encode::{ColumnDescription, Plan, RowFormat};
use pgz_edge::types::{AsStrings, Encoder, Types, oid};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use std::sync::LazyLock;

/// The OIDs of all types with a decoder of their own.
pub(crate) static TYPES: LazyLock<Vec<u32>> = LazyLock::new(|| {
    let all = (1..7000).chain(20_000..20_010);
    all.filter(|oid| DEFINED.with(|types| types.has_binary_encoder(*oid)))
        .collect()
});

thread_local! {
    /// A domain over int8, an enum, their composite and its array, a range and its multirange, and a composite of all
    /// of them.
    pub(crate) static DEFINED: Types = Types::new(
        &[
            20000, 0, 20, 0, 20001, 0, 25, 0, 20002, 4, 2, 0, 20003, 1, 20002, 0,
            20004, 2, 25, 0, 20005, 3, 20004, 0, 20006, 4, 4, 2,
        ],
        &[20000, 0, 1, 20001, 1, 3, 20003, 0, 1, 20004, 1, 2, 20005, 2, 3, 2249, 3, 4],
        "a\"\nb",
    );
}

/// Returns whether a value of the type contains the server's JSON unchanged.
pub(crate) fn passes_json_on(type_oid: u32) -> bool {
    [
        oid::JSON,
        oid::JSONB,
        oid::JSON_ARRAY,
        oid::JSONB_ARRAY,
        oid::RECORD,
        2287,
        20_006,
    ]
    .contains(&type_oid)
}

/// Checks that a value is one JSON value on one line. (A json value passes as the server wrote it.)
pub(crate) fn is_json(type_oid: u32, out: &[u8]) -> Result<(), TestCaseError> {
    if passes_json_on(type_oid) {
        return Ok(());
    }
    let shown = out.escape_ascii();
    prop_assert!(!out.contains(&b'\n'), "{} is more than a line", shown);
    if str::from_utf8(out).is_ok() {
        let parsed = serde_json::from_slice::<serde_json::Value>(out);
        let is_float_range = |error: &serde_json::Error| error.to_string().contains("out of range");
        let is_read = parsed.is_ok() || parsed.as_ref().is_err_and(is_float_range);
        prop_assert!(is_read, "type {}: {}", type_oid, shown);
    }
    Ok(())
}

/// numeric, its array, ranges and multiranges and their arrays, and records.
const HOLDS_NUMERICS: [u32; 9] = [
    1700,
    1231,
    3906,
    3907,
    4532,
    6151,
    oid::RECORD,
    2287,
    20_006,
];

/// A value's bytes: random, or the small numbers of which counts, lengths, signs and scales consist.
fn value() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        Just(vec![0, 0, 0, 0]),
        Just(vec![0xff; 4]),
        (0..30_u8).prop_map(|n| vec![0, 0, 0, n]),
        vec(any::<u8>(), 1..5)
    ];
    let sized = |value: Vec<u8>| [&(value.len() as u32).to_be_bytes()[..], &value].concat();
    let field = (any::<Index>(), vec(any::<u8>(), 0..9)).prop_map(move |(at, value)| {
        let type_oid = TYPES[at.index(TYPES.len())];
        [&type_oid.to_be_bytes()[..], &sized(value)].concat()
    });
    let range = (0..0x20_u8, vec(vec(any::<u8>(), 0..9), 0..3)).prop_map(move |(flags, bounds)| {
        [vec![flags], bounds.into_iter().flat_map(sized).collect()].concat()
    });
    let counted =
        |items: Vec<Vec<u8>>| [&(items.len() as u32).to_be_bytes()[..], &items.concat()].concat();
    prop_oneof![
        vec(any::<u8>(), 0..40),
        vec(word, 0..12).prop_map(|words| words.concat()),
        vec(field, 0..4).prop_map(counted),
        range.clone(),
        vec(range.prop_map(sized), 0..3).prop_map(counted)
    ]
}

proptest! {
    #![proptest_config(cases(60_000))]

    /// Any bytes are a value of their type or refused, in both forms and both formats. A value is one JSON value on one
    /// line, and not much longer than its bytes. (A json value passes as the server wrote it.)
    #[test]
    fn value_decoders_are_total(
        at in any::<Index>(), bytes in value(), format_code in 0..2_i16, objects in any::<bool>(),
    ) {
        let type_oid = TYPES[at.index(TYPES.len())];
        let form = if objects { AsStrings::ALL } else { AsStrings::NONE };
        let encoder = DEFINED.with(|types| Encoder::with_types(type_oid, format_code, form, types)).unwrap();
        let mut out = vec![];
        if encoder.encode(&bytes, &mut out).is_ok() {
            // A numeric of eight bytes may have 131,072 digits, and may be inside a type that can hold any type.
            let numerics = if HOLDS_NUMERICS.contains(&type_oid) { bytes.len() / 8 + 1 } else { 0 };
            prop_assert!(out.len() <= 64 * (bytes.len() + 1) + numerics * 150_000, "{} bytes", out.len());
            is_json(type_oid, &out)?;
        }
    }

    /// Any row body is one whole line, or is refused.
    #[test]
    fn rows_are_whole_lines(
        columns in vec(any::<Index>(), 0..4), fields in vec(prop::option::of(value()), 0..4),
        tail in vec(any::<u8>(), 0..2), ndjson in any::<bool>(),
    ) {
        let types: Vec<u32> = columns.iter().map(|at| TYPES[at.index(TYPES.len())]).collect();
        let column = |type_oid: &u32| ColumnDescription { name: b"a\"b", type_oid: *type_oid, format_code: 1 };
        let columns: Vec<_> = types.iter().map(column).collect();
        let form = if ndjson { RowFormat::Ndjson } else { RowFormat::Arrays };
        let plan = DEFINED.with(|types| Plan::with_types(&columns, form.into(), types)).unwrap();
        let mut body = (fields.len() as u16).to_be_bytes().to_vec();
        for field in &fields {
            body.extend(field.as_ref().map_or(-1, |value| value.len() as i32).to_be_bytes());
            body.extend(field.iter().flatten());
        }
        body.extend(tail);
        let mut out = b"before\n".to_vec();
        if plan.encode_row(&body, &mut out).is_ok() {
            prop_assert!(out.ends_with(b"\n"));
            let one_line = out.iter().filter(|byte| **byte == b'\n').count() == 2;
            prop_assert!(one_line || types.iter().copied().any(passes_json_on), "{}", out.escape_ascii());
        }
        prop_assert!(out.starts_with(b"before\n"));
    }
}
