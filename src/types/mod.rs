//! From a column's wire value to JSON bytes, type by type.
//!
//! The result is, byte for byte, the server's `to_json` in a session with TimeZone UTC, IntervalStyle iso_8601,
//! DateStyle ISO, bytea_output hex and extra_float_digits 1, whatever the session's settings are: we ask for the binary
//! strings, which knows no settings. Differences: oid is a bare unsigned number, CR and LF between the tokens of a json
//! value are dropped, and an anonymous record has no names (docs/types.md).
//!
//! One file per family. Each turns bytes into JSON and knows nothing of columns, rows or the protocol; every length and
//! every field is checked, so nonsense from the wire is an [`InvalidValue`], never a panic and never made-up output.

mod array;
mod boolean;
mod bytea;
mod catalog;
mod datetime;
mod digits;
mod float;
mod geometry;
mod integer;
mod interval;
mod json;
pub(crate) mod json_string;
mod nested;
mod network;
mod numeric;
pub mod oid;
pub mod output;
mod rare;
mod text;
mod uuid;

use catalog::Kind;
pub use catalog::Types;
use nested::Nest;
use output::{Target, Writer};
use rare::Rare;

/// A family's verdict on one value; the reason of a refusal is for humans.
type Outcome = Result<(), &'static str>;

const WRONG_LENGTH: &str = "wrong length for its type";
const UNKNOWN_TYPE: &str = "of a type that is not known, or not any more";

/// The bytes are no value of the column's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidValue {
    /// The column's type; behind [`InvalidValue::is_unknown_type`] the one inside it.
    pub type_oid: u32,
    /// What is wrong with the bytes.
    pub reason: &'static str,
}

impl InvalidValue {
    /// The bytes may be right: the value holds a type that nobody has described, or has described otherwise.
    pub fn is_unknown_type(&self) -> bool {
        self.reason == UNKNOWN_TYPE
    }
}

/// The server answered in binary for a type of which we know only the text form. Never the case when Bind asked as
/// [`has_binary_encoder`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownBinary {
    /// The column's type.
    pub type_oid: u32,
}

/// Which numbers are written as strings, also inside arrays: those of which a JavaScript number would lose digits.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Strings {
    /// int8.
    pub int8: bool,
    /// numeric.
    pub numeric: bool,
    /// json and jsonb: their text as a string.
    pub json: bool,
}

impl Strings {
    /// Both.
    pub const ALL: Strings = Strings {
        int8: true,
        numeric: true,
        json: false,
    };
    /// The server's own JSON.
    pub const NONE: Strings = Strings {
        int8: false,
        numeric: false,
        json: false,
    };

    fn quote(self, scalar: Scalar) -> bool {
        (self.int8 && scalar == Scalar::Int8) || (self.numeric && scalar == Scalar::Numeric)
    }
}

/// Whether Bind should ask for the binary form of a built-in type; all others come as text.
pub fn has_binary_encoder(type_oid: u32) -> bool {
    Types::default().has_binary_encoder(type_oid)
}

/// How a value becomes a cell of CSV.
pub(crate) enum Cell<'a> {
    /// This text.
    Text(&'a [u8]),
    /// The JSON string without its quotes: it holds nothing that CSV or JSON escape.
    Plain,
    /// The JSON of an array, in which there is no quote.
    Array,
    /// The JSON as it is: json's own text.
    JsonText,
    /// What the JSON stands for.
    Json,
}

/// How short a value's output may be, for a cap on the output that is to act before the value is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortest {
    /// No shorter than the value, less one byte: jsonb has a version in front.
    Value,
    /// The same without CR and LF, which json leaves out.
    WithoutLineBreaks,
    /// Nothing can be said: a numeric, an array.
    Unknown,
}

/// What writes the values of one column.
#[derive(Clone, Debug)]
pub struct Encoder {
    type_oid: u32,
    layout: Layout,
    types: Types,
    strings: Strings,
}

