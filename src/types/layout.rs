//! How the values of a column lie on the wire, in binary or as the server's text, and what is put around them.
//!
//! It is chosen once for a column, by its type, its format code and which numbers the caller wants as strings.

use super::catalog::Kind;
use super::output::Writer;
use super::scalar::{Scalar, quoted};
use super::{Outcome, Strings, Types, UNKNOWN_TYPE};
use super::{array, boolean, float, integer, json, numeric, oid, text};

#[derive(Clone, Copy, Debug)]
pub(super) enum Layout {
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

/// What can be said of a value in the server's text form.
#[derive(Clone, Copy, Debug)]
pub(super) enum Text {
    Bool,
    Integer,
    Float,
    Numeric,
    Json,
    String,
}

impl Layout {
    pub(super) fn of_binary(type_oid: u32, strings: Strings, types: &Types) -> Option<Layout> {
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

    pub(super) fn of_text(type_oid: u32, strings: Strings) -> Layout {
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
    pub(super) fn append(self, value: &[u8], out: &mut Writer<'_>) -> Outcome {
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
