//! One message of each type, and the messages that may come in each state.
//!
//! Knows PostgreSQL's protocol as a table. Must not know how a state is reached (states.rs) or who compares (walk.rs).

pub(super) const NONCE: &str = "nonce-of-24-characters-0";

/// One well-formed message of each type. They fit together: the SCRAM messages belong to the password `secret`, the row
/// to its description.
pub(super) const MESSAGES: &[(&str, u8, &[u8])] = &[
    ("AuthenticationOk", b'R', b"\0\0\0\x00"),
    ("AuthenticationCleartextPassword", b'R', b"\0\0\0\x03"),
    ("AuthenticationMD5Password", b'R', b"\0\0\0\x05salt"),
    ("AuthenticationSASL", b'R', b"\0\0\0\x0aSCRAM-SHA-256\0\0"),
    (
        "AuthenticationSASLContinue",
        b'R',
        b"\0\0\0\x0br=nonce-of-24-characters-0theirs,s=c2FsdA==,i=1",
    ),
    (
        "AuthenticationSASLFinal",
        b'R',
        b"\0\0\0\x0cv=svZKO0k74gACsfZvinNRpAf8Z9Z0wvdQU9lVy0PZQGo=",
    ),
    ("AuthenticationGSS", b'R', b"\0\0\0\x07"),
    ("BackendKeyData", b'K', b"\0\0\0\x07key!"),
    ("BindComplete", b'2', b""),
    ("CloseComplete", b'3', b""),
    ("CommandComplete", b'C', b"SELECT 1\0"),
    ("CopyBothResponse", b'W', b"\0\0\0"),
    ("CopyData", b'd', b"1\n"),
    ("CopyDone", b'c', b""),
    ("CopyInResponse", b'G', b"\0\0\0"),
    ("CopyOutResponse", b'H', b"\0\0\0"),
    ("DataRow", b'D', b"\0\x01\0\0\0\x011"),
    ("EmptyQueryResponse", b'I', b""),
    ("ErrorResponse", b'E', b"SERROR\0C22012\0\0"),
    ("NegotiateProtocolVersion", b'v', b"\0\x03\0\0\0\0\0\0"),
    ("NoData", b'n', b""),
    ("NoticeResponse", b'N', b"SNOTICE\0\0"),
    (
        "NotificationResponse",
        b'A',
        b"\0\0\0\x07channel\0payload\0",
    ),
    ("ParameterDescription", b't', b"\0\x01\0\0\0\x17"),
    ("ParameterStatus", b'S', b"TimeZone\0UTC\0"),
    ("ParseComplete", b'1', b""),
    ("PortalSuspended", b's', b""),
    ("ReadyForQuery", b'Z', b"I"),
    (
        "RowDescription",
        b'T',
        b"\0\x01n\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0",
    ),
    ("a type that is none", b'?', b""),
];

/// The messages that may come in a state besides [`ANY_STATE`], each with the state or failure code it leads to. Any
/// other message leads to UNEXPECTED_MESSAGE.
pub(super) type Moves = &'static [(&'static str, &'static str)];

/// `.` means that the state does not change.
pub(super) const ANY_STATE: Moves = &[
    ("NoticeResponse", "."),
    ("ParameterStatus", "."),
    ("NotificationResponse", "."),
    ("a type that is none", "PROTOCOL_VIOLATION"),
    ("AuthenticationGSS", "AUTH_METHOD_UNSUPPORTED"),
];

const NO_PROOF: (&str, &str) = ("AuthenticationOk", "SCRAM_SERVER_SIGNATURE_MISMATCH");

