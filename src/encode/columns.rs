//! Rows on their way to JavaScript values: a slot of eight bytes per value, and what is longer in one text and one JSON array per batch.
//!
//! JavaScript decodes each block with one call, which is what makes it fast; it knows no types, only the kinds of the head. One batch:
//!
//! ```text
//! head     u32 columns, a kind per column, zeros up to a multiple of 8
//! slots    8 bytes per row and column that is not of kind Json, little-endian:
//!          Int, Bool   i32 value, i32 1 for NULL         Float   f64; NULL is the NaN with 1 in its low word
//!          Text        i32 UTF-16 units (-1 NULL), i32 bytes
//! text     the texts of these rows, one behind the other
//! json     [v,v,…]: the values of all columns of kind Json, row by row, NULL as null; nothing when there is no such column
//! tail     u32 rows, u32 bytes of text, u32 bytes of json
//! ```
//! While rows come, text and json grow in buffers of their own; [`Blocks::seal`] puts them together.

use super::{Column, Plan, RowError};
use crate::types::output::{BLOCK, Output, Target, Writer};
use crate::types::{Cell, Encoder, InvalidValue, Strings, oid};

/// What the slots of a batch point to.
#[derive(Debug, Default)]
pub struct Blocks {
    text: Output,
    json: Output,
    row_count: u32,
}

/// Where a batch ended before a row.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    text: usize,
    json: usize,
    row_count: u32,
}

/// What becomes of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Int2,
    Int4,
    Bool,
    Oid,
    Int8,
    Float8,
    /// The bytes are the text.
    Text,
    /// As `Text`, behind jsonb's version.
    JsonbText,
    /// The text is the JSON string without its quotes, and ASCII.
    Plain,
    Json,
}

/// The kinds as JavaScript knows them (js/core/rows.ts).
const INT: u8 = 0;
const BOOL: u8 = 1;
const FLOAT: u8 = 2;
const TEXT: u8 = 3;
const JSON: u8 = 4;

const NULL_INT: [u8; 8] = [0, 0, 0, 0, 1, 0, 0, 0];
const NULL_FLOAT: [u8; 8] = [1, 0, 0, 0, 0, 0, 0xf8, 0x7f];
const NULL_TEXT: [u8; 8] = [0xff; 8];

impl Kind {
    pub(super) fn new(
        type_oid: u32,
        format_code: i16,
        encoder: &Encoder,
        strings: Strings,
    ) -> Kind {
        let binary = format_code == 1;
        match type_oid {
            oid::INT2 if binary => Kind::Int2,
            oid::INT4 if binary => Kind::Int4,
            oid::BOOL if binary => Kind::Bool,
            oid::OID if binary => Kind::Oid,
            oid::INT8 if binary && !strings.int8 => Kind::Int8,
            oid::FLOAT8 if binary => Kind::Float8,
            // Digits between quotes.
            oid::INT8 if strings.int8 => Kind::Plain,
            oid::NUMERIC if strings.numeric => Kind::Plain,
            oid::JSON if strings.json => Kind::Text,
            oid::JSONB if strings.json && binary => Kind::JsonbText,
            oid::JSONB if strings.json => Kind::Text,
            oid::JSON | oid::JSONB => Kind::Json,
            _ => match encoder.cell(b"") {
                Cell::Text(_) => Kind::Text,
                Cell::Plain => Kind::Plain,
                Cell::Array | Cell::Json => Kind::Json,
            },
        }
    }

    fn code(self) -> u8 {
        match self {
            Kind::Int2 | Kind::Int4 => INT,
            Kind::Bool => BOOL,
            Kind::Oid | Kind::Int8 | Kind::Float8 => FLOAT,
            Kind::Text | Kind::JsonbText | Kind::Plain => TEXT,
            Kind::Json => JSON,
        }
    }
}

impl Blocks {
    /// Bytes of both.
    pub fn len(&self) -> usize {
        self.text.len().saturating_add(self.json.len())
    }

    /// Whether a batch waits for its tail.
    pub fn is_empty(&self) -> bool {
        self.row_count == 0
    }

    /// Where it ends now.
    pub fn mark(&self) -> Mark {
        Mark {
            text: self.text.len(),
            json: self.json.len(),
            row_count: self.row_count,
        }
    }

    /// Takes back what came behind `mark`.
    pub fn take_back(&mut self, mark: Mark) {
        self.text.truncate(mark.text);
        self.json.truncate(mark.json);
        self.row_count = mark.row_count;
    }

