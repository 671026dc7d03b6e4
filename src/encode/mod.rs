//! Encodes a DataRow as one row of the output: a line of NDJSON, an element of a JSON array, a line of TOON or CSV.
//!
//! A [`Plan`] is made once per RowDescription and holds everything that is the same for all rows: one encoder per
//! column, each key already escaped, and the bytes before the first row and after the last. It knows rows and columns.
//! Must not know what a value looks like, which `types` knows, nor whether a row is accepted and where it goes, which
//! the caller decides.

pub mod columns;
mod csv;
mod form;
mod header;

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::protocol::writer::decimal;
pub use crate::types::output::Output;
use crate::types::output::{BLOCK, Target, Writer};
pub use crate::types::{AsStrings, InvalidValue, Shortest, Types, UnknownBinary};
use crate::types::{Encoder, json_string};
use columns::Kind;
use csv::Style;
pub use form::{Facts, Public, RowForm, RowFormat};
use form::{Mark, Values};
#[cfg(feature = "replication")]
pub(crate) use header::camel_case;

/// The part of a column's description in RowDescription that a plan needs.
#[derive(Clone, Copy, Debug)]
pub struct ColumnDescription<'a> {
    /// Name, in UTF-8.
    pub name: &'a [u8],
    /// Type.
    pub type_oid: u32,
    /// 0 text, 1 binary.
    pub format_code: i16,
}

/// Why a row could not be encoded. The server's message is broken, except for [`RowError::TooLarge`] and values that
/// contain an unknown type ([`InvalidValue::is_unknown_type`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowError {
    /// The row has a different number of columns than RowDescription. `found` is -1 if even the number is missing.
    FieldCount {
        /// Number of columns in the plan.
        expected: usize,
        /// Number of columns that the row states.
        found: i16,
    },
    /// The field's length is negative (and not -1), or runs past the end of the row.
    FieldLength {
        /// Index of the column, from 0.
        column: usize,
    },
    /// There are bytes after the last field.
    TrailingBytes,
    /// The output of the row does not fit into memory.
    TooLarge,
    /// The field's bytes are not a value of its type.
    Value {
        /// Index of the column, from 0.
        column: usize,
        /// What is wrong.
        error: InvalidValue,
    },
}

/// Describes how the rows of one result are encoded.
#[derive(Clone, Debug)]
pub struct Plan {
    columns: Box<[Column]>,
    facts: &'static Facts,
    /// Bytes before the first row.
    head: Box<[u8]>,
    /// Bytes after each row.
    closing: Few,
    /// The output of a row without columns.
    empty: Few,
    /// How many bytes of `null` are written for a NULL: none in CSV.
    null: usize,
}

/// At most four bytes, appended with one store.
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
    /// How values are stored in a batch for JavaScript.
    kind: Kind,
    /// How values are written in CSV.
    style: Style,
    /// Only for CSV.
    escape_formulas: bool,
}

/// The bytes between the previous value and this one: `{"id":`, `,"n m":`, `[`, `,`. They are stored in whole blocks,
/// so that a lead of the usual length is appended with one store.
#[derive(Clone, Debug)]
pub(crate) struct Lead {
    first: [u8; BLOCK],
    further: Box<[[u8; BLOCK]]>,
    length: usize,
}

impl Lead {
    /// Composes the lead in `scratch`. All columns share that buffer, because new room is zeroed first: that cost more
    /// than everything else in making a plan.
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
        // Both are lengths of bytes in memory, so the sum cannot overflow.
        let end = out.position().wrapping_add(self.length);
        out.put(&self.first);
        for block in &self.further {
            out.put(block);
        }
        out.truncate(end);
    }
}

