//! From DataRow to one line of JSON.
//!
//! A [`Plan`] is made once per RowDescription and holds all that does not change from row to row: one encoder per column, and each
//! key escaped already. It knows rows and columns; what a value looks like is `types`' business, where the line goes the caller's.

use alloc::boxed::Box;

pub use crate::types::output::Output;
use crate::types::output::{BLOCK, Target, Writer};
use crate::types::{Encoder, json_string};
pub use crate::types::{InvalidValue, JsonForm, UnknownBinary};

/// What a plan must know of a column of RowDescription.
#[derive(Clone, Copy, Debug)]
pub struct ColumnDescription<'a> {
    /// Name, in UTF-8.
    pub name: &'a [u8],
    /// Type.
    pub type_oid: u32,
    /// 0 text, 1 binary.
    pub format_code: i16,
}

/// The form of one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFormat {
    /// `{"id":1,"n m":"x"}`, in the server's own JSON.
    Ndjson,
    /// `[1,"x"]`, for JavaScript objects: int8 and numeric are strings.
    Arrays,
}

/// Why a row could not be encoded. All of them mean that the server's message is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowError {
    /// The row has another number of columns than RowDescription; `found` is -1 where not even the number is there.
    FieldCount {
        /// Columns of the plan.
        expected: usize,
        /// What the row says.
        found: i16,
    },
    /// The field's length is negative (and not -1) or runs past the end of the row.
    FieldLength {
        /// From 0.
        column: usize,
    },
    /// Bytes behind the last field.
    TrailingBytes,
    /// The field's bytes are no value of its type.
    Value {
        /// From 0.
        column: usize,
        /// What is wrong.
        error: InvalidValue,
    },
}

/// How the rows of one result become JSON.
#[derive(Clone, Debug)]
pub struct Plan {
    columns: Box<[Column]>,
    closing: [u8; 2],
    /// For a row without columns.
    empty: [u8; 3],
}

#[derive(Clone, Debug)]
struct Column {
    lead: Lead,
    encoder: Encoder,
}

/// All that stands between the value before and this one: `{"id":`, `,"n m":`, `[`, `,`. In whole blocks, so that writing a usual one
/// is one store.
#[derive(Clone, Debug)]
struct Lead {
    first: [u8; BLOCK],
    further: Box<[[u8; BLOCK]]>,
    length: usize,
}

impl Lead {
    fn new(opening: u8, key: Option<&[u8]>) -> Lead {
        let mut text = Output::default();
        text.write(|out| {
            out.put(&[opening]);
            if let Some(key) = key {
                json_string::append(out, key);
                out.put(b":");
            }
        });
        let length = text.len();
        text.write(|out| out.put(&[0; BLOCK]));
        let (blocks, _) = text.as_slice().as_chunks();
        let (first, further) = blocks
            .split_first()
            .map_or(([0; BLOCK], Default::default()), |(first, further)| {
                (*first, further.into())
            });
        Lead {
            first,
            further,
            length,
        }
    }

    #[inline(always)]
    fn append(&self, out: &mut Writer<'_>) {
        // Both lie in memory: no overflow.
        let end = out.position().wrapping_add(self.length);
        out.put(&self.first);
        if self.length > BLOCK {
            for block in &self.further {
                out.put(block);
            }
        }
        out.truncate(end);
    }
}

