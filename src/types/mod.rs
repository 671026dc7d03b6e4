//! Encodes a column's value from the wire as JSON bytes, type by type.
//!
//! The result is, byte for byte, the server's `to_json` in a session with TimeZone UTC, IntervalStyle iso_8601,
//! DateStyle ISO, bytea_output hex and extra_float_digits 1. The session's own settings do not matter: we ask for the
//! binary form, which depends on none of them. The text form gives the same result under the settings that
//! `from_text.rs` lists. There are three differences from `to_json`: an oid is a bare unsigned number, CR and LF
//! between the tokens of a json value are dropped, and an anonymous record has no names (docs/types.md).
//!
//! ```text
//! encoder.rs   an Encoder for each column
//!     layout.rs    binary or text, strings or numbers ──> catalog.rs (which type is made of which), nested.rs
//!                                                         from_text.rs (text forms that must be parsed)
//!         scalar.rs    OID -> built-in type -> family
//!             integer.rs, float.rs, datetime.rs …   one file per family
//! ```
//! A family turns bytes into JSON and knows nothing of columns, rows or the protocol. It checks every length and every
//! field, so nonsense from the wire is an [`InvalidValue`], never a panic and never made-up output.

mod array;
mod boolean;
mod bytea;
mod catalog;
mod datetime;
pub(crate) mod digits;
mod encoder;
mod float;
mod from_text;
mod geometry;
mod integer;
mod interval;
mod json;
pub(crate) mod json_string;
mod layout;
mod nested;
mod network;
mod numeric;
pub mod oid;
pub mod output;
mod range;
mod rare;
mod scalar;
mod text;
mod uuid;

pub use catalog::Types;
pub(crate) use encoder::Cell;
pub use encoder::{Encoder, Shortest};
use scalar::Scalar;

/// The result of encoding one value. The reason of an error is for humans.
type Outcome = Result<(), &'static str>;

const WRONG_LENGTH: &str = "wrong length for its type";
const UNKNOWN_TYPE: &str = "of a type that is unknown or has changed";

/// The bytes are not a value of the column's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidValue {
    /// The column's type. If [`InvalidValue::is_unknown_type`], the unknown type inside the value.
    pub type_oid: u32,
    /// What is wrong with the bytes.
    pub reason: &'static str,
}

impl InvalidValue {
    /// Returns whether the value contains a type that has not been described, or no longer fits its description. The
    /// bytes may be right.
    pub fn is_unknown_type(&self) -> bool {
        self.reason == UNKNOWN_TYPE
    }
}

/// The server sent the binary form of a type of which we know only the text form. This cannot happen when Bind asked as
/// [`has_binary_encoder`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownBinary {
    /// The column's type.
    pub type_oid: u32,
}

/// The types whose values are written as strings, also inside arrays: int8 and numeric, because a JavaScript number
/// would lose digits, and json.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct AsStrings {
    /// int8.
    pub int8: bool,
    /// numeric.
    pub numeric: bool,
    /// json and jsonb: the string is their text.
    pub json: bool,
}

impl AsStrings {
    /// All numbers that a JavaScript number would round.
    pub const ALL: AsStrings = AsStrings {
        int8: true,
        numeric: true,
        json: false,
    };
    /// No additional strings: the server's own JSON.
    pub const NONE: AsStrings = AsStrings {
        int8: false,
        numeric: false,
        json: false,
    };

    /// Returns whether values of this type are numbers that are written between quotes. This leaves out json.
    fn quotes_number(self, scalar: Scalar) -> bool {
        (self.int8 && scalar == Scalar::Int8) || (self.numeric && scalar == Scalar::Numeric)
    }
}

/// Returns whether Bind should ask for the binary form of a built-in type. All other types come as text.
pub fn has_binary_encoder(type_oid: u32) -> bool {
    Types::default().has_binary_encoder(type_oid)
}

#[cfg(test)]
mod tests;
