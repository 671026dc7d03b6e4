//! A table as the server has described it, and its rows as JSON objects.
//!
//! Knows columns and their encoders. Must not know messages' order or positions.

use super::message::{RelationMessage, Tuple, Value};
use crate::encode::columns::{Kind, Row};
use crate::encode::{Lead, RowError, camel_case};
use crate::protocol::reader::Malformed;
use crate::types::output::{Output, Target, Writer};
use crate::types::{AsStrings, Encoder, InvalidValue, Types, json_string};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// How rows are written.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RowOptions {
    pub strings: AsStrings,
    /// `created_at` becomes `createdAt`.
    pub camel_case: bool,
}

#[derive(Debug)]
pub(super) struct Relation {
    pub oid: u32,
    /// `,"schema":"public","table":"users"`
    pub place: Box<[u8]>,
    pub replica_identity: u8,
    pub columns: Box<[Column]>,
    /// JavaScript has been told the kinds of the columns.
    pub is_told: bool,
}

#[derive(Debug)]
pub(super) struct Column {
    /// The name as a JSON string.
    pub name: Box<[u8]>,
    /// `,"name":`
    lead: Lead,
    pub type_oid: u32,
    pub type_modifier: i32,
    pub is_key: bool,
    form: Form,
}

/// The encoders for the values of a column.
#[derive(Debug)]
struct Form {
    text: Encoder,
    /// The kind of slot for a value in text format.
    kind: Kind,
    /// `None`: the binary form of the type is not known here. The server was asked for binary where it can send it, and
    /// such rows cannot be read.
    binary: Option<Encoder>,
}

/// Which columns of a row have values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    All,
    /// The columns of the replica identity.
    Key,
}

impl Relation {
    pub fn new(message: &RelationMessage<'_>, options: RowOptions, types: &Types) -> Relation {
        let mut scratch = Output::default();
        let columns = message.columns().map(|column| {
            let own;
            let name = if options.camel_case {
                own = camel_case(column.name);
                &*own
            } else {
                column.name
            };
            Column {
                name: string(name),
                lead: Lead::new(b",", Some(name), &mut scratch),
                type_oid: column.type_oid,
                type_modifier: column.type_modifier,
                is_key: column.is_key,
                form: Form::new(column.type_oid, options.strings, types),
            }
        });
        Relation {
            oid: message.oid,
            place: place(message),
            replica_identity: message.replica_identity,
            columns: columns.collect(),
            is_told: false,
        }
    }

    /// Takes new descriptions of types into account.
    pub fn learn(&mut self, strings: AsStrings, types: &Types) {
        for column in &mut self.columns {
            column.form = Form::new(column.type_oid, strings, types);
        }
        self.is_told = false;
    }

    /// The kinds of slots for the columns' values.
    pub fn kinds(&self) -> impl Iterator<Item = u8> {
        self.columns.iter().map(|column| column.form.kind.code())
    }