    /// Empties it; of the room at most `keep` bytes per block stay.
    pub fn clear(&mut self, keep: usize) {
        self.text.clear(keep);
        self.json.clear(keep);
        self.row_count = 0;
    }

    /// Puts the blocks behind the slots, which then are a whole batch.
    pub fn seal(&mut self, slots: &mut Output, keep: usize) {
        slots.write(|out| {
            out.put_slice(self.text.as_slice());
            out.put_slice(self.json.as_slice());
            let has_json = !self.json.is_empty();
            out.put_block(b"]", usize::from(has_json));
            let json_length = self.json.len().saturating_add(usize::from(has_json));
            for number in [self.row_count, self.text.len() as u32, json_length as u32] {
                out.put(&number.to_le_bytes());
            }
        });
        self.clear(keep);
    }
}

impl Plan {
    /// Appends one whole row: its slots to `slots`, the rest to `blocks`. On an error both may end in a part of the row; the caller
    /// takes it back.
    pub fn encode_values(
        &self,
        body: &[u8],
        slots: &mut Output,
        blocks: &mut Blocks,
    ) -> Result<(), RowError> {
        if slots.is_empty() {
            slots.write(|out| self.append_head(out));
        }
        let Blocks {
            text,
            json,
            row_count,
        } = blocks;
        slots.write(|slots| {
            text.write(|text| {
                json.write(|json| {
                    self.for_each_field(body, |column, value, readable| {
                        let mut to = Row { slots, text, json };
                        match value {
                            Some(value) => to.append(column, value, readable),
                            None => {
                                to.append_null(column.kind);
                                Ok(())
                            }
                        }
                    })
                })
            })
        })?;
        *row_count = row_count.saturating_add(1);
        Ok(())
    }

    fn append_head(&self, out: &mut Writer<'_>) {
        out.put(&(self.columns.len() as u32).to_le_bytes());
        for column in &self.columns {
            out.put(&[column.kind.code()]);
        }
        out.put_block(&[0; BLOCK], (4 + 7 * self.columns.len()) % 8);
    }
}

/// Where one row goes.
struct Row<'a, 'slots, 'text, 'json> {
    slots: &'a mut Writer<'slots>,
    text: &'a mut Writer<'text>,
    json: &'a mut Writer<'json>,
}

impl Row<'_, '_, '_, '_> {
    #[inline(always)]
    fn append(
        &mut self,
        column: &Column,
        value: &[u8],
        readable: &[u8],
    ) -> Result<(), InvalidValue> {
        let int = |value: i32| u64::from(value as u32);
        let slot = match column.kind {
            Kind::Int4 => int(i32::from_be_bytes(fixed(column, value)?)),
            Kind::Int2 => int(i16::from_be_bytes(fixed(column, value)?).into()),
            Kind::Bool => int(i32::from(fixed(column, value)? != [0])),
            Kind::Oid => f64::from(u32::from_be_bytes(fixed(column, value)?)).to_bits(),
            // Whoever asks for numbers accepts that those beyond 2^53 are rounded.
            Kind::Int8 => (i64::from_be_bytes(fixed(column, value)?) as f64).to_bits(),
            Kind::Float8 => match f64::from_be_bytes(fixed(column, value)?) {
                // The server's may be any; one of them is our NULL.
                value if value.is_nan() => f64::NAN.to_bits(),
                value => value.to_bits(),
            },
            Kind::Text | Kind::JsonbText => {
                let (text, readable) = match (column.kind, value, readable) {
                    (Kind::Text, ..) => (value, readable),
                    (_, [1, text @ ..], [_, readable @ ..]) => (text, readable),
                    _ => return Err(column.encoder.invalid("unknown version of jsonb")),
                };
                self.text.put_within(readable, text.len());
                lengths(utf16_units(text), text.len())
            }
            Kind::Plain => {
                let start = self.text.position();
                self.text
                    .without_quotes(|out| column.encoder.append_rarely(value, out))?;
                let length = self.text.position().saturating_sub(start);
                lengths(length, length)
            }
            Kind::Json => {
                self.put_comma();
                return column.encoder.append_rarely(value, self.json);
            }
        };
        self.slots.put(&slot.to_le_bytes());
        Ok(())
    }

    #[inline(always)]
    fn append_null(&mut self, kind: Kind) {
        let null = match kind.code() {
            INT | BOOL => NULL_INT,
            FLOAT => NULL_FLOAT,
            TEXT => NULL_TEXT,
            _ => {
                self.put_comma();
                return self.json.put(b"null");
            }
        };
        self.slots.put(&null);
    }

