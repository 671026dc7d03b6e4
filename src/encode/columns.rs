//! Encodes rows for conversion to JavaScript values: a slot of eight bytes per value, and longer values in one text and
//! one JSON array per batch.
//!
//! JavaScript decodes each block with one call, which makes this format fast. It knows no types, only the kinds in the
//! head. The layout of one batch:
//!
//! ```text
//! head     u32 columns, a kind per column, zeros up to a multiple of 8
//! slots    8 bytes per row and column that is not of kind Json, little-endian:
//!          Int, Bool   i32 value, i32 1 for NULL         Float   f64; NULL is the NaN with 1 in its low word
//!          Text        i32 UTF-16 units (-1 NULL), i32 bytes
//! text     the texts of these rows, concatenated
//! json     [v,v,…]: the values of all columns of kind Json, row by row, NULL as null; empty without such a column
//! tail     u32 rows, u32 bytes of text, u32 bytes of json
//! ```
//! While rows arrive, text and json grow in their own buffers; [`Blocks::seal`] appends them to the slots.

use super::{Plan, RowError};
use crate::boundary::slots;
use crate::types::output::{BLOCK, Output, Target, Writer};
use crate::types::{AsStrings, Cell, Encoder, InvalidValue, oid};

/// The text and the JSON that belong to the slots of a batch.
#[derive(Debug, Default)]
pub struct Blocks {
    text: Output,
    json: Output,
    row_count: u32,
}

/// The end of a batch before a row was added.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    text: usize,
    json: usize,
    row_count: u32,
}

/// How a column's values are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Int2,
    Int4,
    Bool,
    Oid,
    Int8,
    Float8,
    /// The value's bytes are the text.
    Text,
    /// As `Text`, after jsonb's version byte.
    JsonbText,
    /// The text is the JSON string without its quotes, and is ASCII.
    Plain,
    Json,
}

const NULL_INT: [u8; 8] = [0, 0, 0, 0, 1, 0, 0, 0];
const NULL_FLOAT: [u8; 8] = [1, 0, 0, 0, 0, 0, 0xf8, 0x7f];
const NULL_TEXT: [u8; 8] = [0xff; 8];

impl Kind {
    pub(crate) fn new(
        type_oid: u32,
        format_code: i16,
        encoder: &Encoder,
        strings: AsStrings,
    ) -> Kind {
        let binary = format_code == 1;
        match type_oid {
            oid::INT2 if binary => Kind::Int2,
            oid::INT4 if binary => Kind::Int4,
            oid::BOOL if binary => Kind::Bool,
            oid::OID if binary => Kind::Oid,
            oid::INT8 if binary && !strings.int8 => Kind::Int8,
            oid::FLOAT8 if binary => Kind::Float8,
            // Their JSON is digits between quotes.
            oid::INT8 if strings.int8 => Kind::Plain,
            oid::NUMERIC if strings.numeric => Kind::Plain,
            oid::JSON if strings.json => Kind::Text,
            oid::JSONB if strings.json && binary => Kind::JsonbText,
            oid::JSONB if strings.json => Kind::Text,
            oid::JSON | oid::JSONB => Kind::Json,
            _ => match encoder.cell(b"") {
                Cell::Text(_) => Kind::Text,
                Cell::Plain => Kind::Plain,
                Cell::Array | Cell::JsonText | Cell::Json => Kind::Json,
            },
        }
    }

    /// Returns the number by which JavaScript knows the kind.
    pub(crate) fn code(self) -> u8 {
        match self {
            Kind::Int2 | Kind::Int4 => slots::INT,
            Kind::Bool => slots::BOOL,
            Kind::Oid | Kind::Int8 | Kind::Float8 => slots::FLOAT,
            Kind::Text | Kind::JsonbText | Kind::Plain => slots::TEXT,
            Kind::Json => slots::JSON,
        }
    }
}

impl Blocks {
    /// Number of bytes in both blocks together.
    pub fn len(&self) -> usize {
        self.text.len().saturating_add(self.json.len())
    }

