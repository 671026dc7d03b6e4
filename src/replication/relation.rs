//! A table as the server has described it, and its rows as JSON objects.
//!
//! Knows columns and their encoders. Must not know messages' order or positions.

use super::message::{RelationMessage, Tuple, Value};
use crate::encode::{RowError, camel_case};
use crate::types::output::{Output, Target, Writer};
use crate::types::{Encoder, InvalidValue, Strings, Types, json_string};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// How rows are written.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RowOptions {
    pub strings: Strings,
    /// `created_at` becomes `createdAt`.
    pub camel_case: bool,
}

#[derive(Debug)]
pub(super) struct Relation {
    pub oid: u32,
    /// `"schema":"public","table":"users"`
    pub place: Box<[u8]>,
    pub replica_identity: u8,
    pub columns: Box<[Column]>,
}

#[derive(Debug)]
pub(super) struct Column {
    /// As a JSON string.
    pub name: Box<[u8]>,
    pub type_oid: u32,
    pub type_modifier: i32,
    pub is_key: bool,
    text: Encoder,
    /// `None`: a type whose binary form is not known here. The server was asked for binary where it can, so its rows
    /// cannot be read.
    binary: Option<Encoder>,
}

/// Which columns of a row have values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    All,
    /// Those of the replica identity.
    Key,
}

impl Relation {
    pub fn new(message: &RelationMessage<'_>, options: RowOptions, types: &Types) -> Relation {
        Relation {
            oid: message.oid,
            place: place(message),
            replica_identity: message.replica_identity,
            columns: message
                .columns()
                .map(|column| Column {
                    name: if options.camel_case {
                        string(&camel_case(column.name))
                    } else {
                        string(column.name)
                    },
                    type_oid: column.type_oid,
                    type_modifier: column.type_modifier,
                    is_key: column.is_key,
                    ..Column::of_type(column.type_oid, options.strings, types)
                })
                .collect(),
        }
    }

    /// More types are known now.
    pub fn learn(&mut self, strings: Strings, types: &Types) {
        for column in &mut self.columns {
            let Column { text, binary, .. } = Column::of_type(column.type_oid, strings, types);
            (column.text, column.binary) = (text, binary);
        }
    }

    /// [`Relation::append_row`] of a row of pgoutput.
    pub fn append_tuple(
        &self,
        tuple: &Tuple<'_>,
        which: Which,
        out: &mut Output,
    ) -> Result<bool, RowError> {
        self.append_row(tuple.count, tuple.values(), which, out)
    }

    /// Appends a row of `count` values as a JSON object; unchanged ones are left out. Whether there was one.
    pub fn append_row<'a>(
        &self,
        count: usize,
        values: impl Iterator<Item = Value<'a>>,
        which: Which,
        out: &mut Output,
    ) -> Result<bool, RowError> {
        if count != self.columns.len() {
            return Err(RowError::FieldCount {
                expected: self.columns.len(),
                found: i16::try_from(count).unwrap_or(-1),
            });
        }
        let mut opening = b"{";
        let mut has_unchanged = false;
        for (index, (column, value)) in self.columns.iter().zip(values).enumerate() {
            if value == Value::Unchanged {
                has_unchanged = true;
                continue;
            }
            if which == Which::Key && !column.is_key {
                continue;
            }
            out.write(|out| {
                out.put(opening);
                out.put_slice(&column.name);
                out.put(b":");
            });
            opening = b",";
            column.append(value, out).map_err(|error| RowError::Value {
                column: index,
                error,
            })?;
        }
        out.write(|out| {
            out.put_block(b"{", usize::from(opening == b"{"));
            out.put(b"}");
        });
        Ok(has_unchanged)
    }

    /// Appends the names of the values that the server has not sent, as a JSON array.
    pub fn append_unchanged(&self, tuple: &Tuple<'_>, out: &mut Output) {
        let mut opening = b"[";
        for (column, value) in self.columns.iter().zip(tuple.values()) {
            if value == Value::Unchanged {
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

impl Column {
    fn of_type(type_oid: u32, strings: Strings, types: &Types) -> Column {
        Column {
            name: Box::default(),
            type_oid,
            type_modifier: -1,
            is_key: false,
            text: text_encoder(type_oid, strings, types),
            binary: Encoder::with_types(type_oid, 1, strings, types).ok(),
        }
    }

    fn append(&self, value: Value<'_>, out: &mut Output) -> Result<(), InvalidValue> {
        match value {
            Value::Text(text) => self.text.encode(text, out),
            Value::Binary(bytes) => match &self.binary {
                Some(encoder) => encoder.encode(bytes, out),
                None => Err(self.text.invalid("in a binary form that is not known here")),
            },
            Value::Null | Value::Unchanged => {
                out.write(|out| out.put(b"null"));
                Ok(())
            }
        }
    }
}

/// What cannot be read stays the server's text.
fn text_encoder(type_oid: u32, strings: Strings, types: &Types) -> Encoder {
    let mut encoder = Encoder::of_text(type_oid, strings, types);
    encoder.keep_unread();
    encoder
}

/// The server leaves the name of the schema `pg_catalog` out.
fn place(message: &RelationMessage<'_>) -> Box<[u8]> {
    let schema = match message.schema {
        b"" => b"pg_catalog",
        schema => schema,
    };
    written(|out| {
        out.put(b"\"schema\":");
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
