//! Batches, read back as JavaScript reads them.

use super::*;
use crate::encode::{ColumnDescription, RowFormat};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;
use serde_json::Value;

type Fields = Vec<Option<Vec<u8>>>;

fn plan(types: &[(u32, i16)], format: RowFormat, strings: AsStrings) -> Plan {
    let columns = types
        .iter()
        .map(|&(type_oid, format_code)| ColumnDescription {
            name: b"c",
            type_oid,
            format_code,
        });
    let form = crate::encode::RowForm {
        strings,
        ..format.into()
    };
    Plan::new(columns, form).unwrap()
}

fn body(fields: &Fields) -> Vec<u8> {
    let mut body = Vec::from((fields.len() as i16).to_be_bytes());
    for field in fields {
        let length = field.as_ref().map_or(-1, |field| field.len() as i32);
        body.extend(length.to_be_bytes());
        body.extend(field.iter().flatten());
    }
    body
}

/// Decodes a batch as JavaScript does, by the names in the layout.
fn values(batch: &[u8]) -> Vec<Vec<Value>> {
    let number = |at: usize| u32::from_le_bytes(batch[at..at + 4].try_into().unwrap());
    let tail = batch.len() - 12;
    let [rows, text, json] = [0, 4, 8].map(|at| number(tail + at) as usize);
    let width = number(0) as usize;
    let kinds = &batch[4..4 + width];
    let json: Vec<Value> = match &batch[tail - json..tail] {
        [] => Vec::new(),
        json => serde_json::from_slice(json).unwrap(),
    };
    let mut json = json.into_iter();
    let text_start = tail - number(tail + 8) as usize - text;
    let mut text = str::from_utf8(&batch[text_start..text_start + text])
        .unwrap()
        .encode_utf16();
    let mut slots = batch[(4 + width).next_multiple_of(8)..text_start].chunks_exact(8);
    let mut slot = || <[u8; 8]>::try_from(slots.next().unwrap()).unwrap();
    let decoded = (0..rows)
        .map(|_| {
            let value = |kind: &u8| match *kind {
                slots::JSON => json.next().unwrap(),
                slots::TEXT => match i32::try_from(i64::from_le_bytes(slot()) << 32 >> 32).unwrap()
                {
                    -1 => Value::Null,
                    units => {
                        let units: Vec<u16> = text.by_ref().take(units as usize).collect();
                        String::from_utf16(&units).unwrap().into()
                    }
                },
                slots::FLOAT => match f64::from_le_bytes(slot()) {
                    value if value.to_bits() & 0xffff_ffff == 1 && value.is_nan() => Value::Null,
                    value if value.is_nan() => "NaN".into(),
                    f64::INFINITY => "Infinity".into(),
                    f64::NEG_INFINITY => "-Infinity".into(),
                    value => value.into(),
                },
                kind => match (slot(), kind) {
                    ([.., 1, 0, 0, 0], _) => Value::Null,
                    (value, slots::BOOL) => (value[0] == 1).into(),
                    (value, _) => i64::from(i64::from_le_bytes(value) as i32).into(),
                },
            };
            kinds.iter().map(value).collect()
        })
        .collect();
    assert!(json.next().is_none() && text.next().is_none() && slots.next().is_none());
    decoded
}

fn append(
    plan: &Plan,
    row: &Fields,
    slots: &mut Output,
    blocks: &mut Blocks,
) -> Result<(), RowError> {
    plan.encode_values(&body(row), &mut core::iter::empty(), 0, slots, blocks)
        .1
}

fn batch(plan: &Plan, rows: &[Fields]) -> Result<Vec<u8>, RowError> {
    let (mut slots, mut blocks) = (Output::default(), Blocks::default());
    for row in rows {
        append(plan, row, &mut slots, &mut blocks)?;
    }
    blocks.seal(&mut slots, &[], 0);
    assert!(blocks.is_empty());
    Ok(slots.into())
}

/// Compares numbers with a tolerance, because serde_json reads floats to the last digit but one.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            let [a, b] = [a, b].map(|number| number.as_f64().unwrap());
            (a - b).abs() <= a.abs() * 4.0 * f64::EPSILON
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        _ => a == b,
    }
}

