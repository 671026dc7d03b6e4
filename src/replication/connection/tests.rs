mod garbage;
mod walk;

use super::*;
use crate::boundary::changes as status;

/// A message from the server.
fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap();
    [&[tag], &length.to_be_bytes()[..], body].concat()
}

fn replication() -> Replication {
    let options = Options {
        streams: true,
        ..Options::default()
    };
    Replication::new(1 << 20, options)
}

fn receive(replication: &mut Replication, bytes: &[u8]) -> u32 {
    replication.input(bytes.len()).copy_from_slice(bytes);
    replication.received(bytes.len())
}

const READY: &[u8] = b"Z\0\0\0\x05I";

fn streaming() -> Replication {
    start_streaming(replication())
}

fn start_streaming(mut replication: Replication) -> Replication {
    replication.command("START_REPLICATION");
    let happened = receive(&mut replication, &message(b'W', b"\0\0\0"));
    assert_eq!(happened, status::STREAMING);
    replication
}

fn streaming_again(mut replication: Replication) -> Replication {
    replication.restart(0);
    replication.command("START_REPLICATION");
    receive(&mut replication, &message(b'W', b"\0\0\0"));
    replication
}

fn keepalive(wants_status: u8) -> Vec<u8> {
    let head = [0x500_u64, 0].map(u64::to_be_bytes).concat();
    message(b'd', &[b"k", &*head, &[wants_status]].concat())
}

/// A message of `pg_logical_emit_message`.
fn logical() -> Vec<u8> {
    let head = [0x10_u64, 0x20, 0].map(u64::to_be_bytes).concat();
    message(
        b'd',
        &[b"w", &*head, b"M\0", &[0; 8], b"p\0\0\0\0\x01x"].concat(),
    )
}

