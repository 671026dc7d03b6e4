//! The way into each state, message by message as a server would send them, and the name of the state that a connection
//! is in.
//!
//! Knows the connection's private steps. Must not know what may come next (table.rs).

use super::super::caps::Caps;
use super::super::simple_query::Copy;
use super::super::*;
use super::table::{MESSAGES, NONCE};
use crate::boundary::protocol;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;

pub(super) fn bytes(name: &str) -> Vec<u8> {
    let (_, tag, body) = MESSAGES.iter().find(|(known, ..)| *known == name).unwrap();
    let length = (body.len() as u32 + 4).to_be_bytes();
    [&[*tag][..], &length, body].concat()
}

/// Feeds bytes and drains.
pub(super) fn feed(connection: &mut Connection, bytes: &[u8]) -> Vec<String> {
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

pub(super) fn state(connection: &Connection) -> String {
    match (connection.state.phase, connection.state.operations.front()) {
        (Phase::Fresh, _) => "fresh".to_string(),
        (Phase::AwaitTls, _) => "tls".to_string(),
        (Phase::Startup, _) => connection.state.startup.state(),
        (Phase::Ready, None) => "idle".to_string(),
        (Phase::Ready, Some(Operation::Extended(operation))) => {
            format!(
                "extended {:?}{}",
                operation.step,
                if operation.preceding.closes > 0 {
                    " after Close".to_string()
                } else if operation.preceding.preludes > 0 {
                    format!(" after {} of a prelude", operation.preceding.preludes)
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
                (_, 1..) if operation.step == batch::Step::Ready => {
                    " with more to come and its prelude".to_string()
                }
                _ if operation.step == batch::Step::Ready && operation.has_items() => {
                    " with more to come".to_string()
                }
                (0, 0) => String::new(),
                (closes, prelude) => format!(" after {closes} Close and {prelude} of a prelude"),
            };
            format!("batch {:?}{before}", operation.step)
        }
        (Phase::Ready, Some(Operation::FirstRun(operation))) => {
            use first_run::Step;
            let step = operation.step;
            let what = match (
                operation.preceding.preludes,
                operation.check_answers.preludes,
            ) {
                (0, _) if operation.preceding.closes > 0 => " after Close".to_string(),
                (1.., _) => format!(" after {} of a prelude", operation.preceding.preludes),
                (_, left) if step == Step::Check => format!(", {left} to come"),
                _ => String::new(),
            };
            let is_ahead = matches!(step, Step::Parse | Step::Parameters | Step::Columns);
            let check =
                match operation.check_answers == extended_query::Preceding::BOUND && is_ahead {
                    true => ", its check is prepared",
                    false => "",
                };
            format!("first run {step:?}{what}{check}")
        }
        (Phase::Closed, _) => "closed".to_string(),
    }
}

pub(super) const LOGIN: Login<'_> = Login {
    protocol_version: protocol::VERSION_3_0,
    parameters: "user\0alice\0",
    password: Some("secret"),
    nonce: NONCE,
    options: 15,
    min_iterations: 1,
    max_iterations: 4096,
    flush_bytes: 1 << 16,
    channel_binding: &[],
};

/// A connection that has sent StartupMessage and received a first message, so that what follows is judged as a
/// PostgreSQL server's.
fn started() -> Connection {
    logging_in(&LOGIN)
}

fn probing(what: u32) -> Connection {
    logging_in(&Login {
        options: LOGIN.options | what,
        ..LOGIN
    })
}

fn logging_in(login: &Login<'_>) -> Connection {
    let mut connection = Connection::new(Settings {
        statement_cache_size: 4,
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

/// A statement without formats and types.
const REQUEST: ExecuteRequest<'_> = ExecuteRequest {
    shape: 1,
    statement: b"\0\0select n\0\0\0",
    parameters: &[0, 0, 0, 0],
    columns_known: false,
    parse_anew: false,
};

fn execute(connection: &mut Connection) {
    let ndjson = Some(crate::encode::RowFormat::Ndjson.into());
    connection.execute(&REQUEST, ndjson, Caps::default());
}

/// A portal of three rows at a time has been suspended.
fn suspended() -> Connection {
    let mut connection = idle();
    let caps = Caps {
        fetch: 3,
        ..Caps::default()
    };
    let ndjson = Some(crate::encode::RowFormat::Ndjson.into());
    connection.execute(&REQUEST, ndjson, caps);
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

/// COPY FROM STDIN has asked for data, and may have received it.
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

const SETTINGS: &str = "select where pg_catalog.set_config('app.tenant','1',true) is null";

fn batching(connection: Connection, isolated: bool, items: usize, messages: &[&str]) -> Connection {
    let mut connection = connection;
    let ndjson = Some(crate::encode::RowFormat::Ndjson.into());
    connection.batch(isolated, ndjson, Caps::default());
    connection.batch_statement(1, REQUEST.statement);
    let end = if items > 0 {
        BatchEnd::Last
    } else {
        BatchEnd::No
    };
    connection.batch_items(&ITEM.repeat(items), end);
    after(connection, messages)
}

/// The statement was forgotten, so its Close comes first.
fn batching_after_close() -> Connection {
    const FLIGHT: [&str; 4] = ["ParseComplete", "BindComplete", "NoData", "CommandComplete"];
    let mut connection = batching(idle(), false, 1, &FLIGHT);
    feed(&mut connection, &bytes("ReadyForQuery"));
    connection.forget(1);
    batching(connection, false, 1, &[])
}

fn batching_after_prelude(messages: &[&str]) -> Connection {
    let mut connection = idle();
    connection.prelude("SAVEPOINT a");
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
    connection.prelude("SAVEPOINT a");
    execute(&mut connection);
    after(connection, messages)
}

fn beginning_with_settings(messages: &[&str]) -> Connection {
    let mut connection = idle();
    connection.prelude("SAVEPOINT a");
    connection.prelude(SETTINGS);
    execute(&mut connection);
    after(connection, messages)
}

fn describing_with_settings(messages: &[&str]) -> Connection {
    let mut connection = idle();
    connection.prelude(SETTINGS);
    connection.describe("select n", 0);
    after(connection, messages)
}

/// The first of two items is over.
fn batching_with_settings(messages: &[&str]) -> Connection {
    const PRELUDE: [&str; 3] = ["ParseComplete", "BindComplete", "CommandComplete"];
    const ITEM: [&str; 4] = ["ParseComplete", "BindComplete", "NoData", "CommandComplete"];
    let mut connection = idle();
    connection.prelude(SETTINGS);
    let connection = batching(connection, true, 2, &PRELUDE);
    after(after(connection, &ITEM), messages)
}

fn running_first(messages: &[&str]) -> Connection {
    let mut connection = idle();
    run_first(&mut connection);
    feed(&mut connection, &bytes("CloseComplete"));
    after(connection, messages)
}

fn run_first(connection: &mut Connection) {
    run_first_checked_by(connection, 0);
}

/// `check_shape`: the check's number.
fn run_first_checked_by(connection: &mut Connection, check_shape: u32) {
    let request = FirstRequest {
        shape: 1,
        query: "select n",
        parameters: &[0, 0, 0, 1, 0, 0, 0, 1, b'7'],
        check: "select 1 where false",
        check_shape,
    };
    let ndjson = Some(crate::encode::RowFormat::Ndjson.into());
    connection.first_run(&request, ndjson, Caps::default());
}

fn running_first_after_prelude(messages: &[&str]) -> Connection {
    let mut connection = idle();
    connection.prelude("SAVEPOINT a");
    run_first(&mut connection);
    feed(&mut connection, &bytes("CloseComplete"));
    after(connection, messages)
}

/// A first run whose check is already prepared, because the earlier first run was its second use.
fn running_first_with_its_check(prelude: Option<&str>, messages: &[&str]) -> Connection {
    const FLIGHT: [&str; 9] = [
        "CloseComplete",
        "ParseComplete",
        "ParameterDescription",
        "NoData",
        "ParseComplete",
        "BindComplete",
        "CommandComplete",
        "BindComplete",
        "CommandComplete",
    ];
    let mut connection = idle();
    for _ in 0..2 {
        run_first_checked_by(&mut connection, 2);
        connection = after(after(connection, &FLIGHT), &["ReadyForQuery"]);
    }
    if let Some(prelude) = prelude {
        connection.prelude(prelude);
    }
    run_first_checked_by(&mut connection, 2);
    after(connection, messages)
}

/// The statement has been described, and the check has passed.
fn first_checked(columns: &str, messages: &[&str]) -> Connection {
    const CHECKED: [&str; 3] = ["ParseComplete", "BindComplete", "CommandComplete"];
    let connection = running_first(&["ParseComplete", "ParameterDescription", columns]);
    after(after(connection, &CHECKED), messages)
}

/// The way into a state.
pub(super) fn reach(name: &str) -> Connection {
    const BOUND: [&str; 2] = ["ParseComplete", "BindComplete"];
    const DESCRIBED: [&str; 3] = ["ParseComplete", "ParameterDescription", "NoData"];
    let connection = match name {
        "startup Authentication" => started(),
        "startup Authentication after SASLInitialResponse" => probing(login::SCRAM_FIRST),
        "startup Authentication after PasswordMessage" => probing(login::CLEARTEXT_FIRST),
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
        "extended Parse after Close" => closing(),
        "extended Parse after 6 of a prelude" => beginning_with_settings(&[]),
        "extended Parse after 5 of a prelude" => beginning_with_settings(&["ParseComplete"]),
        "extended Parse after 4 of a prelude" => beginning_with_settings(&BOUND),
        "extended DescribeParse after 3 of a prelude" => describing_with_settings(&[]),
        "extended DescribeParse after 2 of a prelude" => {
            describing_with_settings(&["ParseComplete"])
        }
        "extended DescribeParse after 1 of a prelude" => describing_with_settings(&BOUND),
        "extended Parse after 3 of a prelude" => beginning(&[]),
        "extended Parse after 2 of a prelude" => beginning(&["ParseComplete"]),
        "extended Parse after 1 of a prelude" => beginning(&["ParseComplete", "BindComplete"]),
        "extended Parse" => executing(&[]),
        "extended Bind" => executing(&["ParseComplete"]),
        "extended PortalColumns" => executing(&BOUND),
        "extended Rows" => after(executing(&BOUND), &["RowDescription"]),
        "extended Rows of a portal" => fetching(),
        "extended Ready after Close" => closing_portal(),
        "extended NoRows" => after(executing(&BOUND), &["NoData"]),
        "extended CopyIn" => after(executing(&BOUND), &["NoData", "CopyInResponse"]),
        "extended CopyOut" => after(executing(&BOUND), &["NoData", "CopyOutResponse"]),
        "extended Ready" => after(executing(&BOUND), &["NoData", "CommandComplete"]),
        "first run Parse after Close" => {
            let mut connection = idle();
            run_first(&mut connection);
            connection
        }
        "first run Parse after Close, its check is prepared" => {
            running_first_with_its_check(None, &[])
        }
        "first run Parse after 3 of a prelude, its check is prepared" => {
            running_first_with_its_check(Some("SAVEPOINT a"), &["CloseComplete"])
        }
        "first run Parse after 2 of a prelude, its check is prepared" => {
            running_first_with_its_check(Some("SAVEPOINT a"), &["CloseComplete", "ParseComplete"])
        }
        "first run Parse after 1 of a prelude, its check is prepared" => after(
            running_first_with_its_check(Some("SAVEPOINT a"), &["CloseComplete"]),
            &BOUND,
        ),
        "first run Parse, its check is prepared" => {
            running_first_with_its_check(None, &["CloseComplete"])
        }
        "first run Parameters, its check is prepared" => {
            running_first_with_its_check(None, &["CloseComplete", "ParseComplete"])
        }
        "first run Columns, its check is prepared" => running_first_with_its_check(
            None,
            &["CloseComplete", "ParseComplete", "ParameterDescription"],
        ),
        "first run Parse after 3 of a prelude" => running_first_after_prelude(&[]),
        "first run Parse after 2 of a prelude" => running_first_after_prelude(&["ParseComplete"]),
        "first run Parse after 1 of a prelude" => running_first_after_prelude(&BOUND),
        "first run Parse" => running_first(&[]),
        "first run Parameters" => running_first(&["ParseComplete"]),
        "first run Columns" => running_first(&["ParseComplete", "ParameterDescription"]),
        "first run Check, 3 to come" => running_first(&DESCRIBED),
        "first run Check, 2 to come" => after(running_first(&DESCRIBED), &["ParseComplete"]),
        "first run Check, 1 to come" => after(running_first(&DESCRIBED), &BOUND),
        "first run Bind" => first_checked("RowDescription", &[]),
        "first run Rows" => first_checked("RowDescription", &["BindComplete"]),
        "first run NoRows" => first_checked("NoData", &["BindComplete"]),
        "first run Ready" => first_checked("NoData", &["BindComplete", "CommandComplete"]),
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
        "batch Parse after 1 Close and 0 of a prelude" => batching_after_close(),
        "batch Parse after 0 Close and 3 of a prelude" => batching_after_prelude(&[]),
        "batch Parse after 0 Close and 2 of a prelude" => {
            batching_after_prelude(&["ParseComplete"])
        }
        "batch Parse after 0 Close and 1 of a prelude" => batching_after_prelude(&BOUND),
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
        "batch Ready with more to come and its prelude" => batching_with_settings(&[]),
        "batch Bind after 0 Close and 3 of a prelude" => batching_with_settings(&["ReadyForQuery"]),
        "batch Bind after 0 Close and 2 of a prelude" => {
            batching_with_settings(&["ReadyForQuery", "ParseComplete"])
        }
        "batch Bind after 0 Close and 1 of a prelude" => {
            batching_with_settings(&["ReadyForQuery", "ParseComplete", "BindComplete"])
        }
        other => panic!("no way leads to {other}"),
    };
    assert_eq!(state(&connection), name);
    connection
}
