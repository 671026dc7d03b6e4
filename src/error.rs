//! Why a connection ends from our side: a stable code, a sentence for humans, fields. Never a secret.
//!
//! What the server reports is no [`Failure`]: an ErrorResponse is passed on as an event. Codes are listed in docs/errors.md.

use crate::auth::scram::ScramError;
use crate::encode::RowError;
use crate::protocol::backend::DecodeError;
use crate::protocol::frame::FrameError;
use crate::protocol::writer::TooLong;
use alloc::borrow::{Cow, ToOwned};
use alloc::string::{String, ToString};

/// Fatal for its connection: the two sides no longer agree, or must not go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Stable; the key of docs/errors.md.
    pub code: &'static str,
    /// What happened and what to do.
    pub message: Cow<'static, str>,
    /// Which message, length or column it was; empty when the message says all.
    pub detail: String,
}

impl Failure {
    /// A failure whose sentence needs no numbers.
    pub fn new(code: &'static str, message: &'static str) -> Self {
        Failure {
            code,
            message: Cow::Borrowed(message),
            detail: String::new(),
        }
    }

    /// The same with what it was about.
    pub fn with_detail(self, detail: String) -> Self {
        Failure { detail, ..self }
    }

    /// A message that is legal somewhere, but not here.
    pub fn unexpected(conversation: &'static str, tag: u8) -> Self {
        Failure::new(
            "UNEXPECTED_MESSAGE",
            "the server sent a message that has no place here; the connection is closed",
        )
        .with_detail(conversation.to_owned() + " got " + &letter(tag))
    }
}

/// A type byte as a reader of the protocol chapter knows it: `'D'`, or its number when it is not a letter.
fn letter(tag: u8) -> String {
    if tag.is_ascii_graphic() {
        String::from(char::from(tag))
    } else {
        itoa::Buffer::new().format(tag).to_owned()
    }
}

impl From<FrameError> for Failure {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::Length(length) => {
                Failure::new("PROTOCOL_VIOLATION", "the server sent a message whose length is impossible; the connection is closed")
                    .with_detail("length ".to_owned() + itoa::Buffer::new().format(length))
            }
            FrameError::TooLarge { tag, length } => Failure::new(
                "MESSAGE_TOO_LARGE",
                "the server sent a message longer than maxMessageBytes; select less per row, or raise maxMessageBytes",
            )
            .with_detail(letter(tag) + " of " + itoa::Buffer::new().format(length) + " bytes"),
        }
    }
}

impl From<DecodeError> for Failure {
    fn from(error: DecodeError) -> Self {
        match error {
            DecodeError::UnknownType(tag) => {
                Failure::new("PROTOCOL_VIOLATION", "the server sent a message of a type that the protocol does not have")
                    .with_detail(letter(tag))
            }
            DecodeError::Malformed(tag) => {
                Failure::new("PROTOCOL_VIOLATION", "the server sent a message that does not have the layout of its type")
                    .with_detail(letter(tag))
            }
            DecodeError::UnknownAuthentication(kind) => Failure::new(
                "AUTH_METHOD_UNSUPPORTED",
                "the server asks for an authentication method that this driver does not have; let pg_hba.conf ask for scram-sha-256",
            )
            .with_detail("request ".to_owned() + itoa::Buffer::new().format(kind)),
        }
    }
}

impl From<RowError> for Failure {
    fn from(error: RowError) -> Self {
        let number = |column: usize| {
            "column ".to_owned() + itoa::Buffer::new().format(column.saturating_add(1))
        };
        match error {
            RowError::FieldCount { .. } | RowError::TrailingBytes => Failure::new(
                "PROTOCOL_VIOLATION",
                "the server sent a row that does not fit its description; the connection is closed",
            ),
            RowError::FieldLength { column } => {
                Failure::new("PROTOCOL_VIOLATION", "the server sent a field whose length does not fit its row").with_detail(number(column))
            }
            RowError::Value { column, error } => {
                Failure::new("INVALID_VALUE", "the server sent a value that is none of its type; cast the column to text to see it")
                    .with_detail(number(column) + ": " + error.reason)
            }
        }
    }
}

impl From<ScramError> for Failure {
    fn from(error: ScramError) -> Self {
        Failure {
            code: error.code(),
            message: Cow::Owned(error.message().to_string()),
            detail: String::new(),
        }
    }
}

impl From<TooLong> for Failure {
    fn from(TooLong: TooLong) -> Self {
        Failure::new(
            "INVALID_QUERY",
            "query and parameters together are longer than the 1 GiB that PostgreSQL accepts in one message",
        )
    }
}
