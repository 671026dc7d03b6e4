//! Writes the values of one column, in any format, and says what is known of values before they have arrived.
//!
//! An [`Encoder`] is made once per column and called for each of its values. The types that most rows hold are a
//! `match` away, inlined into the loop over a row. All others are behind a call, so that the loop stays small.

use super::catalog::Kind;
use super::layout::{Layout, Text};
use super::nested::Nest;
use super::output::{Target, Writer};
use super::scalar::Scalar;
use super::{AsStrings, InvalidValue, Types, UNKNOWN_TYPE, UnknownBinary, oid};
use super::{boolean, float, integer, json, json_string, text};

/// How a value becomes a cell of CSV.
pub(crate) enum Cell<'a> {
    /// This text.
    Text(&'a [u8]),
    /// The JSON string without its quotes: it contains nothing that CSV or JSON escape.
    Plain,
    /// The JSON of an array, which contains no quote.
    Array,
    /// The JSON itself: json's own text.
    JsonText,
    /// The text that the JSON stands for.
    Json,
}

/// How short a value's output may be. A cap on the output uses it before the value has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortest {
    /// No shorter than the value minus one byte: jsonb has a version in front.
    Value,
    /// The same, without counting CR and LF, which json leaves out.
    WithoutLineBreaks,
    /// Unknown, as for a numeric or an array.
    Unknown,
}

/// Writes the values of one column.
#[derive(Clone, Debug)]
pub struct Encoder {
    type_oid: u32,
    layout: Layout,
    types: Types,
    strings: AsStrings,
    keeps_unread: bool,
}

impl Encoder {
    /// Makes the encoder of a column as RowDescription describes it. `format_code` 0 (text) always has an encoder; 1
    /// (binary) has one for the types of [`Types::has_binary_encoder`]. Any other code is treated as an unknown binary
    /// form.
    pub fn new(
        type_oid: u32,
        format_code: i16,
        strings: AsStrings,
    ) -> Result<Encoder, UnknownBinary> {
        Encoder::with_types(type_oid, format_code, strings, &Types::default())
    }

    /// Like [`Encoder::new`], with more known types than the built-in ones.
    pub fn with_types(
        type_oid: u32,
        format_code: i16,
        strings: AsStrings,
        types: &Types,
    ) -> Result<Encoder, UnknownBinary> {
        let layout = match format_code {
            0 => return Ok(Encoder::of_text(type_oid, strings, types)),
            1 => Layout::of_binary(type_oid, strings, types).ok_or(UnknownBinary { type_oid })?,
            _ => return Err(UnknownBinary { type_oid }),
        };
        Ok(Encoder::of_layout(type_oid, layout, strings, types))
    }

    /// Makes the encoder of values in the server's text form; every type has one.
    pub fn of_text(type_oid: u32, strings: AsStrings, types: &Types) -> Encoder {
        Encoder::of_layout(type_oid, Layout::of_text(type_oid, types), strings, types)
    }

    fn of_layout(type_oid: u32, layout: Layout, strings: AsStrings, types: &Types) -> Encoder {
        Encoder {
            type_oid,
            layout,
            types: types.clone(),
            strings,
            keeps_unread: false,
        }
    }

    /// From now on, a text that cannot be read becomes a string of that text, not an error. This is for sessions in
    /// which any client may set another DateStyle, and in which the catalog is not asked again what a composite is made
    /// of. Types whose text is the same in every session are not affected, nor is the binary form.
    pub fn keep_unread(&mut self) {
        self.keeps_unread =
            matches!(self.layout, Layout::Text(_)) && self.types.has_other_texts(self.type_oid);
    }

    /// Appends one value that is not NULL. After an error `out` may end with a part of it.
    pub fn encode(&self, value: &[u8], out: &mut impl Target) -> Result<(), InvalidValue> {
        out.write(|out| self.append(value, value, out))
    }