    /// Returns whether everything written so far has found room, and the blocks will find room after `slots`.
    pub fn have_room(&mut self, slots: &mut Output) -> bool {
        let sealed = self.len().saturating_add(BLOCK);
        self.text.has_room(0) && self.json.has_room(0) && slots.has_room(sealed)
    }

    /// Makes room for a text of this many bytes.
    pub fn expect(&mut self, bytes: usize) {
        self.text.has_room(bytes);
    }

    /// Returns whether the batch has no rows. A batch that has rows waits for its tail.
    pub fn is_empty(&self) -> bool {
        self.row_count == 0
    }

    /// Returns the current end of the batch.
    pub fn mark(&self) -> Mark {
        Mark {
            text: self.text.len(),
            json: self.json.len(),
            row_count: self.row_count,
        }
    }

    /// Drops everything added after `mark`.
    pub fn truncate(&mut self, mark: Mark) {
        self.text.truncate(mark.text);
        self.json.truncate(mark.json);
        self.row_count = mark.row_count;
    }

    /// Empties the blocks. Each keeps at most `keep` bytes of its room.
    pub fn clear(&mut self, keep: usize) {
        self.text.clear(keep);
        self.json.clear(keep);
        self.row_count = 0;
    }

    /// Appends the blocks to the slots, which then are a whole batch. `texts` come before the texts of the rows.
    pub fn seal(&mut self, slots: &mut Output, texts: &[u8], keep: usize) {
        let text_length = texts.len().wrapping_add(self.text.len());
        slots.write(|out| {
            out.put_slice(texts);
            out.put_slice(self.text.as_slice());
            out.put_slice(self.json.as_slice());
            let has_json = !self.json.is_empty();
            out.put_block(b"]", usize::from(has_json));
            let json_length = self.json.len().saturating_add(usize::from(has_json));
            for number in [self.row_count, text_length as u32, json_length as u32] {
                out.put(&number.to_le_bytes());
            }
        });
        self.clear(keep);
    }
}

/// For changes of tables, whose rows have no plan.
#[cfg(feature = "replication")]
impl Blocks {
    /// Counts one more row.
    pub(crate) fn count(&mut self) {
        self.row_count = self.row_count.saturating_add(1);
    }

    /// Appends the next element of the JSON array.
    pub(crate) fn element(&mut self, write: impl FnOnce(&mut Writer<'_>)) {
        self.json.write(|json| {
            put_comma(json);
            write(json);
        });
    }

    /// Lets `write` append the values of a row.
    pub(crate) fn row<R>(
        &mut self,
        slots: &mut Output,
        write: impl FnOnce(&mut Row<'_, '_, '_, '_>) -> R,
    ) -> R {
        let Blocks { text, json, .. } = self;
        slots.write(|slots| {
            text.write(|text| json.write(|json| write(&mut Row { slots, text, json })))
        })
    }
}

impl Plan {
    /// Appends `body`, then the rows in `following`, until slots and blocks together have `most` bytes. Slots go to
    /// `slots`, everything else to `blocks`. Returns the number of rows appended, and the error if one ended them;
    /// nothing of the failed row remains.
    pub fn encode_values<'a>(
        &self,
        mut body: &'a [u8],
        following: &mut impl Iterator<Item = &'a [u8]>,
        most: usize,
        slots: &mut Output,
        blocks: &mut Blocks,
    ) -> (u64, Result<(), RowError>) {
        if slots.is_empty() {
            slots.write(|out| self.append_head(out));
        }
        let Blocks {
            text,
            json,
            row_count,
        } = blocks;
        let mut count = 0_u32;
        let encoded = slots.write(|slots| {
            text.write(|text| {
                json.write(|json| {
                    loop {
                        let mark = (slots.position(), text.position(), json.position());
                        let encoded = self.for_each_field(body, |column, value, readable| {
                            let mut to = Row { slots, text, json };
                            match value {
                                Some(value) => {
                                    to.append(column.kind, &column.encoder, value, readable)
                                }
                                None => {
                                    to.append_null(column.kind);
                                    Ok(())
                                }
                            }
                        });
                        if encoded.is_err() {
                            slots.truncate(mark.0);
                            text.truncate(mark.1);
                            json.truncate(mark.2);
                            return encoded;
                        }
                        count = count.wrapping_add(1);
                        // All these bytes are in memory, so the sums cannot overflow.
                        let bytes = text.position().wrapping_add(json.position());
                        if slots.position().wrapping_add(bytes) >= most {
                            return Ok(());
                        }
                        match following.next() {
                            Some(next) => body = next,
                            None => return Ok(()),
                        }
                    }
                })
            })
        });
        *row_count = row_count.saturating_add(count);
        (count.into(), encoded)
    }

