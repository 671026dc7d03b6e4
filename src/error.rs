//! The reasons for which the core ends a connection: a stable code, a sentence for humans, details. Never a secret.
//!
//! An error that the server reports is not a [`Failure`]: its ErrorResponse is passed on as an event. docs/errors.md
//! lists the codes.

use crate::encode::RowError;
use crate::protocol::backend::DecodeError;
use crate::protocol::frame::FrameError;
use crate::protocol::writer::{TooLong, decimal};
use alloc::string::String;

/// A kind of failure. It is a constant, so the code that fails stores only one pointer.
#[derive(Debug, PartialEq, Eq)]
pub struct Reason {
    /// Stable code; the key in docs/errors.md.
    pub code: &'static str,
    /// What happened and what to do.
    pub message: &'static str,
}

/// A failure that ends its connection: the two sides no longer agree, or must not continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What happened.
    pub reason: &'static Reason,
    /// The message, length or column that is concerned; empty when the reason says everything.
    pub detail: String,
}

/// The peer is not a PostgreSQL server, or is one that is much older than the protocol.
pub(crate) const NOT_POSTGRESQL: &Reason = &Reason {
    code: "NOT_POSTGRESQL",
    message: "the service at this host and port is not PostgreSQL; check both",
};

/// A message, or the output that it becomes, does not fit into memory.
pub(crate) const NO_MEMORY: &Reason = &Reason {
    code: "MESSAGE_TOO_LARGE",
    message: "a row does not fit into the memory of WebAssembly; select less per row",
};

impl Failure {
    /// Creates a failure whose sentence needs no detail.
    #[inline(never)]
    pub fn new(reason: &'static Reason) -> Self {
        Failure::about(reason, &[])
    }

    /// Creates a failure with its detail, given in pieces.
    #[inline(never)]
    pub fn about(reason: &'static Reason, detail: &[&str]) -> Self {
        let detail = detail.concat();
        Failure { reason, detail }
    }

    /// Creates the failure for a message that the protocol allows elsewhere, but not here.
    #[inline(never)]
    pub fn unexpected(conversation: &'static str, tag: u8) -> Self {
        Failure::unexpected_for(
            &Reason {
                code: "UNEXPECTED_MESSAGE",
                message: "the server sent a message that has no place here; the connection is closed",
            },
            conversation,
            tag,
        )
    }

    /// Like [`Failure::unexpected`], with the caller's reason.
    pub(crate) fn unexpected_for(
        reason: &'static Reason,
        conversation: &'static str,
        tag: u8,
    ) -> Self {
        Failure::about(reason, &[conversation, " got ", &letter(tag)])
    }

    /// Creates the failure for a malformed message inside CopyData.
    #[cfg(feature = "replication")]
    pub(crate) fn malformed_change(tag: u8) -> Self {
        Failure::about(
            &Reason {
                code: "PROTOCOL_VIOLATION",
                message: "the server sent a message of its replication stream that cannot be read",
            },
            &[&letter(tag)],
        )
    }

    /// Returns whether only a value is invalid, and the messages themselves are well-formed.
    pub(crate) fn is_invalid_value(&self) -> bool {
        self.reason.code == "INVALID_VALUE"
    }

    /// Returns whether this failure, if the peer's first message causes it, means that the peer does not speak our
    /// protocol.
    pub(crate) fn is_nonsense(&self) -> bool {
        // A search instead of a match: the compiler expands a match on strings for each of them.
        [
            "PROTOCOL_VIOLATION",
            "UNEXPECTED_MESSAGE",
            "MESSAGE_TOO_LARGE",
        ]
        .contains(&self.reason.code)
    }
}

/// Returns a message type as the protocol chapter names it: its letter, or its number if it is not a printable
/// character.
fn letter(tag: u8) -> String {
    if tag.is_ascii_graphic() {
        String::from(char::from(tag))
    } else {
        decimal(tag)
    }
}

impl From<FrameError> for Failure {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::Length(length) => Failure::about(
                &Reason {
                    code: "PROTOCOL_VIOLATION",
                    message: "the server sent a message whose length is impossible; the connection is closed",
                },
                &["length ", &decimal(length)],
            ),
            FrameError::TooLarge { tag, length } => Failure::about(
                match tag {
                    b'D' | b'd' => &Reason {
                        code: "MESSAGE_TOO_LARGE",
                        message: "the server sent a message longer than maxMessageBytes; \
                            select less per row, or raise maxMessageBytes",
                    },
                    // No option allows more than `EVENT_MESSAGE_LIMIT`.
                    _ => &Reason {
                        code: "MESSAGE_TOO_LARGE",
                        message: "the server sent a message that is not a row and longer than 16 MiB, or than \
                            maxMessageBytes; if it is a notice or an error (N, E), let RAISE write less",
                    },
                },
                &[&letter(tag), " of ", &decimal(length), " bytes"],
            ),
        }
    }
}

impl From<DecodeError> for Failure {
    fn from(error: DecodeError) -> Self {
        match error {
            DecodeError::UnknownType(tag) => Failure::about(
                &Reason {
                    code: "PROTOCOL_VIOLATION",
                    message: "the server sent a message of a type that the protocol does not have",
                },
                &[&letter(tag)],
            ),
            DecodeError::Malformed(tag) => Failure::about(
                &Reason {
                    code: "PROTOCOL_VIOLATION",
                    message: "the server sent a message that does not have the layout of its type",
                },
                &[&letter(tag)],
            ),
            DecodeError::UnknownAuthentication(kind) => Failure::about(
                &Reason {
                    code: "AUTH_METHOD_UNSUPPORTED",
                    message: "the server asks for an authentication method that this driver does not have; \
                        let pg_hba.conf ask for scram-sha-256",
                },
                &["request ", &decimal(kind)],
            ),
        }
    }
}

impl From<RowError> for Failure {
    fn from(error: RowError) -> Self {
        let (reason, column, why) = match error {
            RowError::FieldCount { .. } | RowError::TrailingBytes => {
                return Failure::new(&Reason {
                    code: "PROTOCOL_VIOLATION",
                    message: "the server sent a row that does not fit its description; the connection is closed",
                });
            }
            RowError::TooLarge => return Failure::new(NO_MEMORY),
            RowError::FieldLength { column } => (
                &Reason {
                    code: "PROTOCOL_VIOLATION",
                    message: "the server sent a field whose length does not fit its row",
                },
                column,
                "",
            ),
            RowError::Value { column, error } => (
                &Reason {
                    code: "INVALID_VALUE",
                    message: "the server sent a value that is not valid for its type; cast the column to text to see it",
                },
                column,
                error.reason,
            ),
        };
        let number = decimal(column.saturating_add(1));
        let colon = if why.is_empty() { "" } else { ": " };
        Failure::about(reason, &["column ", &number, colon, why])
    }
}

impl From<TooLong> for Failure {
    fn from(TooLong: TooLong) -> Self {
        Failure::new(&Reason {
            code: "INVALID_QUERY",
            message: "query and parameters together exceed the 1 GiB of one message",
        })
    }
}
