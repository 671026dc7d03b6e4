//! Messages as lines of PQtrace's form, and lines as messages: the only place that knows how a transcript spells a
//! message.
//!
//! ```text
//! F Parse 45 "" "select $1" 1 23          side, PostgreSQL's name, the value of the length field, the fields in order
//! B DataRow 12 1 2 'ab'                   "…" ends in a NUL on the wire; a length or the message's end bounds '…'
//! B ErrorResponse 30 S "ERROR" … \x00     \x00 ends a list that has no count
//! B raw 44 00 00 00 03                    what is no message
//! ```
//! `?` may stand for the length: it is then counted. Inside quotes `\n`, `\\`, `\"`, `\'` and `\xNN` stand for bytes;
//! all other text is UTF-8. libpq's own form has tabs, and the length before the name. Knows layouts only: nothing of
//! when a message may come.

#![allow(
    dead_code,
    reason = "the tests transcripts and properties each use a part"
)]

pub mod layout;
mod parse;
mod print;
mod tokens;

pub use parse::parse;
pub use print::Printer;
pub use tokens::Tokens;