#[derive(Clone, Copy, Debug)]
enum Layout {
    Binary(Scalar),
    /// Between quotes: int8 and numeric on their way to JavaScript.
    QuotedBinary(Scalar),
    Array {
        element_oid: u32,
        element: Scalar,
        quoted: bool,
    },
    /// All that is made of other types.
    Nested,
    Text(Text),
    QuotedText(Text),
}

/// Types with a binary form of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scalar {
    Bool,
    Int2,
    Int4,
    Int8,
    Oid,
    Float4,
    Float8,
    Numeric,
    Text,
    Char,
    Bytea,
    Uuid,
    Date,
    Time,
    Timetz,
    Timestamp,
    Timestamptz,
    Interval,
    Json,
    Jsonb,
    Rare(Rare),
}

/// What can be said of a value in the server's text form.
#[derive(Clone, Copy, Debug)]
enum Text {
    Bool,
    Integer,
    Float,
    Numeric,
    Json,
    String,
}

impl Encoder {
    /// The encoder of a column as RowDescription describes it. `format_code` 0 (text) always has one; 1 (binary) those
    /// of [`has_binary_encoder`]. Any other code is treated as an unknown binary form.
    pub fn new(
        type_oid: u32,
        format_code: i16,
        strings: Strings,
    ) -> Result<Encoder, UnknownBinary> {
        Encoder::with_types(type_oid, format_code, strings, &Types::default())
    }

    /// The same where more types are known than the built-in ones.
    pub fn with_types(
        type_oid: u32,
        format_code: i16,
        strings: Strings,
        types: &Types,
    ) -> Result<Encoder, UnknownBinary> {
        let layout = match format_code {
            0 => Layout::of_text(type_oid, strings),
            1 => Layout::of_binary(type_oid, strings, types).ok_or(UnknownBinary { type_oid })?,
            _ => return Err(UnknownBinary { type_oid }),
        };
        Ok(Encoder {
            type_oid,
            layout,
            types: types.clone(),
            strings,
        })
    }

    /// Appends one value that is not NULL. On an error `out` may end in a part of it.
    pub fn encode(&self, value: &[u8], out: &mut impl Target) -> Result<(), InvalidValue> {
        out.write(|out| self.append(value, value, out))
    }

    /// How a value becomes a cell of CSV.
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

    /// Whether a value can hold text that a user chose. What numbers, dates and the like look like is the server's.
    pub(crate) fn can_hold_text(&self) -> bool {
        use Scalar as S;
        let scalar = match self.layout {
            Layout::Binary(scalar) | Layout::QuotedBinary(scalar) => Some(scalar),
            Layout::Array { .. } | Layout::Nested => None,
            Layout::Text(_) | Layout::QuotedText(_) if self.type_oid == oid::MONEY => return false,
            Layout::Text(_) | Layout::QuotedText(_) => Scalar::from_oid(self.type_oid),
        };
        !matches!(
            scalar,
            Some(
                S::Bool
                    | S::Int2
                    | S::Int4
                    | S::Int8
                    | S::Oid
                    | S::Float4
                    | S::Float8
                    | S::Numeric
                    | S::Uuid
                    | S::Date
                    | S::Time
                    | S::Timetz
                    | S::Timestamp
                    | S::Timestamptz
                    | S::Interval
            )
        )
    }

    /// How short the output of a value may be, in every format.
    pub(crate) fn shortest(&self) -> Shortest {
        match self.layout {
            Layout::Binary(Scalar::Text | Scalar::Bytea | Scalar::Jsonb)
            | Layout::Text(Text::String) => Shortest::Value,
            Layout::Binary(Scalar::Json) | Layout::Text(Text::Json) => Shortest::WithoutLineBreaks,
            _ => Shortest::Unknown,
        }
    }

    /// A verdict of the caller's on one of its values.
    pub(crate) fn invalid(&self, reason: &'static str) -> InvalidValue {
        InvalidValue {
            type_oid: self.type_oid,
            reason,
        }
    }