fn field() -> impl Strategy<Value = ((u32, i16), Option<Vec<u8>>)> {
    let of = |type_oid: u32, bytes: BoxedStrategy<Vec<u8>>| {
        (Just((type_oid, 1)), prop::option::of(bytes)).boxed()
    };
    let text = any::<String>().prop_map(String::into_bytes).boxed();
    let json = "[0-9]{1,9}|\"[a-zé€😀]*\"|\\[1,null\\]"
        .prop_filter("no leading zero", |text| !text.starts_with('0'))
        .prop_map(String::into_bytes)
        .boxed();
    let fixed = |length: usize| prop::collection::vec(any::<u8>(), length..=length).boxed();
    prop_oneof![
        of(oid::INT2, fixed(2)),
        of(oid::INT4, fixed(4)),
        of(oid::INT8, fixed(8)),
        of(oid::OID, fixed(4)),
        of(
            oid::BOOL,
            any::<bool>()
                .prop_map(|value| vec![u8::from(value)])
                .boxed()
        ),
        of(oid::FLOAT4, fixed(4)),
        of(oid::FLOAT8, fixed(8)),
        of(oid::UUID, fixed(16)),
        of(oid::TIMESTAMP, fixed(8)),
        of(oid::BYTEA, text.clone()),
        of(oid::TEXT, text.clone()),
        of(oid::JSON, json.clone()),
        of(
            oid::JSONB,
            json.prop_map(|text| [b"\x01", &text[..]].concat()).boxed()
        ),
        (Just((999_999, 0)), prop::option::of(text)),
        (Just((oid::BOOL, 0)), Just(Some(b"t".to_vec()))),
        (Just((oid::NUMERIC, 0)), Just(Some(b"-1.50".to_vec()))),
    ]
}

proptest! {
    /// Values equal those that a reader of the rows' JSON gets.
    #[test]
    fn as_json(row in prop::collection::vec(field(), 0..12), count in 1..4_usize, numbers: bool) {
        let (types, fields): (Vec<_>, Fields) = row.into_iter().unzip();
        let strings = if numbers { AsStrings::NONE } else { AsStrings::ALL };
        let arrays = plan(&types, RowFormat::Arrays, strings);
        let columns = plan(&types, RowFormat::Columns, strings);
        let mut out = Output::default();
        let json = arrays.encode_row(&body(&fields), &mut out);
        let rows = vec![fields; count];
        match batch(&columns, &rows) {
            Err(error) => prop_assert_eq!(json, Err(error)),
            Ok(batch) => {
                json.unwrap();
                let expected: Vec<Value> = serde_json::from_slice(out.as_slice()).unwrap();
                let decoded = values(&batch);
                prop_assert_eq!(decoded.len(), count);
                for row in &decoded {
                    let all_same = row.iter().zip(&expected).all(|(a, b)| same(a, b));
                    prop_assert!(row.len() == expected.len() && all_same, "{row:?} {expected:?}");
                }
            }
        }
    }
}

#[test]
fn json_as_text_is_the_servers() {
    let strings = AsStrings {
        json: true,
        ..AsStrings::ALL
    };
    let plan = plan(
        &[(oid::JSON, 1), (oid::JSONB, 1), (oid::JSONB, 0)],
        RowFormat::Columns,
        strings,
    );
    let row = [&b"{\n}"[..], b"\x01[1, 2]", b"null"].map(|text| Some(text.to_vec()));
    let decoded = values(&batch(&plan, &[row.to_vec()]).unwrap());
    assert_eq!(decoded, [["{\n}", "[1, 2]", "null"].map(Value::from)]);
    assert!(
        batch(
            &plan,
            &[[&b"1"[..], b"\x02{}", b"1"]
                .map(|text| Some(text.to_vec()))
                .to_vec()]
        )
        .is_err()
    );
}

#[test]
fn a_row_is_taken_back_whole() {
    let plan = plan(
        &[
            (oid::INT4, 1),
            (oid::TEXT, 1),
            (oid::JSON, 1),
            (oid::INT4, 1),
        ],
        RowFormat::Columns,
        AsStrings::ALL,
    );
    let row = |last: &[u8]| {
        [&[0, 0, 0, 7][..], b"text", b"[1]", last]
            .map(|field| Some(field.to_vec()))
            .to_vec()
    };
    let (mut slots, mut blocks) = (Output::default(), Blocks::default());
    let mut add = |last: &[u8]| append(&plan, &row(last), &mut slots, &mut blocks);
    add(&[0, 0, 0, 8]).unwrap();
    add(b"bad").unwrap_err();
    blocks.seal(&mut slots, &[], 0);
    assert_eq!(
        Vec::from(slots),
        batch(&plan, &[row(&[0, 0, 0, 8])]).unwrap()
    );
}
