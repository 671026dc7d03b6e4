//! How each message is laid out: the one table from which lines are read and written.

/// How a message is laid out. `fields`, one character each:
///
/// ```text
/// c character    b int8    h int16    w int32    o unsigned int32    s string    r all that remains
/// v int32 length (-1: no bytes follow) and bytes
/// (…) int16 count and as many groups    [.] the same with an int32 count    {…} groups up to a zero byte
/// ```
pub struct Layout {
    pub side: char,
    pub name: &'static str,
    /// The type byte; none before and in StartupMessage.
    pub tag: Option<u8>,
    /// The int32 that tells apart what shares a type byte, or has none.
    pub code: Option<i32>,
    pub fields: &'static str,
}

const fn typed(side: char, name: &'static str, tag: u8, fields: &'static str) -> Layout {
    Layout {
        side,
        name,
        tag: Some(tag),
        code: None,
        fields,
    }
}

const fn authentication(name: &'static str, code: i32, fields: &'static str) -> Layout {
    Layout {
        side: 'B',
        name,
        tag: Some(b'R'),
        code: Some(code),
        fields,
    }
}

/// All messages of both sides.
pub const MESSAGES: &[Layout] = &[
    authentication("AuthenticationOk", 0, ""),
    authentication("AuthenticationCleartextPassword", 3, ""),
    authentication("AuthenticationMD5Password", 5, "bbbb"),
    authentication("AuthenticationSASL", 10, "{s}"),
    authentication("AuthenticationSASLContinue", 11, "r"),
    authentication("AuthenticationSASLFinal", 12, "r"),
    typed('B', "BackendKeyData", b'K', "or"),
    typed('B', "BindComplete", b'2', ""),
    typed('B', "CloseComplete", b'3', ""),
    typed('B', "CommandComplete", b'C', "s"),
    typed('B', "CopyBothResponse", b'W', "b(h)"),
    typed('B', "CopyData", b'd', "r"),
    typed('B', "CopyDone", b'c', ""),
    typed('B', "CopyInResponse", b'G', "b(h)"),
    typed('B', "CopyOutResponse", b'H', "b(h)"),
    typed('B', "DataRow", b'D', "(v)"),
    typed('B', "EmptyQueryResponse", b'I', ""),
    typed('B', "ErrorResponse", b'E', "{cs}"),
    typed('B', "NegotiateProtocolVersion", b'v', "w[s]"),
    typed('B', "NoData", b'n', ""),
    typed('B', "NoticeResponse", b'N', "{cs}"),
    typed('B', "NotificationResponse", b'A', "oss"),
    typed('B', "ParameterDescription", b't', "(o)"),
    typed('B', "ParameterStatus", b'S', "ss"),
    typed('B', "ParseComplete", b'1', ""),
    typed('B', "PortalSuspended", b's', ""),
    typed('B', "ReadyForQuery", b'Z', "c"),
    typed('B', "RowDescription", b'T', "(sohohwh)"),
    typed('F', "Bind", b'B', "ss(h)(v)(h)"),
    typed('F', "Close", b'C', "cs"),
    typed('F', "CopyData", b'd', "r"),
    typed('F', "CopyDone", b'c', ""),
    typed('F', "CopyFail", b'f', "s"),
    typed('F', "Describe", b'D', "cs"),
    typed('F', "Execute", b'E', "sw"),
    typed('F', "Parse", b'P', "ss(o)"),
    typed('F', "PasswordMessage", b'p', "s"),
    typed('F', "Query", b'Q', "s"),
    typed('F', "SASLInitialResponse", b'p', "sv"),
    typed('F', "SASLResponse", b'p', "r"),
    typed('F', "Sync", b'S', ""),
    typed('F', "Terminate", b'X', ""),
    Layout {
        side: 'F',
        name: "CancelRequest",
        tag: None,
        code: Some(80_877_102),
        fields: "or",
    },
    Layout {
        side: 'F',
        name: "SSLRequest",
        tag: None,
        code: Some(80_877_103),
        fields: "",
    },
    Layout {
        side: 'F',
        name: "StartupMessage",
        tag: None,
        code: None,
        fields: "hh{ss}",
    },
];

/// libpq's name for the one byte that answers SSLRequest; the documentation has none.
pub const SSL_RESPONSE: &str = "SSLResponse";

/// The names of all backend messages.
pub fn backend_messages() -> impl Iterator<Item = &'static str> {
    MESSAGES
        .iter()
        .filter(|layout| layout.side == 'B')
        .map(|layout| layout.name)
}

/// The first field of a layout, the group it repeats, and what follows.
pub fn next_field(fields: &str) -> Option<(char, &str, &str)> {
    let first = fields.chars().next()?;
    let close = match first {
        '(' => ')',
        '[' => ']',
        '{' => '}',
        _ => return Some((first, "", &fields[1..])),
    };
    let end = fields
        .find(close)
        .expect("groups are closed and not nested");
    Some((first, &fields[1..end], &fields[end + 1..]))
}