impl Plan {
    /// The plan for columns in the order of RowDescription. The error: a column in a binary form that nobody asked for.
    pub fn new<'a>(
        columns: impl Iterator<Item = ColumnDescription<'a>>,
        format: RowFormat,
    ) -> Result<Plan, UnknownBinary> {
        let (form, opening, closing, empty) = match format {
            RowFormat::Ndjson => (JsonForm::ServerJson, b'{', *b"}\n", *b"{}\n"),
            RowFormat::Arrays => (JsonForm::Objects, b'[', *b"]\n", *b"[]\n"),
        };
        let column = |(index, column): (usize, ColumnDescription<'a>)| {
            let key = (format == RowFormat::Ndjson).then_some(column.name);
            let encoder = Encoder::new(column.type_oid, column.format_code, form)?;
            Ok(Column {
                lead: Lead::new(if index == 0 { opening } else { b',' }, key),
                encoder,
            })
        };
        let columns = columns.enumerate().map(column).collect::<Result<_, _>>()?;
        Ok(Plan {
            columns,
            closing,
            empty,
        })
    }

    /// Columns per row.
    pub fn column_count(&self) -> usize {
        self.columns.len()
    }

    /// Appends one whole row and `\n`. `body` is that of DataRow: int16 count, then per column int32 length (-1: NULL) and bytes.
    /// On an error `out` may end in a part of the row; the caller truncates.
    pub fn encode_row(&self, body: &[u8], out: &mut impl Target) -> Result<(), RowError> {
        out.write(|out| self.append_row(body, out))
    }

    #[inline(always)]
    fn append_row(&self, body: &[u8], out: &mut Writer<'_>) -> Result<(), RowError> {
        let expected = self.columns.len();
        let Some((count, mut rest)) = body.split_first_chunk() else {
            return Err(RowError::FieldCount {
                expected,
                found: -1,
            });
        };
        let found = i16::from_be_bytes(*count);
        if usize::try_from(found) != Ok(expected) {
            return Err(RowError::FieldCount { expected, found });
        }
        for (index, column) in self.columns.iter().enumerate() {
            column.lead.append(out);
            let Some((length, fields)) = rest.split_first_chunk() else {
                return Err(RowError::FieldLength { column: index });
            };
            let length = i32::from_be_bytes(*length);
            if length == -1 {
                out.put(b"null");
                rest = fields;
                continue;
            }
            let Some((value, behind)) = usize::try_from(length)
                .ok()
                .and_then(|length| fields.split_at_checked(length))
            else {
                return Err(RowError::FieldLength { column: index });
            };
            column
                .encoder
                .append(value, fields, out)
                .map_err(|error| RowError::Value {
                    column: index,
                    error,
                })?;
            rest = behind;
        }
        if !rest.is_empty() {
            return Err(RowError::TrailingBytes);
        }
        if expected == 0 {
            out.put(&self.empty);
        } else {
            out.put(&self.closing);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::oid;
    use alloc::format;
    use alloc::string::String;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    type Field<'a> = Option<&'a [u8]>;

    fn plan(columns: &[(&str, u32)], format: RowFormat) -> Plan {
        let description = |&(name, type_oid)| ColumnDescription {
            name: str::as_bytes(name),
            type_oid,
            format_code: 1,
        };
        Plan::new(columns.iter().map(description), format).unwrap()
    }

    fn body(fields: &[Field<'_>]) -> Vec<u8> {
        let mut body = (fields.len() as u16).to_be_bytes().to_vec();
        for field in fields {
            body.extend(field.map_or(-1, |field| field.len() as i32).to_be_bytes());
            body.extend(field.unwrap_or_default());
        }
        body
    }

    fn row(plan: &Plan, body: &[u8]) -> Result<String, RowError> {
        let mut out = Output::default();
        plan.encode_row(body, &mut out)?;
        Ok(String::from_utf8(out.as_slice().to_vec()).unwrap())
    }

    const COLUMNS: [(&str, u32); 2] = [("id", oid::INT8), ("n m", oid::TEXT)];
    const SEVEN: Field<'static> = Some(&[0, 0, 0, 0, 0, 0, 0, 7]);

    #[test]
    fn both_formats() {
        let fields = body(&[SEVEN, Some(b"x")]);
        assert_eq!(
            row(&plan(&COLUMNS, RowFormat::Ndjson), &fields).unwrap(),
            "{\"id\":7,\"n m\":\"x\"}\n"
        );
        assert_eq!(
            row(&plan(&COLUMNS, RowFormat::Arrays), &fields).unwrap(),
            "[\"7\",\"x\"]\n"
        );
        let nulls = body(&[None, None]);
        assert_eq!(
            row(&plan(&COLUMNS, RowFormat::Ndjson), &nulls).unwrap(),
            "{\"id\":null,\"n m\":null}\n"
        );
        assert_eq!(
            row(&plan(&COLUMNS, RowFormat::Arrays), &nulls).unwrap(),
            "[null,null]\n"
        );
        assert_eq!(
            row(&plan(&[], RowFormat::Ndjson), &body(&[])).unwrap(),
            "{}\n"
        );
        assert_eq!(
            row(&plan(&[], RowFormat::Arrays), &body(&[])).unwrap(),
            "[]\n"
        );
        assert_eq!(plan(&COLUMNS, RowFormat::Arrays).column_count(), 2);
    }

    #[test]
    fn broken_rows_say_what_is_broken() {
        let plan = plan(&COLUMNS, RowFormat::Ndjson);
        let good = body(&[SEVEN, Some(b"x")]);
        assert_eq!(
            row(&plan, &[]),
            Err(RowError::FieldCount {
                expected: 2,
                found: -1
            })
        );
        assert_eq!(
            row(&plan, &body(&[None])),
            Err(RowError::FieldCount {
                expected: 2,
                found: 1
            })
        );
        assert_eq!(
            row(&plan, &[0xff, 0xff]),
            Err(RowError::FieldCount {
                expected: 2,
                found: -1
            })
        );
        assert_eq!(
            row(&plan, &[&good[..], &[0]].concat()),
            Err(RowError::TrailingBytes)
        );
        for length in 2..good.len() {
            let column = usize::from(length >= 14);
            assert_eq!(
                row(&plan, &good[..length]),
                Err(RowError::FieldLength { column })
            );
        }
        let minus_two = [&[0, 2][..], &(-2_i32).to_be_bytes()].concat();
        assert_eq!(
            row(&plan, &minus_two),
            Err(RowError::FieldLength { column: 0 })
        );
        let Err(RowError::Value { column: 0, error }) = row(&plan, &body(&[Some(b"x"), None]))
        else {
            panic!()
        };
        assert_eq!(error.type_oid, oid::INT8);
    }

    #[test]
    fn a_binary_column_that_nobody_asked_for_has_no_plan() {
        let point = ColumnDescription {
            name: b"p",
            type_oid: 600,
            format_code: 1,
        };
        assert_eq!(
            Plan::new([point].into_iter(), RowFormat::Ndjson).map(drop),
            Err(UnknownBinary { type_oid: 600 })
        );
        let as_text = ColumnDescription {
            format_code: 0,
            ..point
        };
        let plan = Plan::new([as_text].into_iter(), RowFormat::Ndjson).unwrap();
        assert_eq!(
            row(&plan, &body(&[Some(b"(1,2)")])).unwrap(),
            "{\"p\":\"(1,2)\"}\n"
        );
    }

    proptest! {
        #[test]
        fn a_name_is_exactly_the_key(names in prop::collection::hash_set(any::<String>(), 1..5), value: String) {
            let names: Vec<String> = names.into_iter().collect();
            let columns: Vec<(&str, u32)> = names.iter().map(|name| (name.as_str(), oid::TEXT)).collect();
            let fields: Vec<Field<'_>> = names.iter().map(|_| Some(value.as_bytes())).collect();
            let line = row(&plan(&columns, RowFormat::Ndjson), &body(&fields)).unwrap();
            prop_assert_eq!(line.find('\n'), Some(line.len() - 1));
            let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&line).unwrap();
            prop_assert_eq!(object.len(), names.len());
            for name in &names {
                prop_assert_eq!(object.get(name), Some(&serde_json::Value::from(value.as_str())), "{}", name);
            }
        }

        #[test]
        fn any_body_gives_a_line_or_an_error(noise: Vec<u8>, count in 0..4_u16, lengths in prop::collection::vec(-2..9_i32, 0..4)) {
            let plan = plan(&[("a", oid::INT4), ("b", oid::TEXT), ("c", oid::NUMERIC)], RowFormat::Ndjson);
            let mut shaped = count.to_be_bytes().to_vec();
            for length in lengths {
                shaped.extend(length.to_be_bytes());
                shaped.extend(noise.iter().cycle().take(length.max(0) as usize * usize::from(!noise.is_empty())));
            }
            for body in [noise, shaped] {
                let mut out = Output::default();
                if plan.encode_row(&body, &mut out).is_ok() {
                    prop_assert_eq!(out.as_slice().last(), Some(&b'\n'));
                }
            }
        }

        /// What stands behind a field in its row never shows in it.
        #[test]
        fn neighbours_do_not_matter(values in prop::collection::vec("\\PC{0,40}", 1..6)) {
            let columns: Vec<(String, u32)> = (0..values.len()).map(|i| (format!("c{i}"), oid::TEXT)).collect();
            let columns: Vec<(&str, u32)> = columns.iter().map(|(name, oid)| (name.as_str(), *oid)).collect();
            let fields: Vec<Field<'_>> = values.iter().map(|value| Some(value.as_bytes())).collect();
            let line = row(&plan(&columns, RowFormat::Arrays), &body(&fields)).unwrap();
            prop_assert_eq!(serde_json::from_str::<Vec<String>>(&line).unwrap(), values);
        }
    }
}
