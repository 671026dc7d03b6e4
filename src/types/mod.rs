//! From a column's wire value to JSON bytes, type by type.
//!
//! The result is, byte for byte, the server's `to_json` in a session with TimeZone UTC, IntervalStyle iso_8601, DateStyle ISO,
//! bytea_output hex and extra_float_digits 1, whatever the session's settings are: we ask for the binary form, which knows no
//! settings. Two differences: oid is a bare unsigned number, and CR and LF between the tokens of a json value are dropped.
//!
//! One file per family. Each turns bytes into JSON and knows nothing of columns, rows or the protocol; every length and every field is
//! checked, so nonsense from the wire is an [`InvalidValue`], never a panic and never made-up output.

mod array;
mod boolean;
mod bytea;
pub(crate) mod copy;
mod datetime;
mod digits;
mod float;
mod integer;
mod interval;
mod json;
pub(crate) mod json_string;
mod numeric;
pub mod oid;
mod text;
mod uuid;

use alloc::vec::Vec;

/// A family's verdict on one value; the reason of a refusal is for humans.
type Outcome = Result<(), &'static str>;

const WRONG_LENGTH: &str = "wrong length for its type";

/// The bytes are no value of the column's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidValue {
    /// The column's type.
    pub type_oid: u32,
    /// What is wrong with the bytes.
    pub reason: &'static str,
}

/// The server answered in binary for a type of which we know only the text form. Never the case when Bind asked as
/// [`has_binary_encoder`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownBinary {
    /// The column's type.
    pub type_oid: u32,
}

/// Who reads the JSON.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum JsonForm {
    /// Exactly the server's `to_json`.
    #[default]
    ServerJson,
    /// JavaScript, through `JSON.parse`: int8 and numeric become strings, also inside arrays, because a JavaScript number would lose
    /// digits. All else as in `ServerJson`.
    Objects,
}

/// Whether Bind should ask for the binary form of a type; all others come as text.
pub fn has_binary_encoder(type_oid: u32) -> bool {
    Scalar::from_oid(type_oid).is_some() || array_element(type_oid).is_some()
}

/// What writes the values of one column.
#[derive(Clone, Debug)]
pub struct Encoder {
    type_oid: u32,
    layout: Layout,
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
    /// The encoder of a column as RowDescription describes it. `format_code` 0 (text) always has one; 1 (binary) those of
    /// [`has_binary_encoder`]. Any other code is treated as an unknown binary form.
    pub fn new(type_oid: u32, format_code: i16, form: JsonForm) -> Result<Encoder, UnknownBinary> {
        let layout = match format_code {
            0 => Layout::of_text(type_oid, form),
            1 => Layout::of_binary(type_oid, form).ok_or(UnknownBinary { type_oid })?,
            _ => return Err(UnknownBinary { type_oid }),
        };
        Ok(Encoder { type_oid, layout })
    }

    /// Appends one value that is not NULL. On an error `out` may end in a part of it.
    #[inline]
    pub fn encode(&self, value: &[u8], out: &mut Vec<u8>) -> Result<(), InvalidValue> {
        self.layout
            .append(value, out)
            .map_err(|reason| InvalidValue {
                type_oid: self.type_oid,
                reason,
            })
    }
}

impl Layout {
    fn of_binary(type_oid: u32, form: JsonForm) -> Option<Layout> {
        if let Some((element_oid, element)) = array_element(type_oid) {
            return Some(Layout::Array {
                element_oid,
                element,
                quoted: is_quoted(element_oid, form),
            });
        }
        let scalar = Scalar::from_oid(type_oid)?;
        Some(if is_quoted(type_oid, form) {
            Layout::QuotedBinary(scalar)
        } else {
            Layout::Binary(scalar)
        })
    }

    fn of_text(type_oid: u32, form: JsonForm) -> Layout {
        let text = match type_oid {
            oid::BOOL => Text::Bool,
            oid::INT2 | oid::INT4 | oid::INT8 | oid::OID => Text::Integer,
            oid::FLOAT4 | oid::FLOAT8 => Text::Float,
            oid::NUMERIC => Text::Numeric,
            oid::JSON | oid::JSONB => Text::Json,
            _ => Text::String,
        };
        if is_quoted(type_oid, form) {
            Layout::QuotedText(text)
        } else {
            Layout::Text(text)
        }
    }