    fn append_head(&self, out: &mut Writer<'_>) {
        out.put(&(self.columns.len() as u32).to_le_bytes());
        for column in &self.columns {
            out.put(&[column.kind.code()]);
        }
        out.put_block(&[0; BLOCK], (4 + 7 * self.columns.len()) % 8);
    }
}

/// The destination of one row.
pub(crate) struct Row<'a, 'slots, 'text, 'json> {
    slots: &'a mut Writer<'slots>,
    text: &'a mut Writer<'text>,
    json: &'a mut Writer<'json>,
}

impl Row<'_, '_, '_, '_> {
    #[inline(always)]
    pub(crate) fn append(
        &mut self,
        kind: Kind,
        encoder: &Encoder,
        value: &[u8],
        readable: &[u8],
    ) -> Result<(), InvalidValue> {
        let int = |value: i32| u64::from(value as u32);
        let slot = match kind {
            Kind::Int4 => int(i32::from_be_bytes(fixed(encoder, value)?)),
            Kind::Int2 => int(i16::from_be_bytes(fixed(encoder, value)?).into()),
            Kind::Bool => int(i32::from(fixed(encoder, value)? != [0])),
            Kind::Oid => f64::from(u32::from_be_bytes(fixed(encoder, value)?)).to_bits(),
            // A caller that asks for numbers accepts that those beyond 2^53 are rounded.
            Kind::Int8 => (i64::from_be_bytes(fixed(encoder, value)?) as f64).to_bits(),
            Kind::Float8 => match f64::from_be_bytes(fixed(encoder, value)?) {
                // The server may send any NaN, and one of them is our NULL.
                value if value.is_nan() => f64::NAN.to_bits(),
                value => value.to_bits(),
            },
            Kind::Text | Kind::JsonbText => {
                let (text, readable) = match (kind, value, readable) {
                    (Kind::Text, ..) => (value, readable),
                    (_, [1, text @ ..], [_, readable @ ..]) => (text, readable),
                    _ => return Err(encoder.invalid("unknown version of jsonb")),
                };
                self.text.put_within(readable, text.len());
                lengths(utf16_units(text), text.len())
            }
            Kind::Plain => {
                let start = self.text.position();
                self.text
                    .without_quotes(|out| encoder.append_rarely(value, out))?;
                let length = self.text.position().saturating_sub(start);
                lengths(length, length)
            }
            Kind::Json => {
                put_comma(self.json);
                return encoder.append_rarely(value, self.json);
            }
        };
        self.slots.put(&slot.to_le_bytes());
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn append_null(&mut self, kind: Kind) {
        let null = match kind.code() {
            slots::INT | slots::BOOL => NULL_INT,
            slots::FLOAT => NULL_FLOAT,
            slots::TEXT => NULL_TEXT,
            _ => {
                put_comma(self.json);
                return self.json.put(b"null");
            }
        };
        self.slots.put(&null);
    }
}

#[inline(always)]
fn put_comma(json: &mut Writer<'_>) {
    let comma = if json.position() == 0 { b"[" } else { b"," };
    json.put(comma);
}

#[inline(always)]
fn lengths(units: usize, bytes: usize) -> u64 {
    (bytes as u64) << 32 | units as u64
}

#[inline(always)]
fn fixed<const N: usize>(encoder: &Encoder, value: &[u8]) -> Result<[u8; N], InvalidValue> {
    value
        .try_into()
        .map_err(|_| encoder.invalid("wrong length for its type"))
}

/// Returns the number of UTF-16 units of a UTF-8 text: one per character, two for a character of four bytes. JavaScript
/// notices text that is not UTF-8 (from a database in SQL_ASCII).
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
mod tests;