pub(super) const WALK: &[(&str, Moves)] = &[
    (
        "startup Authentication",
        &[
            ("ErrorResponse", "closed"),
            ("NegotiateProtocolVersion", "."),
            ("AuthenticationOk", "startup Ready"),
            (
                "AuthenticationCleartextPassword",
                "startup AuthenticationOk",
            ),
            ("AuthenticationMD5Password", "startup Md5"),
            ("AuthenticationSASL", "startup SaslContinue"),
        ],
    ),
    (
        "startup Authentication after SASLInitialResponse",
        &[
            ("ErrorResponse", "closed"),
            ("NegotiateProtocolVersion", "."),
            ("AuthenticationOk", "AUTH_GUESS_WRONG"),
            ("AuthenticationCleartextPassword", "AUTH_GUESS_WRONG"),
            ("AuthenticationMD5Password", "AUTH_GUESS_WRONG"),
            ("AuthenticationSASL", "startup SaslContinue"),
        ],
    ),
    (
        "startup Authentication after PasswordMessage",
        &[
            ("ErrorResponse", "closed"),
            ("NegotiateProtocolVersion", "."),
            ("AuthenticationOk", "AUTH_GUESS_WRONG"),
            (
                "AuthenticationCleartextPassword",
                "startup AuthenticationOk",
            ),
            ("AuthenticationMD5Password", "AUTH_GUESS_WRONG"),
            ("AuthenticationSASL", "AUTH_GUESS_WRONG"),
        ],
    ),
    ("startup Md5", &[("ErrorResponse", "closed")]),
    (
        "startup SaslContinue",
        &[
            ("ErrorResponse", "closed"),
            ("AuthenticationSASLContinue", "startup SaslFinal"),
            NO_PROOF,
        ],
    ),
    (
        "startup KeyDerivation",
        &[("ErrorResponse", "closed"), NO_PROOF],
    ),
    (
        "startup SaslFinal",
        &[
            ("ErrorResponse", "closed"),
            ("AuthenticationSASLFinal", "startup AuthenticationOk"),
            NO_PROOF,
        ],
    ),
    (
        "startup AuthenticationOk",
        &[
            ("ErrorResponse", "closed"),
            ("AuthenticationOk", "startup Ready"),
        ],
    ),
    (
        "startup Ready",
        &[
            ("ErrorResponse", "closed"),
            ("BackendKeyData", "."),
            ("ReadyForQuery", "idle"),
        ],
    ),
    ("idle", &[("ErrorResponse", ".")]),
    ("closed", &[]),
    (
        "extended DescribeParse",
        &[
            ("ErrorResponse", "extended Ready"),
            ("ParseComplete", "extended Parameters"),
        ],
    ),
    (
        "extended Parameters",
        &[
            ("ErrorResponse", "extended Ready"),
            ("ParameterDescription", "extended Columns"),
        ],
    ),
    (
        "extended Columns",
        &[
            ("ErrorResponse", "extended Ready"),
            ("RowDescription", "extended Ready"),
            ("NoData", "extended Ready"),
        ],
    ),
    (
        "extended Parse after Close",
        &[
            ("ErrorResponse", "extended Ready"),
            ("CloseComplete", "extended Parse"),
        ],
    ),
    (
        "extended Parse after 6 of a prelude",
        &[
            ("ErrorResponse", "extended Ready"),
            ("ParseComplete", "extended Parse after 5 of a prelude"),
        ],
    ),
    (
        "extended Parse after 5 of a prelude",
        &[
            ("ErrorResponse", "extended Ready"),
            ("BindComplete", "extended Parse after 4 of a prelude"),
        ],
    ),
    (
        "extended Parse after 4 of a prelude",
        &[
            ("ErrorResponse", "extended Ready"),
            ("CommandComplete", "extended Parse after 3 of a prelude"),
        ],
    ),
    (
        "extended DescribeParse after 3 of a prelude",
        &[
            ("ErrorResponse", "extended Ready"),
            (
                "ParseComplete",
                "extended DescribeParse after 2 of a prelude",
            ),
        ],
    ),
    (
        "extended DescribeParse after 2 of a prelude",
        &[
            ("ErrorResponse", "extended Ready"),
            (
                "BindComplete",
                "extended DescribeParse after 1 of a prelude",
            ),
        ],
    ),
    (
        "extended DescribeParse after 1 of a prelude",
        &[
            ("ErrorResponse", "extended Ready"),
            ("CommandComplete", "extended DescribeParse"),
        ],
    ),
    (
        "extended Parse after 3 of a prelude",
        &[
            ("ErrorResponse", "extended Ready"),
            ("ParseComplete", "extended Parse after 2 of a prelude"),
        ],
    ),
    (
        "extended Parse after 2 of a prelude",
        &[
            ("ErrorResponse", "extended Ready"),
            ("BindComplete", "extended Parse after 1 of a prelude"),
        ],
    ),
    (
        "extended Parse after 1 of a prelude",
        &[
            ("ErrorResponse", "extended Ready"),
            ("CommandComplete", "extended Parse"),
        ],
    ),
    (
        "extended Parse",
        &[
            ("ErrorResponse", "extended Ready"),
            ("ParseComplete", "extended Bind"),
        ],
    ),
    (
        "extended Bind",
        &[
            ("ErrorResponse", "extended Ready"),
            ("BindComplete", "extended PortalColumns"),
        ],
    ),
    (
        "extended PortalColumns",
        &[
            ("ErrorResponse", "extended Ready"),
            ("RowDescription", "extended Rows"),
            ("NoData", "extended NoRows"),
        ],
    ),
    (
        "extended Rows",
        &[
            ("ErrorResponse", "extended Ready"),
            ("DataRow", "."),
            ("CommandComplete", "extended Ready"),
        ],
    ),
    (
        "extended Rows of a portal",
        &[
            ("ErrorResponse", "extended Ready"),
            ("DataRow", "."),
            ("CommandComplete", "extended Ready"),
            ("PortalSuspended", "extended Ready"),
        ],
    ),
    (
        "extended Ready after Close",
        &[
            ("ErrorResponse", "extended Ready"),
            ("CloseComplete", "extended Ready"),
        ],
    ),
    (
        "extended NoRows",
        &[
            ("ErrorResponse", "extended Ready"),
            ("CommandComplete", "extended Ready"),
            ("EmptyQueryResponse", "extended Ready"),
            ("CopyInResponse", "extended CopyIn"),
            ("CopyOutResponse", "extended CopyOut"),
        ],
    ),
    ("extended CopyIn", &[("ErrorResponse", "extended Ready")]),
    (
        "extended CopyOut",
        &[
            ("ErrorResponse", "extended Ready"),
            ("CopyData", "."),
            ("CopyDone", "."),
            ("CommandComplete", "extended Ready"),
        ],
    ),
    (
        "extended Ready",
        &[("ErrorResponse", "."), ("ReadyForQuery", "idle")],
    ),
    (
        "first run Parse after Close",
        &[
            ("ErrorResponse", "first run Ready"),
            ("CloseComplete", "first run Parse"),
        ],
    ),
    (
        "first run Parse after 3 of a prelude",
        &[
            ("ErrorResponse", "first run Ready"),
            ("ParseComplete", "first run Parse after 2 of a prelude"),
        ],
    ),
    (
        "first run Parse after 2 of a prelude",
        &[
            ("ErrorResponse", "first run Ready"),
            ("BindComplete", "first run Parse after 1 of a prelude"),
        ],
    ),
    (
        "first run Parse after 1 of a prelude",
        &[
            ("ErrorResponse", "first run Ready"),
            ("CommandComplete", "first run Parse"),
        ],
    ),
    (
        "first run Parse",
        &[
            ("ErrorResponse", "first run Ready"),
            ("ParseComplete", "first run Parameters"),
        ],
    ),
    (
        "first run Parameters",
        &[
            ("ErrorResponse", "first run Ready"),
            ("ParameterDescription", "first run Columns"),
        ],
    ),
    (
        "first run Columns",
        &[
            ("ErrorResponse", "first run Ready"),
            ("RowDescription", "first run Check, 3 to come"),
            ("NoData", "first run Check, 3 to come"),
        ],
    ),
    (
        "first run Parse after Close, its check is prepared",
        &[
            ("ErrorResponse", "first run Ready"),
            ("CloseComplete", "first run Parse, its check is prepared"),
        ],
    ),
    (
        "first run Parse after 3 of a prelude, its check is prepared",
        &[
            ("ErrorResponse", "first run Ready"),
            (
                "ParseComplete",
                "first run Parse after 2 of a prelude, its check is prepared",
            ),
        ],
    ),
    (
        "first run Parse after 2 of a prelude, its check is prepared",
        &[
            ("ErrorResponse", "first run Ready"),
            (
                "BindComplete",
                "first run Parse after 1 of a prelude, its check is prepared",
            ),
        ],
    ),
    (
        "first run Parse after 1 of a prelude, its check is prepared",
        &[
            ("ErrorResponse", "first run Ready"),
            ("CommandComplete", "first run Parse, its check is prepared"),
        ],
    ),
    (
        "first run Parse, its check is prepared",
        &[
            ("ErrorResponse", "first run Ready"),
            (
                "ParseComplete",
                "first run Parameters, its check is prepared",
            ),
        ],
    ),
    (
        "first run Parameters, its check is prepared",
        &[
            ("ErrorResponse", "first run Ready"),
            (
                "ParameterDescription",
                "first run Columns, its check is prepared",
            ),
        ],
    ),
    (
        "first run Columns, its check is prepared",
        &[
            ("ErrorResponse", "first run Ready"),
            ("RowDescription", "first run Check, 2 to come"),
            ("NoData", "first run Check, 2 to come"),
        ],
    ),
    (
        "first run Check, 3 to come",
        &[
            ("ErrorResponse", "first run Ready"),
            ("ParseComplete", "first run Check, 2 to come"),
        ],
    ),
    (
        "first run Check, 2 to come",
        &[
            ("ErrorResponse", "first run Ready"),
            ("BindComplete", "first run Check, 1 to come"),
        ],
    ),
    (
        "first run Check, 1 to come",
        &[
            ("ErrorResponse", "first run Ready"),
            ("CommandComplete", "first run Bind"),
        ],
    ),
    (
        "first run Bind",
        &[
            ("ErrorResponse", "first run Ready"),
            ("BindComplete", "first run Rows"),
        ],
    ),
    (
        "first run Rows",
        &[
            ("ErrorResponse", "first run Ready"),
            ("DataRow", "."),
            ("CommandComplete", "first run Ready"),
        ],
    ),
    (
        "first run NoRows",
        &[
            ("ErrorResponse", "first run Ready"),
            ("CommandComplete", "first run Ready"),
        ],
    ),
    (
        "first run Ready",
        &[("ErrorResponse", "."), ("ReadyForQuery", "idle")],
    ),
    (
        "simple First",
        &[
            ("ErrorResponse", "simple Ready"),
            ("RowDescription", "simple Rows"),
            ("CommandComplete", "simple Next"),
            ("EmptyQueryResponse", "simple Next"),
            ("CopyInResponse", "simple CopyInDone"),
            ("CopyOutResponse", "simple CopyOut"),
        ],
    ),
    (
        "simple Next",
        &[
            ("ErrorResponse", "simple Ready"),
            ("RowDescription", "simple Rows"),
            ("CommandComplete", "simple Next"),
            ("EmptyQueryResponse", "simple Next"),
            ("CopyInResponse", "simple CopyInDone"),
            ("CopyOutResponse", "simple CopyOut"),
            ("ReadyForQuery", "idle"),
        ],
    ),
    (
        "simple Rows",
        &[
            ("ErrorResponse", "simple Ready"),
            ("DataRow", "."),
            ("CommandComplete", "simple Next"),
        ],
    ),
    ("simple CopyInDone", &[("ErrorResponse", "simple Ready")]),
    (
        "simple CopyIn that has data",
        &[("ErrorResponse", "simple Ready")],
    ),
    (
        "simple CopyInDone that has data",
        &[
            ("ErrorResponse", "simple Ready"),
            ("CommandComplete", "simple Next that has data"),
        ],
    ),
    (
        "simple Next that has data",
        &[
            ("ErrorResponse", "simple Ready"),
            ("RowDescription", "simple Rows"),
            ("CommandComplete", "."),
            ("EmptyQueryResponse", "."),
            ("CopyInResponse", "simple CopyInDone that has data"),
            ("CopyOutResponse", "simple CopyOut"),
            ("ReadyForQuery", "idle"),
        ],
    ),
    (
        "simple CopyOut",
        &[
            ("ErrorResponse", "simple Ready"),
            ("CopyData", "."),
            ("CopyDone", "."),
            ("CommandComplete", "simple Next"),
        ],
    ),
    (
        "simple Ready",
        &[("ErrorResponse", "."), ("ReadyForQuery", "idle")],
    ),
    ("batch Idle", &[("ErrorResponse", "batch Ready")]),
    (
        "batch Parse after 1 Close and 0 of a prelude",
        &[
            ("ErrorResponse", "batch Ready"),
            ("CloseComplete", "batch Parse"),
        ],
    ),
    (
        "batch Parse after 0 Close and 3 of a prelude",
        &[
            ("ErrorResponse", "batch Ready"),
            (
                "ParseComplete",
                "batch Parse after 0 Close and 2 of a prelude",
            ),
        ],
    ),
    (
        "batch Parse after 0 Close and 2 of a prelude",
        &[
            ("ErrorResponse", "batch Ready"),
            (
                "BindComplete",
                "batch Parse after 0 Close and 1 of a prelude",
            ),
        ],
    ),
    (
        "batch Parse after 0 Close and 1 of a prelude",
        &[
            ("ErrorResponse", "batch Ready"),
            ("CommandComplete", "batch Parse"),
        ],
    ),
    (
        "batch Parse",
        &[
            ("ErrorResponse", "batch Ready"),
            ("ParseComplete", "batch Bind"),
        ],
    ),
    (
        "batch Bind",
        &[
            ("ErrorResponse", "batch Ready"),
            ("BindComplete", "batch PortalColumns"),
        ],
    ),
    (
        "batch PortalColumns",
        &[
            ("ErrorResponse", "batch Ready"),
            ("RowDescription", "batch Rows"),
            ("NoData", "batch Rows"),
            ("CopyInResponse", "COPY_IN_BATCH"),
            ("CopyOutResponse", "COPY_IN_BATCH"),
            ("CopyBothResponse", "COPY_IN_BATCH"),
        ],
    ),
    (
        "batch Rows",
        &[
            ("ErrorResponse", "batch Ready"),
            ("DataRow", "."),
            ("CommandComplete", "batch Ready"),
            ("EmptyQueryResponse", "batch Ready"),
            ("CopyInResponse", "COPY_IN_BATCH"),
            ("CopyOutResponse", "COPY_IN_BATCH"),
            ("CopyBothResponse", "COPY_IN_BATCH"),
        ],
    ),
    (
        "batch Ready",
        &[("ErrorResponse", "."), ("ReadyForQuery", "idle")],
    ),
    (
        "batch Ready with more to come",
        &[("ErrorResponse", "."), ("ReadyForQuery", "batch Bind")],
    ),
    (
        "batch Ready with more to come and its prelude",
        &[
            ("ErrorResponse", "."),
            (
                "ReadyForQuery",
                "batch Bind after 0 Close and 3 of a prelude",
            ),
        ],
    ),
    (
        "batch Bind after 0 Close and 3 of a prelude",
        &[
            ("ErrorResponse", "batch Ready"),
            (
                "ParseComplete",
                "batch Bind after 0 Close and 2 of a prelude",
            ),
        ],
    ),
    (
        "batch Bind after 0 Close and 2 of a prelude",
        &[
            ("ErrorResponse", "batch Ready"),
            (
                "BindComplete",
                "batch Bind after 0 Close and 1 of a prelude",
            ),
        ],
    ),
    (
        "batch Bind after 0 Close and 1 of a prelude",
        &[
            ("ErrorResponse", "batch Ready"),
            ("CommandComplete", "batch Bind"),
        ],
    ),
];