    /// Returns how a value becomes a cell of CSV.
    pub(crate) fn cell<'a>(&self, value: &'a [u8]) -> Cell<'a> {
        use Scalar as S;
        match (self.layout, value) {
            (Layout::Binary(S::Text) | Layout::Text(Text::String), _) => Cell::Text(value),
            (Layout::Binary(S::Jsonb), [1, text @ ..]) => Cell::Text(text),
            (Layout::Binary(S::Json) | Layout::Text(Text::Json), _) => Cell::JsonText,
            (
                Layout::Binary(
                    S::Uuid
                    | S::Date
                    | S::Time
                    | S::Timetz
                    | S::Timestamp
                    | S::Timestamptz
                    | S::Interval,
                ),
                _,
            ) => Cell::Plain,
            // Dates are not here, because their text may be kept unread.
            (Layout::Text(Text::Read), _)
                if let Some(S::Uuid | S::Time | S::Timetz) = self.scalar() =>
            {
                Cell::Plain
            }
            (
                Layout::Array {
                    element: S::Bool | S::Int2 | S::Int4 | S::Int8 | S::Oid,
                    quoted: false,
                    ..
                },
                _,
            ) => Cell::Array,
            _ => Cell::Json,
        }
    }

    /// Returns whether a value can contain text that a user chose. The server decides what numbers, dates and the like
    /// look like.
    pub(crate) fn can_hold_text(&self) -> bool {
        use Scalar as S;
        let is_of_server = matches!(
            self.scalar(),
            Some(
                S::Uuid
                    | S::Date
                    | S::Time
                    | S::Timetz
                    | S::Timestamp
                    | S::Timestamptz
                    | S::Interval
            )
        );
        !(is_of_server || self.is_number() || self.type_oid == oid::MONEY)
    }

    /// Returns whether the type is a number of PostgreSQL's, or bool.
    fn is_number(&self) -> bool {
        use Scalar as S;
        matches!(
            self.scalar(),
            Some(
                S::Bool | S::Int2 | S::Int4 | S::Int8 | S::Oid | S::Float4 | S::Float8 | S::Numeric
            )
        )
    }

    fn scalar(&self) -> Option<Scalar> {
        match self.types.kind(self.type_oid) {
            Some(Kind::Scalar(scalar)) => Some(scalar),
            _ => None,
        }
    }

    /// Returns how short the output of a value may be, in every format.
    pub(crate) fn shortest(&self) -> Shortest {
        match self.layout {
            Layout::Binary(Scalar::Text | Scalar::Bytea | Scalar::Jsonb)
            | Layout::Text(Text::String) => Shortest::Value,
            Layout::Binary(Scalar::Json) | Layout::Text(Text::Json) => Shortest::WithoutLineBreaks,
            _ => Shortest::Unknown,
        }
    }

    /// Makes the caller's error about one of the column's values.
    pub(crate) fn invalid(&self, reason: &'static str) -> InvalidValue {
        InvalidValue {
            type_oid: self.type_oid,
            reason,
        }
    }

    /// Like [`Encoder::encode`], for callers that can afford a call.
    pub(crate) fn append_rarely(
        &self,
        value: &[u8],
        out: &mut Writer<'_>,
    ) -> Result<(), InvalidValue> {
        if let Layout::Nested | Layout::Text(Text::Read) = self.layout {
            return self.append_nested(value, out);
        }
        self.layout
            .append(value, out)
            .map_err(|reason| InvalidValue {
                type_oid: self.type_oid,
                reason,
            })
    }

    /// Appends a value that is made of other values, or is read from text.
    #[inline(never)]
    fn append_nested(&self, value: &[u8], out: &mut Writer<'_>) -> Result<(), InvalidValue> {
        let nest = Nest::new(&self.types, self.strings);
        let start = out.position();
        let outcome = match self.layout {
            Layout::Text(_) => nest.append_text(self.type_oid, value, out),
            _ => nest.append(self.type_oid, value, out, 0),
        };
        if outcome.is_err() && self.keeps_unread {
            out.truncate(start);
            json_string::append(out, value);
            return Ok(());
        }
        outcome.map_err(|reason| InvalidValue {
            type_oid: if reason == UNKNOWN_TYPE {
                nest.unknown.get()
            } else {
                self.type_oid
            },
            reason,
        })
    }

    /// Like [`Encoder::encode`]. `readable` begins with `value` and may continue after it, as a row does after a field.
    #[inline(always)]
    pub(crate) fn append(
        &self,
        value: &[u8],
        readable: &[u8],
        out: &mut Writer<'_>,
    ) -> Result<(), InvalidValue> {
        let outcome = match self.layout {
            Layout::Binary(Scalar::Int4) => integer::append_int4(out, value),
            Layout::Binary(Scalar::Text) => text::append_within(out, value, readable),
            Layout::Binary(Scalar::Bool) => boolean::append(out, value),
            Layout::Binary(Scalar::Jsonb) => json::append_jsonb(out, value, readable),
            Layout::Binary(Scalar::Float8) => float::append_float8(out, value),
            Layout::Binary(scalar) => out.lend(|out| scalar.append(value, out)),
            Layout::Nested | Layout::Text(Text::Read) => {
                return out.lend(|out| self.append_nested(value, out));
            }
            layout => out.lend(|out| layout.append(value, out)),
        };
        outcome.map_err(|reason| InvalidValue {
            type_oid: self.type_oid,
            reason,
        })
    }
}
