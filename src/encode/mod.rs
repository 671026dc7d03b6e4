//! From DataRow to one line of JSON.
//!
//! A [`Plan`] is made once per RowDescription and holds all that does not change from row to row: one encoder per column, and each
//! key escaped already. It knows rows and columns; what a value looks like is `types`' business, where the line goes the caller's.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::types::{Encoder, copy, json_string};
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
    /// All that stands between the value before and this one: `{"id":`, `,"n m":`, `[`, `,`.
    lead: Box<[u8]>,
    encoder: Encoder,
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
            let mut lead = Vec::from([if index == 0 { opening } else { b',' }]);
            if format == RowFormat::Ndjson {
                json_string::append(&mut lead, column.name);
                lead.push(b':');
            }
            let encoder = Encoder::new(column.type_oid, column.format_code, form)?;
            Ok(Column {
                lead: lead.into_boxed_slice(),
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
    pub fn encode_row(&self, body: &[u8], out: &mut Vec<u8>) -> Result<(), RowError> {
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
            copy::append(out, &column.lead);
            let Some((length, fields)) = rest.split_first_chunk() else {
                return Err(RowError::FieldLength { column: index });
            };
            rest = match i32::from_be_bytes(*length) {
                -1 => {
                    out.extend_from_slice(b"null");
                    fields
                }
                length => {
                    let Some((value, fields)) = usize::try_from(length)
                        .ok()
                        .and_then(|length| fields.split_at_checked(length))
                    else {
                        return Err(RowError::FieldLength { column: index });
                    };
                    column
                        .encoder
                        .encode(value, out)
                        .map_err(|error| RowError::Value {
                            column: index,
                            error,
                        })?;
                    fields
                }
            };
        }
        if !rest.is_empty() {
            return Err(RowError::TrailingBytes);
        }
        if expected == 0 {
            out.extend_from_slice(&self.empty);
        } else {
            out.extend_from_slice(&self.closing);
        }
        Ok(())
    }
}