    /// As [`Encoder::encode`], for who can spare a call.
    pub(crate) fn append_rarely(
        &self,
        value: &[u8],
        out: &mut Writer<'_>,
    ) -> Result<(), InvalidValue> {
        if let Layout::Nested = self.layout {
            return self.append_nested(value, out);
        }
        self.layout
            .append(value, out)
            .map_err(|reason| InvalidValue {
                type_oid: self.type_oid,
                reason,
            })
    }

    #[inline(never)]
    fn append_nested(&self, value: &[u8], out: &mut Writer<'_>) -> Result<(), InvalidValue> {
        let nest = Nest::new(&self.types, self.strings);
        nest.append(self.type_oid, value, out, 0)
            .map_err(|reason| InvalidValue {
                type_oid: if reason == UNKNOWN_TYPE {
                    nest.unknown.get()
                } else {
                    self.type_oid
                },
                reason,
            })
    }

    /// As [`Encoder::encode`]; `readable` begins with `value` and may go on behind it, as a row does behind a field.
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
            Layout::Nested => return out.lend(|out| self.append_nested(value, out)),
            layout => out.lend(|out| layout.append(value, out)),
        };
        outcome.map_err(|reason| InvalidValue {
            type_oid: self.type_oid,
            reason,
        })
    }
}

impl Layout {
    fn of_binary(type_oid: u32, strings: Strings, types: &Types) -> Option<Layout> {
        Some(match types.kind(type_oid)? {
            Kind::Scalar(scalar) if strings.quote(scalar) => Layout::QuotedBinary(scalar),
            Kind::Scalar(scalar) => Layout::Binary(scalar),
            Kind::Array(element_oid)
                if let Some(Kind::Scalar(element)) = types.kind(element_oid) =>
            {
                Layout::Array {
                    element_oid,
                    element,
                    quoted: strings.quote(element) || (strings.json && element.is_json()),
                }
            }
            _ if types.has_binary_encoder(type_oid) => Layout::Nested,
            _ => return None,
        })
    }

    fn of_text(type_oid: u32, strings: Strings) -> Layout {
        let text = match type_oid {
            oid::BOOL => Text::Bool,
            oid::INT2 | oid::INT4 | oid::INT8 | oid::OID => Text::Integer,
            oid::FLOAT4 | oid::FLOAT8 => Text::Float,
            oid::NUMERIC => Text::Numeric,
            oid::JSON | oid::JSONB => Text::Json,
            _ => Text::String,
        };
        if Scalar::from_oid(type_oid).is_some_and(|scalar| strings.quote(scalar)) {
            Layout::QuotedText(text)
        } else {
            Layout::Text(text)
        }
    }

    #[inline(never)]
    fn append(self, value: &[u8], out: &mut Writer<'_>) -> Outcome {
        match self {
            Layout::Binary(scalar) => scalar.append(value, out),
            Layout::QuotedBinary(scalar) => scalar.append_as(value, Strings::ALL, out),
            Layout::Array {
                element_oid,
                element,
                quoted: in_quotes,
            } => array::append(out, value, element_oid, |out, value| {
                if in_quotes && element.is_json() {
                    let version = usize::from(element == Scalar::Jsonb);
                    text::append(out, value.get(version..).unwrap_or_default())
                } else if in_quotes {
                    element.append_as(value, Strings::ALL, out)
                } else {
                    element.append(value, out)
                }
            }),
            // Never: the encoder has seen to it.
            Layout::Nested => Err(UNKNOWN_TYPE),
            Layout::Text(text) => text.append(value, out),
            Layout::QuotedText(text) => quoted(out, |out| text.append(value, out)),
        }
    }
}

/// Puts what `append` writes between quotes, unless it is a string already (NaN and the infinities).
fn quoted(out: &mut Writer<'_>, append: impl FnOnce(&mut Writer<'_>) -> Outcome) -> Outcome {
    let start = out.position();
    out.put(b"\"");
    append(out)?;
    let text = out.written_since(start);
    if let [_, b'"', ..] = text {
        text.copy_within(1.., 0);
        out.truncate(out.position() - 1);
    } else {
        out.put(b"\"");
    }
    Ok(())
}

