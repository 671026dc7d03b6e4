//! What events look like. Samples of all events are written for TypeScript, whose compiler compares them with its own
//! types: `BOUNDARY=write cargo test --lib samples` rewrites tests/unit/boundary-events.ts.

use super::*;
use crate::connection::outcomes::Outcomes;
use crate::error::Reason;
use alloc::borrow::ToOwned;
use alloc::format;
use std::{env, fs, path::Path};

fn json(event: Event<'_>) -> String {
    let mut events = Events::default();
    events.push(event);
    events.take()
}

/// `id int4`, and `name text` in text format.
const COLUMNS: &[u8] = b"\0\x02id\0\0\0\x40\0\0\x01\0\0\0\x17\0\x04\xff\xff\xff\xff\0\x01\
    name\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0";

const SAMPLES: &str = "tests/unit/boundary-events.ts";

/// One line for each kind, in the order of the events. A new kind does not compile without its line here.
fn kind(event: &Event<'_>) -> &'static str {
    match event {
        Event::Tls { .. } => "tls",
        Event::Sasl { .. } => "sasl",
        Event::KeyDerivation { .. } => "keyDerivation",
        Event::Md5 { .. } => "md5",
        Event::ParameterStatus { .. } => "parameterStatus",
        Event::BackendKeyData { .. } => "backendKeyData",
        Event::Notice { .. } => "notice",
        Event::Notification { .. } => "notification",
        Event::Shape { .. } => "shape",
        Event::Columns { .. } => "columns",
        Event::Suspended => "suspended",
        Event::Items { .. } => "items",
        Event::Switch { .. } => "switch",
        Event::ShapeChanged { .. } => "shapeChanged",
        Event::Error { .. } => "error",
        Event::Unreadable { .. } => "unreadable",
        Event::Limit { .. } => "limit",
        Event::Copy { .. } => "copy",
        Event::Failure { .. } => "failure",
    }
}

/// At least one sample of each kind, in the same order, including all that may be null or empty.
fn samples(take: &mut dyn FnMut(Event<'_>)) {
    let columns = RowDescription::parse(COLUMNS).unwrap();
    let fields = Fields::parse(b"SFEHLER\0VERROR\0C22012\0Mdivision by zero\0\0").unwrap();
    let mut outcomes = Outcomes::default();
    outcomes.complete(b"INSERT 0 2", 0);
    outcomes.complete(b"CREATE TABLE", 0);
    outcomes.failed(96);
    let failure = Failure::about(
        &Reason {
            code: "PROTOCOL_VIOLATION",
            message: "the server sent a message whose length is impossible; the connection is closed",
        },
        &["length -1"],
    );

    take(Event::Tls { accepted: true });
    take(Event::Sasl {
        mechanisms: Mechanisms(b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0"),
    });
    take(Event::KeyDerivation {
        salt: Text(b"AA=="),
        iterations: 4096,
    });
    take(Event::Md5 { salt: u32::MAX });
    take(Event::ParameterStatus {
        name: Text(b"TimeZone"),
        value: Text(b"UTC"),
    });
    take(Event::BackendKeyData {
        process_id: u32::MAX,
    });
    take(Event::Notice { fields });
    take(Event::Notice {
        fields: Fields::parse(b"\0").unwrap(),
    });
    take(Event::Notification {
        process_id: 7,
        channel: Text(b"news"),
        payload: Text(b""),
    });
    take(Event::Shape {
        parameter_types: ParameterDescription {
            oids: &[0, 0, 0, 23],
        },
        columns,
        result_formats: ResultFormats {
            columns,
            float_times: false,
        },
    });
    take(Event::Shape {
        parameter_types: ParameterDescription { oids: &[] },
        columns: RowDescription::NONE,
        result_formats: ResultFormats {
            columns: RowDescription::NONE,
            float_times: false,
        },
    });
    take(Event::Columns { shape: 7, columns });
    take(Event::Suspended);
    take(outcomes.event());
    take(Event::Switch { statement: 1 });
    take(Event::ShapeChanged { type_oid: 16_384 });
    take(Event::Error {
        bound: true,
        answered: true,
        part: Part::Statement,
        fields,
    });
    take(Event::Unreadable {
        code: "INVALID_VALUE",
        message: "none of its type",
        detail: "column 1",
    });
    for (limit, truncated) in [("rows", false), ("bytes", true), ("fieldBytes", false)] {
        take(Event::from(Limit {
            limit,
            value: 1,
            observed: 1 << 53,
            truncated,
        }));
    }
    for direction in [CopyDirection::In, CopyDirection::Out] {
        take(Event::Copy { direction });
    }
    take(Event::from(&failure));
}

#[test]
fn samples_of_all_are_those_that_typescript_checks() {
    let mut expected = "\
// Samples of every event that crosses as JSON. src/connection/event/tests.rs writes this file (`BOUNDARY=write cargo
// test --lib samples`). The compiler compares them with the types in js/wasm/boundary.ts.
import type { EventOf, JsonEvent } from \"../../js/wasm/boundary.ts\";

// oxfmt-ignore
export const events = {\n"
        .to_owned();
    let mut last = "";
    samples(&mut |event| {
        let kind = kind(&event);
        let sample = json(event);
        assert!(
            sample.starts_with(&format!("{{\"kind\":\"{kind}\"")),
            "{sample}"
        );
        if kind != last {
            expected += if last.is_empty() { "" } else { "  ],\n" };
            expected += &format!("  {kind}: [\n");
            last = kind;
        }
        expected += &format!("    {sample},\n");
    });
    expected += "  ],\n} satisfies { [Kind in JsonEvent[\"kind\"]]: EventOf<Kind>[] };\n";

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(SAMPLES);
    if env::var("BOUNDARY").is_ok_and(|mode| mode == "write") {
        fs::write(&path, &expected).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "{SAMPLES} is not what Rust says:\n{expected}"
    );
}

#[test]
fn events_that_wait_are_lines_in_their_order() {
    let mut events = Events::default();
    events.push(Event::Switch { statement: 1 });
    events.push(Event::ParameterStatus {
        name: Text(b"n"),
        value: Text(b"a\nb"),
    });
    assert_eq!(
        events.take(),
        "{\"kind\":\"switch\",\"statement\":1}\n{\"kind\":\"parameterStatus\",\"name\":\"n\",\"value\":\"a\\nb\"}"
    );
    assert!(events.is_empty() && events.take().is_empty());
}

#[test]
fn text_that_is_no_utf_8_shows_as_such() {
    let value = b"a\xff\"\xe2\x82";
    assert_eq!(
        json(Event::ParameterStatus {
            name: Text(b"n"),
            value: Text(value)
        }),
        "{\"kind\":\"parameterStatus\",\"name\":\"n\",\"value\":\"a\u{fffd}\\\"\u{fffd}\"}"
    );
}

#[test]
fn a_command_is_new_until_it_is_asked_for() {
    let mut events = Events::default();
    let mut ended = |tag: &[u8], asks: bool| {
        events.resume();
        events.note_command(tag);
        assert_eq!(events.ended(), 0, "a noted command is not reported yet");
        events.complete();
        let command = asks.then(|| events.command());
        (
            events.ended() & ended::NEW_COMMAND != 0,
            command,
            events.row_count(),
        )
    };
    assert_eq!(ended(b"", false), (false, None, None));
    assert_eq!(ended(b"SELECT 3", false), (true, None, Some(3)));
    assert_eq!(
        ended(b"SELECT 4", true),
        (true, Some("SELECT".to_owned()), Some(4))
    );
    assert_eq!(ended(b"SELECT 4", false), (false, None, Some(4)));
    assert_eq!(
        ended(b"\xff", true),
        (true, Some("\u{fffd}".to_owned()), None)
    );
}