impl Plan {
    /// Makes the plan for columns in the order of RowDescription. Fails for a column in a binary form that Bind did not
    /// ask for.
    pub fn new<'a>(
        columns: impl Iterator<Item = ColumnDescription<'a>>,
        form: RowForm,
    ) -> Result<Plan, UnknownBinary> {
        Plan::with_types(&columns.collect::<Vec<_>>(), form, &Types::default())
    }

    /// Like [`Plan::new`], with more known types than the built-in ones.
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
            // The server decides what numbers and dates look like, so they are not escaped: -5 stays a number.
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

    /// From now on, text that cannot be read becomes a string of that text; see [`Encoder::keep_unread`].
    pub fn keep_unread(&mut self) {
        for column in &mut self.columns {
            column.encoder.keep_unread();
        }
    }

    /// The bytes that [`Plan::finish`] writes after the last row.
    pub fn tail(&self) -> &'static [u8] {
        self.facts.tail
    }

    /// Appends the bytes before the first row.
    pub fn begin(&self, out: &mut impl Target) {
        out.write(|out| out.put_slice(&self.head));
    }

    /// Replaces the comma of the first row, which begins at `start`, with the bracket around all rows, if the format
    /// is bracketed.
    pub fn bracket(&self, out: &mut impl Target, start: usize) {
        if self.facts.is_bracketed {
            out.write(|out| {
                if let Some(comma) = out.written_since(start).first_mut() {
                    *comma = b'[';
                }
            });
        }
    }

    /// Appends the bytes after the last of `row_count` rows. If there are no rows, first appends the bytes before them.
    pub fn finish(&self, row_count: u64, out: &mut impl Target) {
        self.end(row_count, self.facts.tail, out);
    }

    /// Like [`Plan::finish`], with a mark that rows are missing: in NDJSON and JSON a last element, in columnar form a
    /// member.
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

    /// Returns whether rows go to [`Plan::encode_values`].
    pub fn is_columns(&self) -> bool {
        self.facts.values == Values::Slots
    }

    /// Number of bytes before the values of a batch; 0 for other formats.
    pub(crate) fn batch_head(&self) -> usize {
        if self.is_columns() {
            self.columns.len().saturating_add(4).next_multiple_of(8)
        } else {
            0
        }
    }

    /// Number of columns per row.
    pub fn column_count(&self) -> usize {
        self.columns.len()
    }

    /// Returns how short the output of a column's value may be.
    pub(crate) fn shortest(&self, column: usize) -> Shortest {
        self.columns
            .get(column)
            .map_or(Shortest::Unknown, |column| column.encoder.shortest())
    }

    /// Appends one row as if it were not the first: in a bracketed format it begins with a comma, and for the first row
    /// [`Plan::bracket`] replaces that comma. `body` is that of DataRow: int16 count, then per column int32 length (-1:
    /// NULL) and bytes. On an error `out` is unchanged.
    pub fn encode_row(&self, body: &[u8], out: &mut impl Target) -> Result<(), RowError> {
        self.encode_rows(body, &mut core::iter::empty(), 0, out).1
    }

    /// Appends `body` like [`Plan::encode_row`], then the rows in `following`, until `out` has `most` bytes. Returns
    /// the number of rows appended, and the error if one ended them. One call takes many rows so that the position in
    /// `out` stays in a register from row to row.
    pub fn encode_rows<'a>(
        &self,
        mut body: &'a [u8],
        following: &mut impl Iterator<Item = &'a [u8]>,
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
                match following.next() {
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

    /// Calls `take` for each field of the row, with the field's bytes (`None`: NULL) and the row from those bytes to
    /// its end.
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
        // A slice that shrinks: under opt-level "z", `next` of an iterator with a counter is a call per column.
        let mut columns = &*self.columns;
        while let [column, others @ ..] = columns {
            let index = expected.wrapping_sub(columns.len());
            let Some((length, fields)) = rest.split_first_chunk() else {
                return Err(RowError::FieldLength { column: index });
            };
            let length = i32::from_be_bytes(*length);
            let (value, following) = if length == -1 {
                (None, fields)
            } else {
                let Some((value, following)) = usize::try_from(length)
                    .ok()
                    .and_then(|length| fields.split_at_checked(length))
                else {
                    return Err(RowError::FieldLength { column: index });
                };
                (Some(value), following)
            };
            take(column, value, fields).map_err(|error| RowError::Value {
                column: index,
                error,
            })?;
            (rest, columns) = (following, others);
        }
        if !rest.is_empty() {
            return Err(RowError::TrailingBytes);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
