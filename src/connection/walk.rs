//! Feeds every backend message to every state. The result is a move listed in [`WALK`] or a failure with the right
//! code, never a panic or anything else.
//!
//! A new message or step must be entered in walk/table.rs, and a way into a new state in walk/states.rs.

mod states;
mod table;

use super::*;
use alloc::string::{String, ToString};
use alloc::vec;
use states::{LOGIN, bytes, feed, reach, state};
use std::println;
use table::{ANY_STATE, MESSAGES, WALK};

/// The code of the failure among the events or, if there is none, the state that was reached.
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

/// The very first message decides whether the peer is PostgreSQL.
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

/// Before StartupMessage only the one byte that answers SSLRequest may arrive.
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

/// Whatever the first message did, a second one finds a state of the table or a closed connection.
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

/// An answer that JavaScript computes is accepted once, in the state that asked for it and with the right length. At
/// any other time nothing happens.
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

/// A notice becomes an event once notices are wanted; the warning that JavaScript needs does at any time.
#[test]
fn notices_are_events_when_they_are_wanted() {
    let outside = b"N\0\0\0\x0cC25P01\0\0";
    let mut connection = reach("idle");
    assert!(feed(&mut connection, &bytes("NoticeResponse")).is_empty());
    assert_eq!(feed(&mut connection, outside).len(), 1);
    connection.want_notices();
    assert_eq!(feed(&mut connection, &bytes("NoticeResponse")).len(), 1);
}
