//! From DataRow to one row of the output: a line of NDJSON, an element of a JSON array, a line of TOON or CSV.
//!
//! A [`Plan`] is made once per RowDescription and holds all that does not change from row to row: one encoder per
//! column, each key escaped already, and what stands before the first row and behind the last. It knows rows and
//! columns; what a value looks like is `types`' business, where the row goes and whether it may the caller's.

pub mod columns;
mod csv;
mod form;
mod header;

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::protocol::writer::decimal;
pub use crate::types::output::Output;
use crate::types::output::{BLOCK, Target, Writer};
use crate::types::{Encoder, json_string};
pub use crate::types::{InvalidValue, Shortest, Strings, Types, UnknownBinary};
use columns::Kind;
use csv::Style;
pub use form::{Facts, Public, RowForm, RowFormat};
use form::{Mark, Values};
#[cfg(feature = "replication")]
pub(crate) use header::camel_case;

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
    /// What it becomes does not fit into memory.
    TooLarge,
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
    facts: &'static Facts,
    /// Before the first row.
    head: Box<[u8]>,
    /// Behind each row.
    closing: Few,
    /// A row without columns.
    empty: Few,
    /// How much of `null` a NULL is: nothing in CSV.
    null: usize,
}

/// At most four bytes: one store.
#[derive(Clone, Copy, Debug)]
struct Few {
    bytes: [u8; 4],
    length: usize,
}

impl Few {
    fn new(text: &[u8]) -> Few {
        let mut bytes = [0; 4];
        bytes
            .iter_mut()
            .zip(text)
            .for_each(|(to, from)| *to = *from);
        Few {
            bytes,
            length: text.len(),
        }
    }
}

#[derive(Clone, Debug)]
struct Column {
    lead: Lead,
    encoder: Encoder,
    kind: Kind,
    style: Style,
    /// In CSV.
    escape_formulas: bool,
}

/// All that stands between the value before and this one: `{"id":`, `,"n m":`, `[`, `,`. In whole blocks, so that
/// writing a usual one is one store.
#[derive(Clone, Debug)]
pub(crate) struct Lead {
    first: [u8; BLOCK],
    further: Box<[[u8; BLOCK]]>,
    length: usize,
}

impl Lead {
    /// `scratch`: the room to write it in. One for all columns, since new room is zeroed: that cost more than all else
    /// of a plan.
    pub(crate) fn new(opening: &[u8], key: Option<&[u8]>, scratch: &mut Output) -> Lead {
        scratch.truncate(0);
        scratch.write(|out| {
            out.put_slice(opening);
            if let Some(key) = key {
                json_string::append(out, key);
                out.put(b":");
            }
        });
        let length = scratch.len();
        scratch.write(|out| out.put(&[0; BLOCK]));
        let (blocks, _) = scratch.as_slice().as_chunks();
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
    pub(crate) fn append(&self, out: &mut Writer<'_>) {
        if self.length <= BLOCK {
            return out.put_block(&self.first, self.length);
        }
        // Both lie in memory: no overflow.
        let end = out.position().wrapping_add(self.length);
        out.put(&self.first);
        for block in &self.further {
            out.put(block);
        }
        out.truncate(end);
    }
}

impl Plan {
    /// The plan for columns in the order of RowDescription. The error: a column in a binary form that nobody asked for.
    pub fn new<'a>(
        columns: impl Iterator<Item = ColumnDescription<'a>>,
        form: RowForm,
    ) -> Result<Plan, UnknownBinary> {
        Plan::with_types(&columns.collect::<Vec<_>>(), form, &Types::default())
    }

    /// The same where more types are known than the built-in ones.
    pub fn with_types(
        columns: &[ColumnDescription<'_>],
        form: RowForm,
        types: &Types,
    ) -> Result<Plan, UnknownBinary> {
        let facts = form.format.facts();
        let names = header::names(columns, form);
        let csv = facts.values == Values::Csv;
        let mut plans = Vec::with_capacity(columns.len());
        let mut scratch = Output::default();
        for (column, name) in columns.iter().zip(&names) {
            let opening = if plans.is_empty() {
                facts.opening
            } else {
                b","
            };
            let &ColumnDescription {
                type_oid,
                format_code,
                ..
            } = column;
            let encoder = Encoder::with_types(type_oid, format_code, form.strings, types)?;
            // What numbers and dates look like is the server's: -5 stays a number.
            let escape_formulas = form.escape_formulas && encoder.can_hold_text();
            plans.push(Column {
                lead: Lead::new(opening, facts.has_keys.then_some(name), &mut scratch),
                kind: Kind::new(type_oid, format_code, &encoder, form.strings),
                escape_formulas,
                style: if csv {
                    Style::new(type_oid, &encoder, escape_formulas)
                } else {
                    Style::Json
                },
                encoder,
            });
        }
        Ok(Plan {
            columns: plans.into(),
            facts,
            head: header::head(form, &names),
            closing: Few::new(facts.closing),
            empty: Few::new(facts.empty),
            null: if csv { 0 } else { 4 },
        })
    }

    /// Text that cannot be read becomes a string of it: see [`Encoder::keep_unread`].
    pub fn keep_unread(&mut self) {
        for column in &mut self.columns {
            column.encoder.keep_unread();
        }
    }

    /// What [`Plan::finish`] writes behind the last row.
    pub fn tail(&self) -> &'static [u8] {
        self.facts.tail
    }

    /// Appends what stands before the first row.
    pub fn begin(&self, out: &mut impl Target) {
        out.write(|out| out.put_slice(&self.head));
    }

    /// The first row stands from `start` on: its comma becomes the bracket around all of them.
    pub fn bracket(&self, out: &mut impl Target, start: usize) {
        if self.facts.is_bracketed {
            out.write(|out| {
                if let Some(comma) = out.written_since(start).first_mut() {
                    *comma = b'[';
                }
            });
        }
    }

