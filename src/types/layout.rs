//! The layout of a column's values on the wire, in binary or as the server's text, and what is put around them.
//!
//! It is chosen once per column, by its type, its format code and the types that the caller wants as strings.

use super::catalog::Kind;
use super::from_text::{NOT_READ, forms};
use super::output::Writer;
use super::rare::Rare;
use super::scalar::Scalar;
use super::{AsStrings, Outcome, Types, UNKNOWN_TYPE};
use super::{array, json, text};

#[derive(Clone, Copy, Debug)]
pub(super) enum Layout {
    Binary(Scalar),
    /// Written between quotes: int8 and numeric for JavaScript.
    QuotedBinary(Scalar),
    Array {
        element_oid: u32,
        element: Scalar,
        quoted: bool,
    },
    /// Everything else that is made of other types.
    Nested,
    Text(Text),
}

/// How a value in the server's text form is written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Text {
    /// As it is, as a string.
    String,
    /// As it is: it is JSON.
    Json,
    /// As `from_text.rs` reads it.
    Read,
    /// As `String`, if it has the form of its type.
    Checked(fn(&[u8]) -> bool),
}

impl Layout {
    pub(super) fn of_binary(type_oid: u32, strings: AsStrings, types: &Types) -> Option<Layout> {
        if types.float_times() && !types.has_binary_encoder(type_oid) {
            return None;
        }
        Some(match types.kind(type_oid)? {
            Kind::Scalar(scalar) if strings.quotes_number(scalar) => Layout::QuotedBinary(scalar),
            Kind::Scalar(scalar) => Layout::Binary(scalar),
            Kind::Array(element_oid) | Kind::Vector(element_oid)
                if let Some(Kind::Scalar(element)) = types.kind(element_oid) =>
            {
                Layout::Array {
                    element_oid,
                    element,
                    quoted: strings.quotes_number(element) || (strings.json && element.is_json()),
                }
            }
            _ if types.is_readable(type_oid) => Layout::Nested,
            _ => return None,
        })
    }

    pub(super) fn of_text(type_oid: u32, types: &Types) -> Layout {
        use Scalar as S;
        let is_record = |type_oid| matches!(types.kind(type_oid), Some(Kind::Composite(None)));
        let text = match types.kind(type_oid) {
            Some(Kind::Scalar(S::Json | S::Jsonb)) => Text::Json,
            Some(Kind::Scalar(S::Text | S::Rare(Rare::Versioned))) => Text::String,
            Some(Kind::Array(element)) if is_record(element) => Text::String,
            Some(Kind::Text(_)) => {
                forms::of_text_only(type_oid).map_or(Text::String, Text::Checked)
            }
            _ if types.is_array_of_text(type_oid) => Text::Read,
            _ if types.is_ambiguous(type_oid) => Text::String,
            _ if types.is_readable(type_oid) => Text::Read,
            _ => Text::String,
        };
        Layout::Text(text)
    }

    #[inline(never)]
    pub(super) fn append(self, value: &[u8], out: &mut Writer<'_>) -> Outcome {
        match self {
            Layout::Binary(scalar) => scalar.append(value, out),
            Layout::QuotedBinary(scalar) => scalar.append_as(value, AsStrings::ALL, out),
            Layout::Array {
                element_oid,
                element,
                quoted: in_quotes,
            } => array::append(out, value, element_oid, |out, value| {
                if in_quotes && element.is_json() {
                    let version = usize::from(element == Scalar::Jsonb);
                    text::append(out, value.get(version..).unwrap_or_default())
                } else if in_quotes {
                    element.append_as(value, AsStrings::ALL, out)
                } else {
                    element.append(value, out)
                }
            }),
            // Never reached: the encoder handles these layouts itself.
            Layout::Nested | Layout::Text(Text::Read) => Err(UNKNOWN_TYPE),
            Layout::Text(Text::String) => text::append(out, value),
            Layout::Text(Text::Checked(is_form)) => {
                if !is_form(value) {
                    return Err(NOT_READ);
                }
                text::append(out, value)
            }
            Layout::Text(Text::Json) => json::append(out, value),
        }
    }
}