    #[inline(always)]
    fn put_comma(&mut self) {
        let comma = if self.json.position() == 0 {
            b"["
        } else {
            b","
        };
        self.json.put(comma);
    }
}

#[inline(always)]
fn lengths(units: usize, bytes: usize) -> u64 {
    (bytes as u64) << 32 | units as u64
}

#[inline(always)]
fn fixed<const N: usize>(column: &Column, value: &[u8]) -> Result<[u8; N], InvalidValue> {
    value
        .try_into()
        .map_err(|_| column.encoder.invalid("wrong length for its type"))
}

/// Units of UTF-16 of a text in UTF-8: a character has one, that of four bytes two. What is no UTF-8 (a database in SQL_ASCII) JavaScript notices.
#[inline(always)]
fn utf16_units(text: &[u8]) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    utf16_units_of_characters(text)
}

#[inline(never)]
fn utf16_units_of_characters(text: &[u8]) -> usize {
    text.iter()
        .map(|&byte| usize::from(byte & 0xc0 != 0x80) + usize::from(byte >= 0xf0))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::{ColumnDescription, RowFormat};
    use alloc::string::String;
    use alloc::vec;
    use alloc::vec::Vec;
    use proptest::prelude::*;
    use serde_json::Value;

    type Fields = Vec<Option<Vec<u8>>>;

    fn plan(types: &[(u32, i16)], format: RowFormat, strings: Strings) -> Plan {
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

    /// What JavaScript makes of a batch, written with the names of the layout.
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
                    JSON => json.next().unwrap(),
                    TEXT => match i32::try_from(i64::from_le_bytes(slot()) << 32 >> 32).unwrap() {
                        -1 => Value::Null,
                        units => {
                            let units: Vec<u16> = text.by_ref().take(units as usize).collect();
                            String::from_utf16(&units).unwrap().into()
                        }
                    },
                    FLOAT => match f64::from_le_bytes(slot()) {
                        value if value.to_bits() & 0xffff_ffff == 1 && value.is_nan() => {
                            Value::Null
                        }
                        value if value.is_nan() => "NaN".into(),
                        f64::INFINITY => "Infinity".into(),
                        f64::NEG_INFINITY => "-Infinity".into(),
                        value => value.into(),
                    },
                    kind => match (slot(), kind) {
                        ([.., 1, 0, 0, 0], _) => Value::Null,
                        (value, BOOL) => (value[0] == 1).into(),
                        (value, _) => i64::from(i64::from_le_bytes(value) as i32).into(),
                    },
                };
                kinds.iter().map(value).collect()
            })
            .collect();
        assert!(json.next().is_none() && text.next().is_none() && slots.next().is_none());
        decoded
    }

    fn batch(plan: &Plan, rows: &[Fields]) -> Result<Vec<u8>, RowError> {
        let (mut slots, mut blocks) = (Output::default(), Blocks::default());
        for row in rows {
            plan.encode_values(&body(row), &mut slots, &mut blocks)?;
        }
        blocks.seal(&mut slots, 0);
        assert!(blocks.is_empty());
        Ok(slots.into())
    }

    /// serde_json reads floats to the last digit but one.
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
        /// Values are what a reader of the rows' JSON gets.
        #[test]
        fn as_json(row in prop::collection::vec(field(), 0..12), count in 1..4_usize, numbers: bool) {
            let (types, fields): (Vec<_>, Fields) = row.into_iter().unzip();
            let strings = if numbers { Strings::NONE } else { Strings::ALL };
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
                        prop_assert!(row.len() == expected.len() && row.iter().zip(&expected).all(|(a, b)| same(a, b)), "{row:?} {expected:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn json_as_text_is_the_servers() {
        let strings = Strings {
            json: true,
            ..Strings::ALL
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
            Strings::ALL,
        );
        let row = |last: &[u8]| {
            [&[0, 0, 0, 7][..], b"text", b"[1]", last]
                .map(|field| Some(field.to_vec()))
                .to_vec()
        };
        let (mut slots, mut blocks) = (Output::default(), Blocks::default());
        plan.encode_values(&body(&row(&[0, 0, 0, 8])), &mut slots, &mut blocks)
            .unwrap();
        let (start, mark) = (slots.len(), blocks.mark());
        plan.encode_values(&body(&row(b"bad")), &mut slots, &mut blocks)
            .unwrap_err();
        blocks.take_back(mark);
        slots.truncate(start);
        blocks.seal(&mut slots, 0);
        assert_eq!(
            Vec::from(slots),
            batch(&plan, &[row(&[0, 0, 0, 8])]).unwrap()
        );
    }
}