    #[inline]
    fn append(self, value: &[u8], out: &mut Vec<u8>) -> Outcome {
        match self {
            Layout::Binary(scalar) => scalar.append(value, out),
            Layout::QuotedBinary(scalar) => quoted(out, |out| scalar.append(value, out)),
            Layout::Array {
                element_oid,
                element: Scalar::Int4,
                ..
            } => array::append(out, value, element_oid, integer::append_int4),
            Layout::Array {
                element_oid,
                element,
                quoted: false,
            } => array::append(out, value, element_oid, |out, value| {
                element.append(value, out)
            }),
            Layout::Array {
                element_oid,
                element,
                quoted: true,
            } => array::append(out, value, element_oid, |out, value| {
                quoted(out, |out| element.append(value, out))
            }),
            Layout::Text(text) => text.append(value, out),
            Layout::QuotedText(text) => quoted(out, |out| text.append(value, out)),
        }
    }
}

/// Types whose numbers do not fit a JavaScript number.
fn is_quoted(type_oid: u32, form: JsonForm) -> bool {
    form == JsonForm::Objects && matches!(type_oid, oid::INT8 | oid::NUMERIC)
}

/// Puts what `append` writes between quotes, unless it is a string already (NaN and the infinities).
fn quoted(out: &mut Vec<u8>, append: impl FnOnce(&mut Vec<u8>) -> Outcome) -> Outcome {
    let start = out.len();
    out.push(b'"');
    append(out)?;
    if out.get(start + 1) == Some(&b'"') {
        out.remove(start);
    } else {
        out.push(b'"');
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
            oid::TEXT | oid::VARCHAR | oid::BPCHAR | oid::NAME | oid::UNKNOWN => Scalar::Text,
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
            _ => return None,
        })
    }

    #[inline]
    fn append(self, value: &[u8], out: &mut Vec<u8>) -> Outcome {
        match self {
            Scalar::Bool => boolean::append(out, value),
            Scalar::Int2 => integer::append_int2(out, value),
            Scalar::Int4 => integer::append_int4(out, value),
            Scalar::Int8 => integer::append_int8(out, value),
            Scalar::Oid => integer::append_oid(out, value),
            Scalar::Float4 => float::append_float4(out, value),
            Scalar::Float8 => float::append_float8(out, value),
            Scalar::Numeric => numeric::append(out, value),
            Scalar::Text => text::append(out, value),
            Scalar::Char => text::append_char(out, value),
            Scalar::Bytea => bytea::append(out, value),
            Scalar::Uuid => uuid::append(out, value),
            Scalar::Date => datetime::append_date(out, value),
            Scalar::Time => datetime::append_time(out, value),
            Scalar::Timetz => datetime::append_timetz(out, value),
            Scalar::Timestamp => datetime::append_timestamp(out, value),
            Scalar::Timestamptz => datetime::append_timestamptz(out, value),
            Scalar::Interval => interval::append(out, value),
            Scalar::Json => json::append(out, value),
            Scalar::Jsonb => json::append_jsonb(out, value),
        }
    }
}

impl Text {
    fn append(self, value: &[u8], out: &mut Vec<u8>) -> Outcome {
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

/// The element of an array type. int2vector and oidvector are arrays for `to_json`, and on the wire.
fn array_element(type_oid: u32) -> Option<(u32, Scalar)> {
    let element_oid = match type_oid {
        oid::BOOL_ARRAY => oid::BOOL,
        oid::BYTEA_ARRAY => oid::BYTEA,
        oid::CHAR_ARRAY => oid::CHAR,
        oid::NAME_ARRAY => oid::NAME,
        oid::INT2_ARRAY | oid::INT2VECTOR => oid::INT2,
        oid::INT4_ARRAY => oid::INT4,
        oid::TEXT_ARRAY => oid::TEXT,
        oid::BPCHAR_ARRAY => oid::BPCHAR,
        oid::VARCHAR_ARRAY => oid::VARCHAR,
        oid::INT8_ARRAY => oid::INT8,
        oid::FLOAT4_ARRAY => oid::FLOAT4,
        oid::FLOAT8_ARRAY => oid::FLOAT8,
        oid::OID_ARRAY | oid::OIDVECTOR => oid::OID,
        oid::TIMESTAMP_ARRAY => oid::TIMESTAMP,
        oid::DATE_ARRAY => oid::DATE,
        oid::TIME_ARRAY => oid::TIME,
        oid::TIMESTAMPTZ_ARRAY => oid::TIMESTAMPTZ,
        oid::INTERVAL_ARRAY => oid::INTERVAL,
        oid::NUMERIC_ARRAY => oid::NUMERIC,
        oid::TIMETZ_ARRAY => oid::TIMETZ,
        oid::UUID_ARRAY => oid::UUID,
        oid::JSON_ARRAY => oid::JSON,
        oid::JSONB_ARRAY => oid::JSONB,
        _ => return None,
    };
    Scalar::from_oid(element_oid).map(|element| (element_oid, element))
}
