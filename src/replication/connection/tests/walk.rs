//! Feeds each message to each state: the state it leads to, and what is reported.
//!
//! A letter is the state afterwards: `I`dle, `C`ommand, copying `R`ows, `S`treaming; `x`: the connection has failed,
//! because the message has no place there; `f`: a fatal error, after which nothing comes.

use super::*;

const STATES: [State; 4] = [
    State::Idle,
    State::Command,
    State::Copying(0x4001),
    State::Streaming,
];

/// Each kind of server message, and the result for each state.
fn table() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let error = |severity: &[u8]| message(b'E', &[b"S", severity, b"\0C55006\0Mbusy\0\0"].concat());
    let description = [
        b"\0\x01a\0".as_slice(),
        &[0; 6],
        b"\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0",
    ];
    Vec::from([
        ("ReadyForQuery", READY.to_vec(), "xIxx"),
        ("CommandComplete", message(b'C', b"SELECT 1\0"), "xCxS"),
        (
            "RowDescription",
            message(b'T', &description.concat()),
            "xCxx",
        ),
        ("DataRow", message(b'D', b"\0\x01\0\0\0\x01x"), "xCxx"),
        ("CopyBothResponse", message(b'W', b"\0\0\0"), "xSxx"),
        ("CopyDone", message(b'c', b""), "xCCC"),
        ("CopyData", keepalive(1), "xxxS"),
        ("CopyData, a row", message(b'd', b"\n"), "xxRx"),
        ("CopyData without a message", message(b'd', b""), "xxxx"),
        ("CopyData of another kind", message(b'd', b"?"), "xxxx"),
        ("ErrorResponse", error(b"ERROR"), "CCCC"),
        ("ErrorResponse, fatal", error(b"FATAL"), "ffff"),
        ("NoticeResponse", message(b'N', b"SNOTICE\0Mhi\0\0"), "ICRS"),
        (
            "NoticeResponse, a missing publication",
            message(
                b'N',
                b"SWARNUNG\0VWARNING\0C55000\0Much\0RLoadPublications\0\0",
            ),
            "ICRf",
        ),
        (
            "NoticeResponse, the same code elsewhere",
            message(b'N', b"VWARNING\0C55000\0Mhi\0Rother\0\0"),
            "ICRS",
        ),
        ("ParameterStatus", message(b'S', b"a\0b\0"), "ICRS"),
        ("ParseComplete", message(b'1', b""), "xxxx"),
        ("CopyOutResponse", message(b'H', b"\0\0\0"), "xxxx"),
        ("no message of the protocol", message(b'?', b""), "xxxx"),
        ("a length that is none", b"Z\0\0\0\x03".to_vec(), "xxxx"),
        (
            "a message that is too long",
            b"D\x7f\xff\xff\xff".to_vec(),
            "xxxx",
        ),
    ])
}

fn in_state(state: State) -> Replication {
    match state {
        State::Streaming => streaming(),
        State::Command => {
            let mut replication = replication();
            replication.command("IDENTIFY_SYSTEM");
            replication
        }
        State::Copying(_) => {
            let mut replication = copying();
            receive(&mut replication, &message(b'H', b"\0\0\0"));
            replication
        }
        State::Idle | State::Failed => replication(),
    }
}

fn letter(replication: &Replication, happened: u32) -> char {
    match replication.state {
        State::Idle => 'I',
        State::Command => 'C',
        State::Copying(_) => 'R',
        State::Streaming => 'S',
        State::Failed if happened & status::FAILED == 0 => 'f',
        State::Failed => 'x',
    }
}

#[test]
fn each_state_meets_each_message() {
    for (name, bytes, expected) in table() {
        for (state, expected) in STATES.into_iter().zip(expected.chars()) {
            let mut replication = in_state(state);
            let happened = receive(&mut replication, &bytes);
            assert_eq!(
                letter(&replication, happened),
                expected,
                "{name} in {state:?}"
            );
            let has_failed = happened & status::FAILED != 0;
            assert_eq!(has_failed, expected == 'x', "{name} in {state:?}");
            assert_eq!(has_failed, !replication.failure().is_empty());
            let is_answered = happened & status::ANSWERED != 0;
            let ends_a_command = name == "ReadyForQuery" && expected == 'I';
            assert_eq!(
                is_answered,
                ends_a_command || expected == 'f',
                "{name} in {state:?}"
            );
        }
    }
}

/// After a failure, messages from the server are ignored, and nothing is sent.
#[test]
fn behind_a_failure_nothing_follows() {
    for (name, bytes, _) in table() {
        let mut replication = in_state(State::Idle);
        receive(&mut replication, &message(b'1', b""));
        assert_eq!(receive(&mut replication, &bytes), 0, "{name}");
        replication.update_status(7, 0, true);
        assert_eq!(replication.take_output(), b"", "{name}");
        assert_eq!(replication.changes(), b"", "{name}");
    }
}

/// The result is the same in whatever pieces a message arrives.
#[test]
fn pieces_lead_where_the_whole_does() {
    for (name, bytes, expected) in table() {
        for (state, expected) in STATES.into_iter().zip(expected.chars()) {
            for cut in 0..bytes.len() {
                let mut replication = in_state(state);
                let (head, tail) = bytes.split_at(cut);
                let mut happened = receive(&mut replication, head);
                happened |= receive(&mut replication, tail);
                assert_eq!(
                    letter(&replication, happened),
                    expected,
                    "{name} in {state:?}, cut at {cut}"
                );
            }
        }
    }
}