    /// Appends what stands behind the last of `row_count` rows; without any, what stands before them too.
    pub fn finish(&self, row_count: u64, out: &mut impl Target) {
        self.end(row_count, self.facts.tail, out);
    }

    /// As [`Plan::finish`], with a mark that rows are missing: in NDJSON and JSON as a last element, in columnar form
    /// as a member.
    pub fn truncate(&self, limit: &str, value: u64, row_count: u64, out: &mut impl Target) {
        let Some(Mark {
            before,
            after,
            tail,
        }) = self.facts.mark
        else {
            return self.finish(row_count, out);
        };
        let before = match before {
            [b',', first @ ..] if row_count == 0 => first,
            _ => before,
        };
        let (cap, rows) = (decimal(value), decimal(row_count));
        let mark = [
            before,
            b"\"$truncated\":{\"limit\":\"",
            limit.as_bytes(),
            b"\",\"value\":",
            cap.as_bytes(),
            b",\"rows\":",
            rows.as_bytes(),
            b"}",
            after,
            tail,
        ];
        self.end(row_count, &mark.concat(), out);
    }

    fn end(&self, row_count: u64, tail: &[u8], out: &mut impl Target) {
        out.write(|out| {
            if row_count == 0 {
                out.put_slice(&self.head);
                out.put_block(b"[", usize::from(self.facts.is_bracketed));
            }
            out.put_slice(tail);
        });
    }

    /// Rows go to [`Plan::encode_values`].
    pub fn is_columns(&self) -> bool {
        self.facts.values == Values::Slots
    }

    /// Bytes in front of a batch of values; 0 for other formats.
    pub(crate) fn batch_head(&self) -> usize {
        if self.is_columns() {
            self.columns.len().saturating_add(4).next_multiple_of(8)
        } else {
            0
        }
    }

    /// Columns per row.
    pub fn column_count(&self) -> usize {
        self.columns.len()
    }

    /// How short the output of a column's value may be.
    pub(crate) fn shortest(&self, column: usize) -> Shortest {
        self.columns
            .get(column)
            .map_or(Shortest::Unknown, |column| column.encoder.shortest())
    }

    /// Appends one whole row, not the first. `body` is that of DataRow: int16 count, then per column int32 length (-1:
    /// NULL) and bytes. On an error `out` is as before.
    pub fn encode_row(&self, body: &[u8], out: &mut impl Target) -> Result<(), RowError> {
        self.encode_rows(body, &mut core::iter::empty(), 0, out).1
    }

    /// Appends `body` as [`Plan::encode_row`] does, and the rows `behind` it until `out` has `most` bytes. How many
    /// there were before the error, if one ended them: the position in `out` stays in a register from row to row.
    pub fn encode_rows<'a>(
        &self,
        mut body: &'a [u8],
        behind: &mut impl Iterator<Item = &'a [u8]>,
        most: usize,
        out: &mut impl Target,
    ) -> (u64, Result<(), RowError>) {
        out.write(|out| {
            let mut count = 0_u64;
            loop {
                let start = out.position();
                if let Err(error) = self.append_row(body, out) {
                    out.truncate(start);
                    return (count, Err(error));
                }
                count = count.wrapping_add(1);
                if out.position() >= most {
                    return (count, Ok(()));
                }
                match behind.next() {
                    Some(next) => body = next,
                    None => return (count, Ok(())),
                }
            }
        })
    }

    #[inline(always)]
    fn append_row(&self, body: &[u8], out: &mut Writer<'_>) -> Result<(), RowError> {
        self.for_each_field(body, |column, value, readable| {
            column.lead.append(out);
            match value {
                None => {
                    out.put_block(b"null", self.null);
                    Ok(())
                }
                Some(value) if column.style == Style::Text => {
                    csv::append_within(out, value, readable);
                    Ok(())
                }
                Some(value) if column.style == Style::Cell => {
                    out.lend(|out| csv::append(column, value, out))
                }
                Some(value) => {
                    let start = out.position();
                    column.encoder.append(value, readable, out)?;
                    if column.style == Style::Number {
                        csv::unquote_number(out, start);
                    }
                    Ok(())
                }
            }
        })?;
        let end = if self.columns.is_empty() {
            &self.empty
        } else {
            &self.closing
        };
        out.put_block(&end.bytes, end.length);
        Ok(())
    }

    /// Each field of the row: its bytes (`None`: NULL), and with what follows them.
    #[inline(always)]
    fn for_each_field(
        &self,
        body: &[u8],
        mut take: impl FnMut(&Column, Option<&[u8]>, &[u8]) -> Result<(), InvalidValue>,
    ) -> Result<(), RowError> {
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
        // A slice that gets shorter: under opt-level "z" `next` of an iterator with a counter is a call per column.
        let mut columns = &*self.columns;
        while let [column, others @ ..] = columns {
            let index = expected.wrapping_sub(columns.len());
            let Some((length, fields)) = rest.split_first_chunk() else {
                return Err(RowError::FieldLength { column: index });
            };
            let length = i32::from_be_bytes(*length);
            let (value, behind) = if length == -1 {
                (None, fields)
            } else {
                let Some((value, behind)) = usize::try_from(length)
                    .ok()
                    .and_then(|length| fields.split_at_checked(length))
                else {
                    return Err(RowError::FieldLength { column: index });
                };
                (Some(value), behind)
            };
            take(column, value, fields).map_err(|error| RowError::Value {
                column: index,
                error,
            })?;
            (rest, columns) = (behind, others);
        }
        if !rest.is_empty() {
            return Err(RowError::TrailingBytes);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