    /// Appends a row in slots. `false`: one of its values is not text, so the row was not written completely.
    pub fn append_cells<'a>(
        &self,
        count: usize,
        mut values: impl Iterator<Item = Result<Value<'a>, Malformed>>,
        row: &mut Row<'_, '_, '_, '_>,
    ) -> Result<bool, RowError> {
        self.check_count(count)?;
        for (index, column) in self.columns.iter().enumerate() {
            let Form { kind, text, .. } = &column.form;
            match values.next() {
                Some(Ok(Value::Null)) => row.append_null(*kind),
                Some(Ok(Value::Text(value))) => {
                    row.append(*kind, text, value, value)
                        .map_err(|error| RowError::Value {
                            column: index,
                            error,
                        })?
                }
                Some(Ok(Value::Unchanged | Value::Binary(_))) => return Ok(false),
                Some(Err(Malformed)) | None => return Err(RowError::FieldLength { column: index }),
            }
        }
        match values.next() {
            None => Ok(true),
            Some(_) => Err(RowError::TrailingBytes),
        }
    }

    fn check_count(&self, count: usize) -> Result<(), RowError> {
        if count == self.columns.len() {
            return Ok(());
        }
        Err(RowError::FieldCount {
            expected: self.columns.len(),
            found: i16::try_from(count).unwrap_or(-1),
        })
    }

    /// Appends a row of pgoutput with [`Relation::append_row`].
    pub fn append_tuple(
        &self,
        tuple: &Tuple<'_>,
        which: Which,
        out: &mut Output,
    ) -> Result<bool, RowError> {
        self.append_row(tuple.count, tuple.values(), which, out)
    }

    /// Appends a row of `count` values as a JSON object, without unchanged values. Returns whether there were unchanged
    /// values.
    pub fn append_row<'a>(
        &self,
        count: usize,
        values: impl Iterator<Item = Result<Value<'a>, Malformed>>,
        which: Which,
        out: &mut Output,
    ) -> Result<bool, RowError> {
        self.check_count(count)?;
        out.write(|out| self.append_values(values, which, out))
    }

    /// Appends the values. The comma in front of the first value becomes the brace.
    fn append_values<'a>(
        &self,
        mut values: impl Iterator<Item = Result<Value<'a>, Malformed>>,
        which: Which,
        out: &mut Writer<'_>,
    ) -> Result<bool, RowError> {
        let start = out.position();
        let mut has_unchanged = false;
        for (index, column) in self.columns.iter().enumerate() {
            let Some(Ok(value)) = values.next() else {
                return Err(RowError::FieldLength { column: index });
            };
            if value == Value::Unchanged {
                has_unchanged = true;
                continue;
            }
            if which == Which::Key && !column.is_key {
                continue;
            }
            column.lead.append(out);
            column
                .form
                .append(value, out)
                .map_err(|error| RowError::Value {
                    column: index,
                    error,
                })?;
        }
        if values.next().is_some() {
            return Err(RowError::TrailingBytes);
        }
        match out.written_since(start) {
            [first, ..] => *first = b'{',
            [] => out.put(b"{"),
        }
        out.put(b"}");
        Ok(has_unchanged)
    }

    /// Appends the names of the values that the server has not sent, as a JSON array.
    pub fn append_unchanged(&self, tuple: &Tuple<'_>, out: &mut Output) {
        let mut opening = b"[";
        for (column, value) in self.columns.iter().zip(tuple.values()) {
            if value == Ok(Value::Unchanged) {
                out.write(|out| {
                    out.put(opening);
                    out.put_slice(&column.name);
                });
                opening = b",";
            }
        }
        out.write(|out| out.put(b"]"));
    }
}

impl Form {
    fn new(type_oid: u32, strings: AsStrings, types: &Types) -> Form {
        let text = text_encoder(type_oid, strings, types);
        Form {
            kind: Kind::new(type_oid, 0, &text, strings),
            text,
            binary: Encoder::with_types(type_oid, 1, strings, types).ok(),
        }
    }

    #[inline(always)]
    fn append(&self, value: Value<'_>, out: &mut Writer<'_>) -> Result<(), InvalidValue> {
        match (value, &self.binary) {
            (Value::Binary(bytes), Some(encoder)) => encoder.append(bytes, bytes, out),
            (Value::Binary(_), None) => {
                Err(self.text.invalid("in a binary form that is not known here"))
            }
            (Value::Text(text), _) => self.text.append_rarely(text, out),
            (Value::Null | Value::Unchanged, _) => {
                out.put(b"null");
                Ok(())
            }
        }
    }
}

/// The encoder for text format. A value that cannot be read stays the server's text.
fn text_encoder(type_oid: u32, strings: AsStrings, types: &Types) -> Encoder {
    let mut encoder = Encoder::of_text(type_oid, strings, types);
    encoder.keep_unread();
    encoder
}

/// `,"schema":…,"table":…`. The server omits the name of the schema `pg_catalog`.
fn place(message: &RelationMessage<'_>) -> Box<[u8]> {
    let schema = match message.schema {
        b"" => b"pg_catalog",
        schema => schema,
    };
    written(|out| {
        out.put(b",\"schema\":");
        json_string::append(out, schema);
        out.put(b",\"table\":");
        json_string::append(out, message.name);
    })
}

fn string(text: &[u8]) -> Box<[u8]> {
    written(|out| json_string::append(out, text))
}

fn written(write: impl FnOnce(&mut Writer<'_>)) -> Box<[u8]> {
    let mut out = Output::default();
    out.write(write);
    Vec::from(out).into()
}