impl Scalar {
    fn from_oid(type_oid: u32) -> Option<Scalar> {
        Some(match type_oid {
            oid::BOOL => Scalar::Bool,
            oid::INT2 => Scalar::Int2,
            oid::INT4 => Scalar::Int4,
            oid::INT8 => Scalar::Int8,
            oid::OID => Scalar::Oid,
            oid::FLOAT4 => Scalar::Float4,
            oid::FLOAT8 => Scalar::Float8,
            oid::NUMERIC => Scalar::Numeric,
            oid::TEXT
            | oid::VARCHAR
            | oid::BPCHAR
            | oid::NAME
            | oid::UNKNOWN
            | oid::REFCURSOR
            | oid::CSTRING => Scalar::Text,
            oid::CHAR => Scalar::Char,
            oid::BYTEA => Scalar::Bytea,
            oid::UUID => Scalar::Uuid,
            oid::DATE => Scalar::Date,
            oid::TIME => Scalar::Time,
            oid::TIMETZ => Scalar::Timetz,
            oid::TIMESTAMP => Scalar::Timestamp,
            oid::TIMESTAMPTZ => Scalar::Timestamptz,
            oid::INTERVAL => Scalar::Interval,
            oid::JSON => Scalar::Json,
            oid::JSONB => Scalar::Jsonb,
            _ => return Rare::from_oid(type_oid).map(Scalar::Rare),
        })
    }

    fn is_json(self) -> bool {
        matches!(self, Scalar::Json | Scalar::Jsonb)
    }

    /// The value, between quotes where `strings` says so.
    #[inline(never)]
    fn append_as(self, value: &[u8], strings: Strings, out: &mut Writer<'_>) -> Outcome {
        if strings.quote(self) {
            quoted(out, |out| self.append(value, out))
        } else {
            self.append(value, out)
        }
    }

    #[inline(never)]
    fn append(self, value: &[u8], out: &mut Writer<'_>) -> Outcome {
        match self {
            Scalar::Bool => lent(out, value, boolean::append),
            Scalar::Int2 => lent(out, value, integer::append_int2),
            Scalar::Int4 => lent(out, value, integer::append_int4),
            Scalar::Int8 => lent(out, value, integer::append_int8),
            Scalar::Oid => lent(out, value, integer::append_oid),
            Scalar::Float4 => lent(out, value, float::append_float4),
            Scalar::Float8 => lent(out, value, float::append_float8),
            Scalar::Numeric => lent(out, value, numeric::append),
            Scalar::Text => text::append(out, value),
            Scalar::Char => text::append_char(out, value),
            Scalar::Bytea => lent(out, value, bytea::append),
            Scalar::Uuid => lent(out, value, uuid::append),
            Scalar::Date => lent(out, value, datetime::append_date),
            Scalar::Time => lent(out, value, datetime::append_time),
            Scalar::Timetz => lent(out, value, datetime::append_timetz),
            Scalar::Timestamp => lent(out, value, datetime::append_timestamp),
            Scalar::Timestamptz => lent(out, value, datetime::append_timestamptz),
            Scalar::Interval => lent(out, value, interval::append),
            Scalar::Json => lent(out, value, json::append),
            Scalar::Jsonb => lent(out, value, |out, value| {
                json::append_jsonb(out, value, value)
            }),
            Scalar::Rare(rare) => rare.append(value, out),
        }
    }
}

/// A family's function, inlined, on a writer of its own: see [`Writer`].
#[inline(always)]
fn lent(
    out: &mut Writer<'_>,
    value: &[u8],
    append: impl Fn(&mut Writer<'_>, &[u8]) -> Outcome,
) -> Outcome {
    out.lend(|out| append(out, value))
}

impl Text {
    fn append(self, value: &[u8], out: &mut Writer<'_>) -> Outcome {
        match self {
            Text::Bool => boolean::append_text(out, value),
            Text::Integer => integer::append_text(out, value),
            Text::Float => float::append_text(out, value),
            Text::Numeric => numeric::append_text(out, value),
            Text::Json => json::append(out, value),
            Text::String => text::append(out, value),
        }
    }
}

#[cfg(test)]
mod tests;
