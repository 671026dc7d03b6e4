//! Every backend message in every state: a move that [`WALK`] lists, or a failure with the right code. Never a panic,
//! never anything else.
//!
//! States are reached as a server would reach them, message by message. A new step or message must be entered here.

use super::limits::Caps;
use super::simple_query::Copy;
use super::*;
use crate::boundary::protocol;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use std::println;

const NONCE: &str = "nonce-of-24-characters-0";

/// One well-formed message of each type; they fit one another: the SCRAM ones belong to password `secret`, the row to
/// its description.
const MESSAGES: &[(&str, u8, &[u8])] = &[
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

/// What may come in a state besides [`ANY_STATE`], and the state or failure code it leads to. All else is
/// UNEXPECTED_MESSAGE.
type Moves = &'static [(&'static str, &'static str)];

/// `.` stands for the state itself.
const ANY_STATE: Moves = &[
    ("NoticeResponse", "."),
    ("ParameterStatus", "."),
    ("NotificationResponse", "."),
    ("a type that is none", "PROTOCOL_VIOLATION"),
    ("AuthenticationGSS", "AUTH_METHOD_UNSUPPORTED"),
];

const NO_PROOF: (&str, &str) = ("AuthenticationOk", "SCRAM_SERVER_SIGNATURE_MISMATCH");

const WALK: &[(&str, Moves)] = &[
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
        "startup Authentication behind SASLInitialResponse",
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
        "startup Authentication behind PasswordMessage",
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
        "extended Parse behind Close",
        &[
            ("ErrorResponse", "extended Ready"),
            ("CloseComplete", "extended Parse"),
        ],
    ),
    (
        "extended Parse behind 3 of a prelude",
        &[
            ("ErrorResponse", "extended Ready"),
            ("ParseComplete", "extended Parse behind 2 of a prelude"),
        ],
    ),
    (
        "extended Parse behind 2 of a prelude",
        &[
            ("ErrorResponse", "extended Ready"),
            ("BindComplete", "extended Parse behind 1 of a prelude"),
        ],
    ),
    (
        "extended Parse behind 1 of a prelude",
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
        "extended Ready behind Close",
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
        "batch Parse behind 1 Close and 0 of a prelude",
        &[
            ("ErrorResponse", "batch Ready"),
            ("CloseComplete", "batch Parse"),
        ],
    ),
    (
        "batch Parse behind 0 Close and 3 of a prelude",
        &[
            ("ErrorResponse", "batch Ready"),
            (
                "ParseComplete",
                "batch Parse behind 0 Close and 2 of a prelude",
            ),
        ],
    ),
    (
        "batch Parse behind 0 Close and 2 of a prelude",
        &[
            ("ErrorResponse", "batch Ready"),
            (
                "BindComplete",
                "batch Parse behind 0 Close and 1 of a prelude",
            ),
        ],
    ),
    (
        "batch Parse behind 0 Close and 1 of a prelude",
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
];

fn bytes(name: &str) -> Vec<u8> {
    let (_, tag, body) = MESSAGES.iter().find(|(known, ..)| *known == name).unwrap();
    let length = (body.len() as u32 + 4).to_be_bytes();
    [&[*tag][..], &length, body].concat()
}

/// Feeds bytes and drains.
fn feed(connection: &mut Connection, bytes: &[u8]) -> Vec<String> {
    connection.input(bytes.len()).copy_from_slice(bytes);
    let mut ended = connection.received(bytes.len());
    let mut events = vec![];
    loop {
        connection.take_output();
        connection.rows_taken();
        events.extend(connection.take_events().lines().map(str::to_string));
        if ended != 0 {
            events.push(format!(r#"{{"kind":"ended {ended:#x}"}}"#));
        }
        if connection.status() & status::MORE == 0 {
            return events;
        }
        ended = connection.received(0);
    }
}

fn state(connection: &Connection) -> String {
    match (connection.state.phase, connection.state.operations.front()) {
        (Phase::Fresh, _) => "fresh".to_string(),
        (Phase::AwaitTls, _) => "tls".to_string(),
        (Phase::Startup, _) => connection.state.startup.state(),
        (Phase::Ready, None) => "idle".to_string(),
        (Phase::Ready, Some(Operation::Extended(operation))) => {
            format!(
                "extended {:?}{}",
                operation.step,
                if operation.ahead.closes > 0 {
                    " behind Close".to_string()
                } else if operation.ahead.prelude > 0 {
                    format!(" behind {} of a prelude", operation.ahead.prelude)
                } else if operation.step == extended_query::Step::Rows
                    && operation.sink.maximum_rows() != 0
                {
                    " of a portal".to_string()
                } else {
                    String::new()
                }
            )
        }
        (Phase::Ready, Some(Operation::Simple(operation))) => {
            let data = operation.has_data()
                && matches!(
                    operation.step,
                    simple_query::Step::CopyIn
                        | simple_query::Step::CopyInDone
                        | simple_query::Step::Next
                );
            format!(
                "simple {:?}{}",
                operation.step,
                if data { " that has data" } else { "" }
            )
        }
        (Phase::Ready, Some(Operation::Batch(operation))) => {
            let before = match operation.awaits() {
                _ if operation.step == batch::Step::Ready && operation.has_items() => {
                    " with more to come".to_string()
                }
                (0, 0) => String::new(),
                (closes, prelude) => format!(" behind {closes} Close and {prelude} of a prelude"),
            };
            format!("batch {:?}{before}", operation.step)
        }
        (Phase::Closed, _) => "closed".to_string(),
    }
}

const LOGIN: Login<'_> = Login {
    protocol_version: protocol::VERSION_3_0,
    parameters: "user\0alice\0",
    password: Some("secret"),
    nonce: NONCE,
    options: 15,
    max_iterations: 4096,
    flush_bytes: 1 << 16,
};

/// A connection that has sent StartupMessage and has heard a first word, so that what follows is judged as a PostgreSQL
/// server's.
fn started() -> Connection {
    logging_in(&LOGIN)
}

fn guessing(what: u32) -> Connection {
    logging_in(&Login {
        options: LOGIN.options | what,
        ..LOGIN
    })
}

fn logging_in(login: &Login<'_>) -> Connection {
    let mut connection = Connection::new(Settings {
        statement_cache_size: 1,
        ..Settings::default()
    });
    connection.start(login);
    feed(&mut connection, &bytes("NoticeResponse"));
    connection
}

fn after(connection: Connection, messages: &[&str]) -> Connection {
    messages.iter().fold(connection, |mut connection, name| {
        feed(&mut connection, &bytes(name));
        connection
    })
}

fn idle() -> Connection {
    after(started(), &["AuthenticationOk", "ReadyForQuery"])
}

fn describing(messages: &[&str]) -> Connection {
    let mut connection = idle();
    connection.describe("select n", 0);
    after(connection, messages)
}

fn executing(messages: &[&str]) -> Connection {
    let mut connection = idle();
    execute(&mut connection);
    after(connection, messages)
}

/// Of no formats and no types.
const STATEMENT: &[u8] = b"\0\0select n\0\0\0";

fn execute(connection: &mut Connection) {
    connection.execute(
        1,
        STATEMENT,
        &[0, 0, 0, 0],
        Some(crate::encode::RowFormat::Ndjson.into()),
        false,
        Caps::default(),
    );
}

/// The portal of three rows at a time was suspended.
fn suspended() -> Connection {
    let mut connection = idle();
    let caps = Caps {
        fetch: 3,
        ..Caps::default()
    };
    let ndjson = Some(crate::encode::RowFormat::Ndjson.into());
    connection.execute(1, STATEMENT, &[0, 0, 0, 0], ndjson, false, caps);
    const FLIGHT: [&str; 6] = [
        "ParseComplete",
        "BindComplete",
        "RowDescription",
        "DataRow",
        "PortalSuspended",
        "ReadyForQuery",
    ];
    after(connection, &FLIGHT)
}

fn fetching() -> Connection {
    let mut connection = suspended();
    connection.fetch();
    connection
}

fn closing_portal() -> Connection {
    let mut connection = suspended();
    connection.close_portal();
    connection
}

fn querying(messages: &[&str]) -> Connection {
    let mut connection = idle();
    connection.simple_query(
        "select n",
        Copy::No,
        Some(crate::encode::RowFormat::Ndjson.into()),
        Caps::default(),
    );
    after(connection, messages)
}

/// COPY FROM STDIN has asked for data, and perhaps got them.
fn copying(data: &[&[u8]], messages: &[&str]) -> Connection {
    let mut connection = idle();
    connection.simple_query("copy t from stdin", Copy::In, None, Caps::default());
    let mut connection = after(connection, &["CopyInResponse"]);
    for data in data {
        connection.copy_data(data.len() as u32);
        connection.copy_end(None);
    }
    after(connection, messages)
}

/// An item of the batch's first statement.
const ITEM: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0];

fn batching(connection: Connection, isolated: bool, items: usize, messages: &[&str]) -> Connection {
    let mut connection = connection;
    let ndjson = Some(crate::encode::RowFormat::Ndjson.into());
    connection.batch(isolated, ndjson, Caps::default());
    connection.batch_statement(1, STATEMENT);
    let end = if items > 0 {
        BatchEnd::Last
    } else {
        BatchEnd::No
    };
    connection.batch_items(&ITEM.repeat(items), end);
    after(connection, messages)
}

/// The statement was forgotten, so its Close stands in front.
fn batching_behind_close() -> Connection {
    const FLIGHT: [&str; 4] = ["ParseComplete", "BindComplete", "NoData", "CommandComplete"];
    let mut connection = batching(idle(), false, 1, &FLIGHT);
    feed(&mut connection, &bytes("ReadyForQuery"));
    connection.forget(1);
    batching(connection, false, 1, &[])
}

fn batching_behind_prelude(messages: &[&str]) -> Connection {
    let mut connection = idle();
    connection.prelude("BEGIN");
    batching(connection, false, 1, messages)
}

fn closing() -> Connection {
    const FLIGHT: [&str; 5] = [
        "ParseComplete",
        "BindComplete",
        "NoData",
        "CommandComplete",
        "ReadyForQuery",
    ];
    let mut connection = executing(&FLIGHT);
    execute(&mut connection);
    connection = after(connection, &FLIGHT);
    connection.forget(1);
    execute(&mut connection);
    connection
}

fn beginning(messages: &[&str]) -> Connection {
    let mut connection = idle();
    connection.prelude("BEGIN");
    execute(&mut connection);
    after(connection, messages)
}

/// The way into a state.
fn reach(name: &str) -> Connection {
    const BOUND: [&str; 2] = ["ParseComplete", "BindComplete"];
    let connection = match name {
        "startup Authentication" => started(),
        "startup Authentication behind SASLInitialResponse" => guessing(login::SCRAM_FIRST),
        "startup Authentication behind PasswordMessage" => guessing(login::CLEARTEXT_FIRST),
        "startup SaslContinue" => after(started(), &["AuthenticationSASL"]),
        "startup Md5" => after(started(), &["AuthenticationMD5Password"]),
        "startup KeyDerivation" => after(
            logging_in(&Login {
                options: LOGIN.options | login::EXTERNAL_KEY_DERIVATION,
                ..LOGIN
            }),
            &["AuthenticationSASL", "AuthenticationSASLContinue"],
        ),
        "startup SaslFinal" => after(
            started(),
            &["AuthenticationSASL", "AuthenticationSASLContinue"],
        ),
        "startup AuthenticationOk" => after(started(), &["AuthenticationCleartextPassword"]),
        "startup Ready" => after(started(), &["AuthenticationOk"]),
        "idle" => idle(),
        "closed" => after(idle(), &["PortalSuspended"]),
        "extended DescribeParse" => describing(&[]),
        "extended Parameters" => describing(&["ParseComplete"]),
        "extended Columns" => describing(&["ParseComplete", "ParameterDescription"]),
        "extended Parse behind Close" => closing(),
        "extended Parse behind 3 of a prelude" => beginning(&[]),
        "extended Parse behind 2 of a prelude" => beginning(&["ParseComplete"]),
        "extended Parse behind 1 of a prelude" => beginning(&["ParseComplete", "BindComplete"]),
        "extended Parse" => executing(&[]),
        "extended Bind" => executing(&["ParseComplete"]),
        "extended PortalColumns" => executing(&BOUND),
        "extended Rows" => after(executing(&BOUND), &["RowDescription"]),
        "extended Rows of a portal" => fetching(),
        "extended Ready behind Close" => closing_portal(),
        "extended NoRows" => after(executing(&BOUND), &["NoData"]),
        "extended CopyIn" => after(executing(&BOUND), &["NoData", "CopyInResponse"]),
        "extended CopyOut" => after(executing(&BOUND), &["NoData", "CopyOutResponse"]),
        "extended Ready" => after(executing(&BOUND), &["NoData", "CommandComplete"]),
        "simple First" => querying(&[]),
        "simple Next" => querying(&["CommandComplete"]),
        "simple Rows" => querying(&["RowDescription"]),
        "simple CopyInDone" => querying(&["CopyInResponse"]),
        "simple CopyIn that has data" => copying(&[], &[]),
        "simple CopyInDone that has data" => copying(&[b"1\n"], &[]),
        "simple Next that has data" => copying(&[b"1\n"], &["CommandComplete"]),
        "simple CopyOut" => querying(&["CopyOutResponse"]),
        "simple Ready" => querying(&["ErrorResponse"]),
        "batch Idle" => batching(idle(), false, 0, &[]),
        "batch Parse behind 1 Close and 0 of a prelude" => batching_behind_close(),
        "batch Parse behind 0 Close and 3 of a prelude" => batching_behind_prelude(&[]),
        "batch Parse behind 0 Close and 2 of a prelude" => {
            batching_behind_prelude(&["ParseComplete"])
        }
        "batch Parse behind 0 Close and 1 of a prelude" => batching_behind_prelude(&BOUND),
        "batch Parse" => batching(idle(), false, 1, &[]),
        "batch Bind" => batching(idle(), false, 1, &["ParseComplete"]),
        "batch PortalColumns" => batching(idle(), false, 1, &BOUND),
        "batch Rows" => after(batching(idle(), false, 1, &BOUND), &["RowDescription"]),
        "batch Ready" => after(
            batching(idle(), false, 1, &BOUND),
            &["NoData", "CommandComplete"],
        ),
        "batch Ready with more to come" => after(
            batching(idle(), true, 2, &BOUND),
            &["NoData", "CommandComplete"],
        ),
        other => panic!("no way leads to {other}"),
    };
    assert_eq!(state(&connection), name);
    connection
}

/// The code of the failure among the events, or the state that was reached.
fn outcome(connection: &Connection, events: &[String]) -> String {
    let codes: Vec<String> = events
        .iter()
        .map(|event| serde_json::from_str::<serde_json::Value>(event).unwrap())
        .filter(|event| event["kind"] == "failure")
        .map(|event| event["code"].as_str().unwrap().to_string())
        .collect();
    assert!(codes.len() <= 1, "one failure at most: {codes:?}");
    if let [code] = &codes[..] {
        assert_eq!(state(connection), "closed", "{code} is final");
        return code.to_string();
    }
    state(connection)
}

#[test]
fn every_message_in_every_state() {
    let mut moves = 0;
    for (name, own) in WALK {
        for (message, ..) in MESSAGES {
            let mut connection = reach(name);
            let events = feed(&mut connection, &bytes(message));
            let found = own
                .iter()
                .chain(ANY_STATE)
                .find(|(known, _)| known == message);
            let expected = match found {
                _ if *name == "closed" => name,
                Some((_, ".")) => name,
                Some((_, to)) => to,
                None => "UNEXPECTED_MESSAGE",
            };
            assert_eq!(
                outcome(&connection, &events),
                expected,
                "{name} <- {message}"
            );
            assert!(
                *name != "closed" || events.is_empty(),
                "nothing comes out of a closed connection"
            );
            moves += usize::from(found.is_some());
        }
    }
    println!(
        "{} pairs of state and message, {moves} of them moves",
        WALK.len() * MESSAGES.len()
    );
}

/// The very first message decides whether the other side is PostgreSQL at all.
#[test]
fn every_message_as_the_first() {
    for (message, ..) in MESSAGES {
        let mut connection = Connection::new(Settings::default());
        connection.start(&LOGIN);
        let events = feed(&mut connection, &bytes(message));
        let found = WALK[0]
            .1
            .iter()
            .chain(ANY_STATE)
            .find(|(known, _)| known == message);
        let expected = match found {
            Some((_, ".")) => "startup Authentication",
            Some((_, "PROTOCOL_VIOLATION")) | None => "NOT_POSTGRESQL",
            Some((_, to)) => to,
        };
        assert_eq!(outcome(&connection, &events), expected, "{message}");
    }
}

/// Before StartupMessage only the one byte that answers SSLRequest may come.
#[test]
fn every_byte_for_an_answer_to_ssl_request() {
    for byte in 0..=255 {
        let mut connection = Connection::new(Settings::default());
        connection.request_tls();
        let events = feed(&mut connection, &[byte]);
        let expected = match byte {
            b'S' | b'N' => "fresh",
            b'E' => "TLS_REFUSED",
            _ => "NOT_POSTGRESQL",
        };
        assert_eq!(outcome(&connection, &events), expected, "{byte}");

        let events = feed(&mut connection, b"R");
        assert_eq!(
            events.is_empty(),
            expected != "fresh",
            "bytes before StartupMessage end a connection that is not over yet"
        );
        assert_eq!(state(&connection), "closed");
    }
}

/// Whatever one message did, a second one finds a state of the table or a closed connection.
#[test]
fn every_pair_of_messages_in_every_state() {
    let mut pairs = 0;
    for (name, _) in WALK {
        for ((first, ..), (second, ..)) in MESSAGES
            .iter()
            .flat_map(|first| MESSAGES.iter().map(move |second| (first, second)))
        {
            let mut connection = reach(name);
            let events = feed(&mut connection, &[bytes(first), bytes(second)].concat());
            let now = outcome(&connection, &events);
            let known = now == "closed"
                || WALK.iter().any(|(state, _)| *state == now)
                || state(&connection) == "closed";
            assert!(known, "{name} <- {first}, {second}: {now}");
            pairs += 1;
        }
    }
    println!("{pairs} pairs of messages");
}

/// An answer that JavaScript computes counts in the state that asked for it, once, in its length; at any other time
/// nothing happens.
#[test]
fn every_answer_in_every_state() {
    for (name, _) in WALK {
        for length in [0, 31, 32, 33, 34, 35, 36] {
            let mut connection = reach(name);
            connection.take_output();
            let expected = match (*name, length) {
                ("startup KeyDerivation", 32) => "startup SaslFinal",
                ("startup Md5", 35) => "startup AuthenticationOk",
                (same, _) => same,
            };
            for output in [*name != expected, false] {
                connection.prove(&vec![b'x'; length]);
                assert_eq!(state(&connection), expected, "{name}, {length} bytes");
                assert_eq!(
                    !connection.take_output().is_empty(),
                    output,
                    "{name}, {length} bytes"
                );
            }
        }
    }
}