#[test]
fn a_command_has_an_answer() {
    let mut replication = replication();
    replication.command("IDENTIFY_SYSTEM");
    assert_eq!(
        replication.take_output(),
        message(b'Q', b"IDENTIFY_SYSTEM\0")
    );
    let bytes = [
        message(
            b'T',
            b"\0\x01systemid\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0",
        ),
        message(b'D', b"\0\x02\0\0\0\x0274\xff\xff\xff\xff"),
        message(b'C', b"IDENTIFY_SYSTEM\0"),
        READY.into(),
    ];
    assert_eq!(receive(&mut replication, &bytes.concat()), status::ANSWERED);
    assert_eq!(replication.take_answer(), r#"{"rows":[["74",null]]}"#);
}

#[test]
fn an_error_is_an_answer_by_its_fields() {
    let mut replication = replication();
    replication.command("START_REPLICATION");
    let error = message(b'E', b"SERROR\0VERROR\0C42704\0Mno slot\0\0");
    assert_eq!(receive(&mut replication, &error), 0);
    assert_eq!(receive(&mut replication, READY), status::ANSWERED);
    assert_eq!(
        replication.take_answer(),
        r#"{"rows":[],"error":{"code":"42704","message":"no slot","severity":"ERROR"}}"#
    );
}

#[test]
fn commands_that_are_sent_together_have_one_answer() {
    let mut replication = replication();
    replication.command("select 1");
    replication.command("IDENTIFY_SYSTEM");
    assert_eq!(
        replication.take_output(),
        [
            message(b'Q', b"select 1\0"),
            message(b'Q', b"IDENTIFY_SYSTEM\0")
        ]
        .concat()
    );
    let row = |value: u8| {
        let row = message(b'D', &[b"\0\x01\0\0\0\x01".as_slice(), &[value]].concat());
        [row, READY.into()].concat()
    };
    assert_eq!(receive(&mut replication, &row(b'1')), 0);
    assert_eq!(receive(&mut replication, &row(b'2')), status::ANSWERED);
    assert_eq!(replication.take_answer(), r#"{"rows":[["1"],["2"]]}"#);
}

#[test]
fn a_notice_is_kept_until_it_is_taken() {
    let mut replication = streaming();
    let notice = message(b'N', b"SHINWEIS\0VNOTICE\0C00000\0Mhi\0\0");
    let bytes = [notice, keepalive(0)].concat();
    let happened = status::NOTICED | status::KEEPALIVE;
    assert_eq!(receive(&mut replication, &bytes), happened);
    let notices = r#"[{"code":"00000","message":"hi","severity":"NOTICE"}]"#;
    assert_eq!(replication.take_notices(), notices);
    assert_eq!(replication.take_notices(), "[]");
}

/// The changes before the warning can still be taken. Nothing is acknowledged after it.
#[test]
fn a_warning_of_a_missing_publication_ends_the_stream() {
    let mut replication = streaming();
    let warning = b"SWARNUNG\0VWARNING\0C55000\0Much\0RLoadPublications\0\0";
    let bytes = [logical(), message(b'N', warning), keepalive(1), logical()].concat();
    let happened = receive(&mut replication, &bytes);
    assert_eq!(happened, status::LINES | status::NOTICED | status::ANSWERED);
    replication.take_output();
    replication.update_status(0x500, 0, false);
    assert_eq!(replication.take_output(), b"");
    assert!(replication.take_answer().contains("LoadPublications"));
}

/// The next server's log may be shorter than the last one's.
#[test]
fn a_new_connection_forgets_the_end_of_the_log() {
    let mut replication = streaming();
    receive(&mut replication, &keepalive(0));
    assert_eq!(replication.end(), 0x500);
    replication.restart(0x20);
    assert_eq!(replication.end(), 0);
}

#[test]
fn nothing_follows_an_error_that_is_fatal() {
    let mut replication = streaming();
    let error = message(b'E', b"SFATAL\0VFATAL\0C57P01\0Mgoing\0\0");
    assert_eq!(receive(&mut replication, &error), status::ANSWERED);
    assert_eq!(receive(&mut replication, &logical()), 0);
    assert!(replication.take_answer().contains("57P01"));
}

#[test]
fn changes_come_in_whatever_pieces() {
    let bytes = [logical(), keepalive(0), logical()].concat();
    let mut whole = streaming();
    let happened = receive(&mut whole, &bytes);
    assert_eq!(happened, status::LINES | status::KEEPALIVE);
    for at in 0..bytes.len() {
        let mut parts = streaming();
        let (first, second) = bytes.split_at(at);
        let all = receive(&mut parts, first) | receive(&mut parts, second);
        assert_eq!(all, happened);
        assert_eq!(parts.changes(), whole.changes());
    }
    assert_eq!(whole.end(), 0x500);
    whole.changes_taken();
    assert_eq!(
        receive(&mut whole, &keepalive(1)),
        status::KEEPALIVE | status::STATUS_WANTED
    );
}

#[test]
fn status_goes_to_a_server_that_streams() {
    let mut replication = streaming();
    replication.take_output();
    replication.update_status(0x128, 5, false);
    assert_eq!(replication.take_output().len(), 1 + 4 + 34);
    receive(&mut replication, &message(b'c', b""));
    replication.update_status(0x128, 5, false);
    assert_eq!(replication.take_output(), b"");
}

#[test]
fn a_stream_that_the_server_ends_has_an_answer_too() {
    let mut replication = streaming();
    assert_eq!(
        receive(&mut replication, &message(b'c', b"")),
        status::STREAM_OVER
    );
    let rest = [message(b'C', b"COPY 0\0"), READY.into()].concat();
    assert_eq!(receive(&mut replication, &rest), status::ANSWERED);
    assert_eq!(replication.take_answer(), r#"{"rows":[]}"#);
}

#[test]
fn a_server_that_shuts_down_says_so_without_an_end_of_its_stream() {
    let mut replication = streaming();
    let end = message(b'C', b"COPY 0\0");
    assert_eq!(receive(&mut replication, &end), 0);
    assert_eq!(replication.failure(), "");
    // The next connection continues the stream.
    let mut replication = streaming_again(replication);
    assert_eq!(receive(&mut replication, &logical()), status::LINES);
}

#[test]
fn what_has_no_place_ends_the_connection() {
    for (bytes, code) in [
        (message(b'1', b""), "UNEXPECTED_MESSAGE"),
        (message(b'd', b"?"), "PROTOCOL_VIOLATION"),
        (b"d\0\0\0\0".to_vec(), "PROTOCOL_VIOLATION"),
        (b"d\x7f\0\0\0".to_vec(), "MESSAGE_TOO_LARGE"),
        (message(b'D', b"\0"), "UNEXPECTED_MESSAGE"),
    ] {
        let mut replication = streaming();
        assert_eq!(
            receive(&mut replication, &bytes),
            status::FAILED,
            "{bytes:?}"
        );
        let told = replication.failure();
        assert!(told.contains(code), "{told}");
        assert_eq!(receive(&mut replication, &logical()), 0);
    }
    let mut replication = replication();
    replication.command("x");
    assert_eq!(
        receive(&mut replication, &message(b'D', b"\0\x01\0\0\0\x09")),
        status::FAILED
    );
}

/// A row arrives in the same piece as its table's description.
#[test]
fn reading_waits_for_the_types_of_a_table() {
    let mut replication = streaming();
    let head = [0x10_u64, 0x20, 0].map(u64::to_be_bytes).concat();
    let table = b"R\0\0\x40\x01app\0t\0d\0\x01\0age\0\0\0\x40\x10\xff\xff\xff\xff";
    let row = b"I\0\0\x40\x01N\0\x01t\0\0\0\x015";
    let begin = [b"B", &[0; 16][..], &[0, 0, 0, 7]].concat();
    let messages = [&*begin, table, row].map(|body| message(b'd', &[b"w", &*head, body].concat()));
    let wants = status::LINES | status::TYPES_WANTED;
    assert_eq!(receive(&mut replication, &messages.concat()), wants);
    assert_eq!(replication.take_wanted_types(), [16_400]);
    replication.changes_taken();
    // The connection is lost before the catalog has answered. The next connection asks again.
    let mut next = streaming_again(replication);
    assert_eq!(receive(&mut next, &messages.concat()), wants);
    assert_eq!(next.take_wanted_types(), [16_400]);
    let mut replication = next;
    // A domain of int4.
    replication.define_types(Types::new(&[16_400, 0, 23, 0], &[], ""));
    assert_eq!(replication.received(0), status::LINES);
    let lines = String::from_utf8_lossy(replication.changes());
    assert!(lines.ends_with("\"new\":{\"age\":5}}\n"), "{lines}");
}

#[test]
fn the_next_connection_begins_anew() {
    let mut replication = streaming();
    receive(&mut replication, &message(b'1', b""));
    replication.restart(0x128);
    assert_eq!(replication.failure(), "");
    replication.command("IDENTIFY_SYSTEM");
    assert_eq!(receive(&mut replication, READY), status::ANSWERED);
    replication.take_output();
    replication.terminate();
    assert_eq!(replication.take_output(), b"X\0\0\0\x04");
}

#[test]
fn rows_of_a_table_that_is_read_are_lines() {
    let mut replication = replication();
    let table = Table {
        oid: 0x4001,
        replica_identity: b'd',
        names: "app\0t\0age\0",
        columns: &[[1, 16_400, u32::MAX]],
    };
    replication.snapshot_table(table, 0x100);
    assert_eq!(replication.take_wanted_types(), [16_400]);
    replication.define_types(Types::new(&[16_400, 0, 23, 0], &[], ""));
    replication.copy("copy app.t (age) to stdout", 0x4001);
    let rows = [
        message(b'H', b"\0\0\x01\0\0"),
        message(b'd', b"5\n"),
        message(b'd', b"\\N\n"),
        message(b'c', b""),
        message(b'C', b"COPY 2\0"),
        READY.into(),
    ];
    let happened = receive(&mut replication, &rows.concat());
    assert_eq!(happened, status::LINES | status::ANSWERED);
    replication.snapshot_over(0x100);
    let lines = String::from_utf8_lossy(replication.changes()).into_owned();
    for new in [
        r#""new":{"age":5}}"#,
        r#""new":{"age":null}}"#,
        r#"{"kind":"snapshot""#,
    ] {
        assert!(lines.contains(new), "{lines}");
    }
    // The answer to the next command has only its own rows.
    replication.command("x");
    let row = message(b'D', b"\0\x01\0\0\0\x015");
    receive(&mut replication, &[row, READY.into()].concat());
    assert_eq!(replication.take_answer(), r#"{"rows":[["5"]]}"#);
}

/// A table that is being copied, without columns.
fn copying() -> Replication {
    let mut replication = replication();
    let table = Table {
        oid: 0x4001,
        replica_identity: b'd',
        names: "app\0t\0",
        columns: &[],
    };
    replication.snapshot_table(table, 0x100);
    replication.copy("copy app.t to stdout", 0x4001);
    replication
}

#[test]
fn a_row_of_a_table_that_cannot_be_read_ends_the_connection() {
    let mut replication = copying();
    let rows = [message(b'H', b"\0\0\0"), message(b'd', b"5\n")];
    let happened = receive(&mut replication, &rows.concat());
    assert_eq!(happened & status::FAILED, status::FAILED);
}

#[test]
fn a_refused_copy_leaves_the_connection_usable() {
    let mut replication = copying();
    let refused = [
        message(b'E', b"SERROR\0VERROR\0C42809\0Mno\0\0"),
        READY.into(),
    ]
    .concat();
    assert_eq!(receive(&mut replication, &refused), status::ANSWERED);
    assert!(replication.take_answer().contains("42809"));
    // It may also break off between two rows.
    replication.copy("copy app.t to stdout", 0x4001);
    let broken = [message(b'H', b"\0\0\0"), message(b'd', b"\n"), refused].concat();
    assert_ne!(receive(&mut replication, &broken) & status::ANSWERED, 0);
    assert!(replication.take_answer().contains("42809"));
    assert_eq!(replication.failure(), "");
}

#[test]
fn the_first_error_of_a_flight_is_told() {
    let mut replication = replication();
    replication.command("lock table t");
    replication.command("select 1");
    let refused = |code: &str| {
        let fields = alloc::format!("SERROR\0VERROR\0C{code}\0Mno\0\0");
        [message(b'E', fields.as_bytes()), READY.into()].concat()
    };
    receive(
        &mut replication,
        &[refused("42501"), refused("25P02")].concat(),
    );
    let answer = replication.take_answer();
    assert!(
        answer.contains("42501") && !answer.contains("25P02"),
        "{answer}"
    );
}

#[test]
fn rows_of_a_copy_come_only_where_one_was_asked_for() {
    let response = message(b'H', b"\0\0\0");
    let done = message(b'c', b"");
    for unasked in [
        message(b'd', b"\n"),
        [&*response, &*response].concat(),
        [&*response, &*done, &*response].concat(),
        [&*response, READY].concat(),
        [&*response, &*message(b'D', b"\0\0")].concat(),
    ] {
        let mut replication = copying();
        let happened = receive(&mut replication, &unasked);
        assert_eq!(happened & status::FAILED, status::FAILED, "{unasked:?}");
    }
    let mut replication = replication();
    replication.command("select 1");
    assert_eq!(receive(&mut replication, &response), status::FAILED);
}
