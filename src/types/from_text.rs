//! Values in the server's text form: they become the same JSON, byte for byte, as their binary form.
//!
//! Text arrives where binary was not asked for (the simple query protocol) or could not be (a statement that is not
//! known yet). It depends on settings of the session. These are read: DateStyle ISO in any order, any TimeZone,
//! IntervalStyle postgres or iso_8601, extra_float_digits of 1 or more, both settings of bytea_output. Everything else
//! is refused, and so is any text that no output function of the server writes: bytes that were changed on their way
//! are an error, not another value. The text of an anonymous record does not say which types it contains, so it stays
//! text, as a string.
//!
//! ```text
//! scanner.rs      characters and digits
//! quotes.rs       values between quotes
//! numbers.rs      integers, numeric, floats
//! bytes.rs        bytea
//! times.rs        dates and times; intervals.rs
//! forms.rs         types with few forms: uuid, addresses, bit strings, …; geometry.rs
//! arrays.rs        arrays; nested.rs: everything else made of other types
//! ```
//! Any text is a valid text, and a json value is the server's, as in binary, so these are not checked. Neither are
//! types of which only the text is known here (xml, tsvector, names of objects), alone or inside other values.

mod arrays;
mod bytes;
pub(super) mod forms;
mod geometry;
mod intervals;
mod nested;
mod numbers;
mod quotes;
mod scanner;
mod times;

use super::catalog::Kind;
use super::nested::{MAX_DEPTH, Nest};
use super::output::Writer;
use super::rare::Rare;
use super::scalar::{Scalar, quoted};
use super::{Outcome, UNKNOWN_TYPE, boolean, json, json_string};

pub(super) const NOT_READ: &str = "not in a supported text form";

impl Nest<'_> {
    /// Like [`Nest::append`], from text.
    pub(super) fn append_text(&self, type_oid: u32, text: &[u8], out: &mut Writer<'_>) -> Outcome {
        self.read(type_oid, text, out, 0)
            .ok_or(if self.unknown.get() == 0 {
                NOT_READ
            } else {
                UNKNOWN_TYPE
            })
    }

    fn refuse_text(&self, type_oid: u32) -> Option<()> {
        self.unknown.set(type_oid);
        None
    }

    /// Reads a value inside other values at `depth`. Returns `None` if `text` is not a value of the type, or if a type
    /// is unknown: then [`Nest::unknown`] is that type.
    #[inline(never)]
    fn read(&self, type_oid: u32, text: &[u8], out: &mut Writer<'_>, depth: u32) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        match self.types.kind(type_oid) {
            Some(Kind::Scalar(scalar)) if self.strings.quotes_number(scalar) => {
                quoted(out, |out| append_scalar(scalar, text, out)).ok()
            }
            Some(Kind::Scalar(scalar)) => append_scalar(scalar, text, out).ok(),
            Some(Kind::Text(_)) => {
                let is_form = forms::of_text_only(type_oid);
                is_form
                    .is_none_or(|is_form| is_form(text))
                    .then(|| json_string::append(out, text))
            }
            Some(Kind::Vector(element)) => arrays::append_vector(element, text, out),
            Some(Kind::Array(element)) => self.read_array(element, text, out, depth),
            Some(Kind::Composite(Some(attributes))) => {
                self.read_record(type_oid, attributes, text, out, depth.saturating_add(1))
            }
            Some(Kind::Range(subtype)) => self.read_range(subtype, text, out),
            Some(Kind::Multirange(range)) => self.read_multirange(range, text, out),
            Some(Kind::Composite(None)) => {
                nested::count_fields(text)?;
                json_string::append(out, text);
                Some(())
            }
            None => self.refuse_text(type_oid),
        }
    }
}

#[inline(never)]
fn append_scalar(scalar: Scalar, text: &[u8], out: &mut Writer<'_>) -> Outcome {
    use Scalar as S;
    match scalar {
        S::Bool => boolean::append_text(out, text),
        S::Int2 => numbers::append_integer(out, text, i16::MIN.into()..=i16::MAX.into()),
        S::Int4 => numbers::append_integer(out, text, i32::MIN.into()..=i32::MAX.into()),
        S::Int8 => numbers::append_integer(out, text, i64::MIN..=i64::MAX),
        S::Oid => numbers::append_integer(out, text, 0..=u32::MAX.into()),
        S::Float4 => numbers::append_float(out, text, numbers::FLOAT4),
        S::Float8 => numbers::append_float(out, text, numbers::FLOAT8),
        S::Numeric => numbers::append_numeric(out, text),
        S::Json | S::Jsonb => return json::append(out, text),
        S::Bytea => bytes::append(out, text),
        S::Date | S::Time | S::Timetz | S::Timestamp | S::Timestamptz => {
            times::append(scalar, text, out)
        }
        S::Interval => intervals::append(out, text),
        S::Uuid => forms::append_hex(scalar, 16, out, text),
        S::Char => forms::append_char(out, text),
        S::Rare(rare) => append_rare(scalar, rare, text, out),
        S::Text => {
            json_string::append(out, text);
            Some(())
        }
    }
    .ok_or(NOT_READ)
}

fn append_rare(scalar: Scalar, rare: Rare, text: &[u8], out: &mut Writer<'_>) -> Option<()> {
    match rare {
        Rare::Geometry(geometry) => geometry::append(out, geometry, text),
        Rare::Inet | Rare::Cidr => forms::append_address(rare, out, text),
        Rare::Macaddr => forms::append_hex(scalar, 6, out, text),
        Rare::Macaddr8 => forms::append_hex(scalar, 8, out, text),
        Rare::Bits => forms::append_bits(out, text),
        Rare::Lsn => forms::append_lsn(out, text),
        Rare::Xid => forms::append_unsigned(out, text, u32::MAX.into()),
        Rare::Xid8 => forms::append_unsigned(out, text, u64::MAX),
        Rare::Tid => forms::append_tid(out, text),
        Rare::Hstore => nested::append_hstore(out, text),
        Rare::Vector => geometry::append_vector(out, text),
        Rare::Versioned => {
            json_string::append(out, text);
            Some(())
        }
    }
}

/// Appends the binary value. Returns `None` if its text is not `text`.
#[inline(never)]
fn append_same(scalar: Scalar, binary: &[u8], out: &mut Writer<'_>, text: &[u8]) -> Option<()> {
    let start = out.position();
    scalar.append(binary, out).ok()?;
    match out.written_since(start) {
        [b'"', written @ .., b'"'] if written == text => Some(()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
