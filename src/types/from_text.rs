//! Values in the server's text form: the same JSON, byte for byte, as from their binary form.
//!
//! Text comes where nobody asked for binary (the simple query protocol) or could (a statement that is not known yet).
//! It depends on settings of the session. Read here are: DateStyle ISO in any order, any TimeZone, IntervalStyle
//! postgres or iso_8601, extra_float_digits of 1 or more, both of bytea_output. All else is refused, as is what is no
//! value of its type. An anonymous record does not say in its text what it is made of: it stays the text, as a string.
//!
//! ```text
//! scanner.rs   characters: numbers, quotes and backslashes
//! bytes.rs     bytea
//! times.rs     dates and intervals
//! nested.rs    what is made of other types; hstore
//! ```
//! What looks alike in text and in JSON passes as it is: numbers are checked first, strings need no check.

mod bytes;
mod nested;
mod scanner;
mod times;

use super::catalog::Kind;
use super::nested::{MAX_DEPTH, Nest};
use super::output::Writer;
use super::rare::Rare;
use super::scalar::Scalar;
use super::{Outcome, UNKNOWN_TYPE, boolean, integer, json, json_string, numeric};

const NOT_READ: &str = "not in a text form that is read here";

impl Nest<'_> {
    /// As [`Nest::append`], from text.
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

    /// Inside of other values at `depth`. Nothing where it is none, or where [`Nest::unknown`] says so.
    #[inline(never)]
    fn read(&self, type_oid: u32, text: &[u8], out: &mut Writer<'_>, depth: u32) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        match self.types.kind(type_oid) {
            Some(Kind::Scalar(scalar)) if self.strings.quote(scalar) => {
                // Once to see whether it is a number.
                let start = out.position();
                append_scalar(scalar, text, out).ok()?;
                out.truncate(start);
                json_string::append(out, text);
                Some(())
            }
            Some(Kind::Scalar(scalar)) => append_scalar(scalar, text, out).ok(),
            Some(Kind::Array(element)) => self.read_array(element, text, out, depth),
            Some(Kind::Composite(Some(attributes))) => {
                self.read_record(type_oid, attributes, text, out, depth.saturating_add(1))
            }
            Some(Kind::Range(subtype)) => self.read_ranges(subtype, text, out),
            Some(Kind::Multirange(range)) => self.read(range, text, out, depth.saturating_add(1)),
            Some(Kind::Composite(None)) => {
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
        S::Int2 | S::Int4 | S::Int8 | S::Oid => integer::append_text(out, text),
        S::Float4 | S::Float8 | S::Numeric => numeric::append_text(out, text),
        S::Json | S::Jsonb => return json::append(out, text),
        S::Bytea => bytes::append(out, text),
        S::Date | S::Timestamp | S::Timestamptz | S::Interval
            if times::is_written(text, scalar) =>
        {
            json_string::append(out, text);
            Some(())
        }
        S::Interval => {
            let interval = times::interval(text).ok_or(NOT_READ)?;
            return scalar.append(&interval, out);
        }
        S::Date | S::Timestamp | S::Timestamptz => {
            let moment = times::moment(text, scalar).ok_or(NOT_READ)?.to_be_bytes();
            let binary = match moment.last_chunk::<4>() {
                Some(days) if scalar == S::Date => &days[..],
                _ => &moment[..],
            };
            return scalar.append(binary, out);
        }
        S::Rare(Rare::Hstore) => nested::append_hstore(out, text),
        S::Text | S::Char | S::Uuid | S::Time | S::Timetz | S::Rare(_) => {
            json_string::append(out, text);
            Some(())
        }
    }
    .ok_or(NOT_READ)
}

#[cfg(test)]
mod tests;
