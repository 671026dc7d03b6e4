//! The messages of the protocol by their type bytes: one table for both languages.
//!
//! tests/boundary.rs writes js/wasm/messages.ts from it. `backend` and `frontend` have the letters themselves, as the
//! protocol chapter writes them; a test compares those of `backend` with the table. Must not know what a message
//! contains.

/// Bytes in front of a message's body: `Byte1` type, `Int32` length. StartupMessage and its kind have no type.
pub const HEADER: usize = 5;

/// A message's type byte, and its name in the protocol chapter.
pub type Named = (u8, &'static str);

/// Messages of the backend.
pub const BACKEND: &[Named] = &[
    (b'R', "Authentication"),
    (b'K', "BackendKeyData"),
    (b'2', "BindComplete"),
    (b'3', "CloseComplete"),
    (b'C', "CommandComplete"),
    (b'W', "CopyBothResponse"),
    (b'd', "CopyData"),
    (b'c', "CopyDone"),
    (b'G', "CopyInResponse"),
    (b'H', "CopyOutResponse"),
    (b'D', "DataRow"),
    (b'I', "EmptyQueryResponse"),
    (b'E', "ErrorResponse"),
    (b'v', "NegotiateProtocolVersion"),
    (b'n', "NoData"),
    (b'N', "NoticeResponse"),
    (b'A', "NotificationResponse"),
    (b't', "ParameterDescription"),
    (b'S', "ParameterStatus"),
    (b'1', "ParseComplete"),
    (b's', "PortalSuspended"),
    (b'Z', "ReadyForQuery"),
    (b'T', "RowDescription"),
];

/// Messages of the frontend. PasswordMessage shares its type with those of SASL and GSS.
pub const FRONTEND: &[Named] = &[
    (b'B', "Bind"),
    (b'C', "Close"),
    (b'd', "CopyData"),
    (b'c', "CopyDone"),
    (b'f', "CopyFail"),
    (b'D', "Describe"),
    (b'E', "Execute"),
    (b'H', "Flush"),
    (b'P', "Parse"),
    (b'p', "PasswordMessage"),
    (b'Q', "Query"),
    (b'S', "Sync"),
    (b'X', "Terminate"),
];
