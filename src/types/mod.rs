//! From a column's wire value to JSON bytes, type by type.
//!
//! The result is, byte for byte, the server's `to_json` in a session with TimeZone UTC, IntervalStyle iso_8601,
//! DateStyle ISO, bytea_output hex and extra_float_digits 1, whatever the session's settings are: we ask for the binary
//! form, which knows no settings. From text comes the same, under the settings that `from_text.rs` names. Differences:
//! oid is a bare unsigned number, CR and LF between the tokens of a json value are dropped, and an anonymous record has
//! no names (docs/types.md).
//!
//! ```text
//! encoder.rs   an Encoder for each column
//!     layout.rs    binary or text, strings or numbers ──> catalog.rs (which type is made of which), nested.rs
//!                                                         from_text.rs (all that text alone does not say)
//!         scalar.rs    OID -> built-in type -> family
//!             integer.rs, float.rs, datetime.rs …   one file per family
//! ```
//! A family turns bytes into JSON and knows nothing of columns, rows or the protocol; every length and every field is
//! checked, so nonsense from the wire is an [`InvalidValue`], never a panic and never made-up output.

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

#[cfg(test)]
mod tests;
