//! What must hold for any bytes, any session and any split. Each test begins with its invariant as a sentence.
//!
//! Sessions are the transcripts, spoiled at random. `PROPERTY_TIMES=100 cargo test --release --test properties` runs a
//! hundred times as many cases.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

#[path = "transcripts/command.rs"]
mod command;
#[path = "transcripts/trace.rs"]
mod trace;
#[path = "transcripts/transcript.rs"]
mod transcript;

use command::Command;
use pgz_edge::boundary::status;
use pgz_edge::connection::limits::Caps;
use pgz_edge::connection::{Connection, Login, Settings};
use pgz_edge::encode::{ColumnDescription, Plan, RowForm, RowFormat};
use pgz_edge::protocol::backend::BackendMessage;
use pgz_edge::protocol::frame::{Deframer, Frame, FrameError};
use pgz_edge::types::{Encoder, Strings, Types, oid};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use std::sync::LazyLock;
use transcript::{Action, Outcome, Step, Transcript};

fn cases(count: u32) -> ProptestConfig {
    let times: u32 = std::env::var("PROPERTY_TIMES").map_or(1, |times| times.parse().unwrap());
    // No file of past failures: what was found becomes a transcript.
    ProptestConfig {
        cases: count * times,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Sessions that may be cut anywhere.
static SESSIONS: LazyLock<Vec<Transcript>> = LazyLock::new(|| {
    let asks_tls = |step: &Step| matches!(step.action, Action::Call(_, Command::RequestTls));
    let all = transcript::all().into_iter();
    all.filter(|transcript| !transcript.whole && !transcript.steps.iter().any(asks_tls))
        .collect()
});

/// Every message of a server in them.
static MESSAGES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let mut messages: Vec<_> = SESSIONS
        .iter()
        .flat_map(|session| &session.steps)
        .flat_map(fed)
        .flat_map(frames)
        .collect();
    messages.sort();
    messages.dedup();
    messages
});

fn fed(step: &Step) -> Option<&[u8]> {
    if let Action::Feed(bytes) = &step.action {
        Some(bytes)
    } else {
        None
    }
}

/// Whole messages, and what remains behind them.
fn frames(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = vec![];
    while !bytes.is_empty() {
        let length = bytes
            .get(1..5)
            .map_or(0, |length| i32::from_be_bytes(length.try_into().unwrap()));
        let end = usize::try_from(length)
            .ok()
            .filter(|length| (4..bytes.len()).contains(length))
            .map_or(bytes.len(), |length| length + 1);
        frames.push(bytes[..end].to_vec());
        bytes = &bytes[end..];
    }
    frames
}

/// Where a stream is cut, as the sizes of the pieces, repeated for ever.
fn cuts() -> impl Strategy<Value = Vec<usize>> {
    vec(prop_oneof![1..4_usize, 1..30_usize, 1..600_usize], 1..8)
}

fn cut_at(sizes: &[usize], total: usize) -> Vec<bool> {
    let mut cuts = vec![false; total + 1];
    let mut at = 0;
    for size in sizes.iter().cycle() {
        at += size;
        if at > total {
            return cuts;
        }
        cuts[at] = true;
    }
    cuts
}

// Frames.

type Framed = (Vec<(u8, Vec<u8>)>, Option<FrameError>);

/// `bodies`: those of `D` as rows are taken.
fn deframe<'a>(chunks: impl Iterator<Item = &'a [u8]>, bodies: bool) -> Framed {
    let mut deframer = Deframer::default();
    let mut seen = vec![];
    for chunk in chunks {
        deframer.input(chunk.len()).copy_from_slice(chunk);
        deframer.received(chunk.len());
        let mut frames = deframer.frames(300);
        loop {
            match frames.next_frame() {
                Ok(Some(Frame { tag, body })) => seen.push((tag, body.to_vec())),
                Ok(None) => break,
                Err(error) => return (seen, Some(error)),
            }
            if bodies {
                let mut bodies = frames.bodies(b'D');
                seen.extend(bodies.by_ref().map(|body| (b'D', body.to_vec())));
                frames.resume(&bodies);
            }
        }
        let unread = frames.unread();
        deframer.leave(unread, 0);
    }
    (seen, None)
}

fn stream() -> impl Strategy<Value = Vec<u8>> {
    let message = (
        prop_oneof![any::<u8>(), Just(b'D')],
        vec(any::<u8>(), 0..350),
    )
        .prop_map(|(tag, body)| {
            let length = (body.len() as u32 + 4).to_be_bytes();
            [&[tag][..], &length, &body].concat()
        });
    prop_oneof![
        vec(message, 0..8).prop_map(|messages| messages.concat()),
        vec(any::<u8>(), 0..100)
    ]
}

proptest! {
    #![proptest_config(cases(10_000))]

    /// The same messages and the same error come out of a byte stream however it is cut.
    #[test]
    fn framing_does_not_depend_on_the_chunks(stream in stream(), sizes in cuts()) {
        let cuts = cut_at(&sizes, stream.len());
        let ends: Vec<usize> = (1..=stream.len()).filter(|end| cuts[*end] || *end == stream.len()).collect();
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let pieces = starts.zip(&ends).map(|(start, end)| &stream[start..*end]);
        let whole = deframe(std::iter::once(&stream[..]), false);
        prop_assert_eq!(deframe(pieces.clone(), false), whole.clone());
        prop_assert_eq!(deframe(pieces, true), whole);
    }
}

// Messages.

/// Reads everything that a message lends.
fn look_at(tag: u8, body: &[u8]) -> bool {
    let Ok(message) = BackendMessage::parse(Frame { tag, body }) else {
        return false;
    };
    match message {
        BackendMessage::ErrorResponse { fields } | BackendMessage::NoticeResponse { fields } => {
            assert!(fields.iter().count() <= body.len());
            assert_eq!(
                fields.get(b'C').is_some(),
                fields.iter().any(|(name, _)| name == "code")
            );
        }
        BackendMessage::RowDescription { columns } => {
            assert_eq!(
                columns.iter().count(),
                usize::from(u16::from_be_bytes([body[0], body[1]]))
            );
        }
        BackendMessage::ParameterDescription { parameters } => {
            assert_eq!(
                parameters.iter().count(),
                usize::from(u16::from_be_bytes([body[0], body[1]]))
            );
        }
        BackendMessage::BackendKeyData { secret_key, .. } => assert!(secret_key.len() <= 256),
        _ => {}
    }
    true
}

proptest! {
    #![proptest_config(cases(30_000))]

    /// Every decoder is total: any body is a message, all of whose parts can be read, or a typed error.
    #[test]
    fn decoders_are_total(tag in select(b"123ACDEGHIKNRSTWZcdnstv".to_vec()), body in vec(any::<u8>(), 0..80)) {
        look_at(tag, &body);
    }

    /// A message of a real server is decoded; with one byte changed, cut off or put in, it is decoded or refused.
    #[test]
    fn spoiled_messages_are_refused_or_decoded(at in any::<Index>(), place in any::<Index>(), byte in any::<u8>(), how in 0..4) {
        let mut message = MESSAGES[at.index(MESSAGES.len())].clone();
        if message.len() < 6 {
            return Ok(());
        }
        let place = 5 + place.index(message.len() - 5);
        match how {
            0 => message[place] = byte,
            1 => message.truncate(place),
            2 => message.insert(place, byte),
            _ => message.push(byte),
        }
        look_at(message[0], &message[5..]);
    }
}

// Values and rows.

/// OIDs of all types with a decoder of their own.
static TYPES: LazyLock<Vec<u32>> = LazyLock::new(|| {
    let all = (1..7000).chain(20_000..20_010);
    all.filter(|oid| DEFINED.with(|types| types.has_binary_encoder(*oid)))
        .collect()
});

thread_local! {
    /// A domain over int8, an enum, their composite and its array, a range and its multirange, and a composite of all
    /// of them.
    static DEFINED: Types = Types::new(
        &[
            20000, 0, 20, 0, 20001, 0, 25, 0, 20002, 4, 2, 0, 20003, 1, 20002, 0, 20004, 2, 25, 0, 20005, 3, 20004, 0, 20006, 4, 4, 2,
        ],
        &[20000, 0, 1, 20001, 1, 3, 20003, 0, 1, 20004, 1, 2, 20005, 2, 3, 2249, 3, 4],
        "a\"\nb",
    );
}

/// Whether what the server calls json stands in a value as it is.
fn passes_json_on(type_oid: u32) -> bool {
    [
        oid::JSON,
        oid::JSONB,
        oid::JSON_ARRAY,
        oid::JSONB_ARRAY,
        oid::RECORD,
        2287,
        20_006,
    ]
    .contains(&type_oid)
}

/// A value's bytes: nonsense, or the small numbers that counts, lengths, signs and scales are made of.
fn value() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        Just(vec![0, 0, 0, 0]),
        Just(vec![0xff; 4]),
        (0..30_u8).prop_map(|n| vec![0, 0, 0, n]),
        vec(any::<u8>(), 1..5)
    ];
    let sized = |value: Vec<u8>| [&(value.len() as u32).to_be_bytes()[..], &value].concat();
    let field = (any::<Index>(), vec(any::<u8>(), 0..9)).prop_map(move |(at, value)| {
        let type_oid = TYPES[at.index(TYPES.len())];
        [&type_oid.to_be_bytes()[..], &sized(value)].concat()
    });
    let range = (0..0x20_u8, vec(vec(any::<u8>(), 0..9), 0..3)).prop_map(move |(flags, bounds)| {
        [vec![flags], bounds.into_iter().flat_map(sized).collect()].concat()
    });
    let counted =
        |items: Vec<Vec<u8>>| [&(items.len() as u32).to_be_bytes()[..], &items.concat()].concat();
    prop_oneof![
        vec(any::<u8>(), 0..40),
        vec(word, 0..12).prop_map(|words| words.concat()),
        vec(field, 0..4).prop_map(counted),
        range.clone(),
        vec(range.prop_map(sized), 0..3).prop_map(counted)
    ]
}

proptest! {
    #![proptest_config(cases(60_000))]

    /// Any bytes are a value of their type or refused, in both forms and both formats; a value is one JSON value on one
    /// line. (What is json already passes as the server wrote it.)
    #[test]
    fn value_decoders_are_total(at in any::<Index>(), bytes in value(), format_code in 0..2_i16, objects in any::<bool>()) {
        let type_oid = TYPES[at.index(TYPES.len())];
        let form = if objects { Strings::ALL } else { Strings::NONE };
        let encoder = DEFINED.with(|types| Encoder::with_types(type_oid, format_code, form, types)).unwrap();
        let mut out = vec![];
        if encoder.encode(&bytes, &mut out).is_ok() {
            let passed_on = passes_json_on(type_oid);
            prop_assert!(passed_on || !out.contains(&b'\n'), "{} is more than a line", out.escape_ascii());
            if !passed_on && str::from_utf8(&out).is_ok() {
                let parsed = serde_json::from_slice::<serde_json::Value>(&out);
                let is_float_range = parsed.as_ref().is_err_and(|error| error.to_string().contains("out of range"));
                prop_assert!(parsed.is_ok() || is_float_range, "type {}: {}", type_oid, out.escape_ascii());
            }
        }
    }

    /// Any row body is one whole line or refused.
    #[test]
    fn rows_are_whole_lines(columns in vec(any::<Index>(), 0..4), fields in vec(prop::option::of(value()), 0..4), tail in vec(any::<u8>(), 0..2), ndjson in any::<bool>()) {
        let types: Vec<u32> = columns.iter().map(|at| TYPES[at.index(TYPES.len())]).collect();
        let columns = types.iter().map(|type_oid| ColumnDescription { name: b"a\"b", type_oid: *type_oid, format_code: 1 });
        let form = if ndjson { RowFormat::Ndjson } else { RowFormat::Arrays };
        let plan = DEFINED.with(|types| Plan::with_types(&columns.clone().collect::<Vec<_>>(), form.into(), types)).unwrap();
        let mut body = (fields.len() as u16).to_be_bytes().to_vec();
        for field in &fields {
            body.extend(field.as_ref().map_or(-1, |value| value.len() as i32).to_be_bytes());
            body.extend(field.iter().flatten());
        }
        body.extend(tail);
        let mut out = b"before\n".to_vec();
        if plan.encode_row(&body, &mut out).is_ok() {
            prop_assert!(out.ends_with(b"\n"));
            let one_line = out.iter().filter(|byte| **byte == b'\n').count() == 2;
            prop_assert!(one_line || types.iter().copied().any(passes_json_on), "{}", out.escape_ascii());
        }
        prop_assert!(out.starts_with(b"before\n"));
    }
}

// Conversations.

/// One way to spoil a session.
#[derive(Debug, Clone)]
enum Edit {
    Remove,
    Repeat,
    SwapWithNext,
    Insert(Index),
    Change(Index, u8),
    CutShort(Index),
    Ask(&'static str),
}

fn edit() -> impl Strategy<Value = (Index, Index, Edit)> {
    let ask = select(vec![
        "discard",
        "describe \"select 1\"",
        "execute 9 \"select 9\" formats 1 ndjson rows 1",
        "simple_query \"select 8\" arrays bytes 9",
        "simple_query \"copy t from stdin\" none copy_in",
        "simple_query \"copy t to stdout\" none copy_out",
        "copy_data 2",
        "copy_end",
        "batch ndjson rows 1",
        "batch_statement 9 \"select 9\" formats 1",
        "batch_item 0",
        "batch_end",
        "batch_undo",
        "forget 1",
        "prove 'kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk'",
        "prove 'md5kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk'",
        "terminate",
        "start 3.0",
    ]);
    let edit = prop_oneof![
        Just(Edit::Remove),
        Just(Edit::Repeat),
        Just(Edit::SwapWithNext),
        any::<Index>().prop_map(Edit::Insert),
        (any::<Index>(), any::<u8>()).prop_map(|(place, byte)| Edit::Change(place, byte)),
        any::<Index>().prop_map(Edit::CutShort),
        ask.prop_map(Edit::Ask),
    ];
    (any::<Index>(), any::<Index>(), edit)
}

fn call(line: &str) -> Step {
    Step {
        action: Action::Call(line.to_owned(), command::parse(line).unwrap()),
        output: vec![],
    }
}

fn feed(frames: &[Vec<u8>]) -> Step {
    Step {
        action: Action::Feed(frames.concat()),
        output: vec![],
    }
}

fn spoil(session: &mut Transcript, (step, message, edit): &(Index, Index, Edit)) {
    let at = step.index(session.steps.len());
    if let Edit::Ask(line) = edit {
        return session.steps.insert(at + 1, call(line));
    }
    let Some(bytes) = fed(&session.steps[at]) else {
        return;
    };
    let mut frames = frames(bytes);
    if frames.is_empty() {
        return;
    }
    let message = message.index(frames.len());
    match edit {
        Edit::Remove => drop(frames.remove(message)),
        Edit::Repeat => frames.insert(message, frames[message].clone()),
        Edit::SwapWithNext => {
            let next = (message + 1) % frames.len();
            frames.swap(message, next);
        }
        Edit::Insert(other) => {
            frames.insert(message, MESSAGES[other.index(MESSAGES.len())].clone())
        }
        Edit::Change(place, byte) => {
            let place = place.index(frames[message].len());
            frames[message][place] = *byte;
        }
        Edit::CutShort(place) => {
            let place = place.index(frames[message].len());
            frames[message].truncate(place);
        }
        Edit::Ask(_) => {}
    }
    session.steps[at] = feed(&frames);
}

/// How a session must behave whatever the server says.
fn is_sound(session: &Transcript, outcome: &Outcome) {
    let operations = session.steps.iter().filter(|step| {
        matches!(
            step.action,
            Action::Call(
                _,
                Command::Describe { .. }
                    | Command::Execute(_)
                    | Command::Fetch
                    | Command::ClosePortal
                    | Command::SimpleQuery { .. }
                    | Command::Batch { .. }
            )
        )
    });
    let kind = |kind: &str| {
        outcome
            .events
            .iter()
            .filter(|event| event.starts_with(&format!(r#"{{"kind":"{kind}""#)))
            .count()
    };
    assert!(
        kind("ready") <= 1 + operations.count(),
        "every operation ends at most once"
    );
    assert!(kind("failure") <= 1, "one failure at most");

    let closed = outcome
        .status
        .iter()
        .position(|status| status & status::CLOSED != 0);
    assert!(closed.is_some() || kind("failure") == 0, "a failure closes");
    let Some(closed) = closed else { return };
    let silent = |step: usize| {
        let own = matches!(
            session.steps[step].action,
            Action::Call(_, Command::CancelRequest | Command::Settings { .. })
        );
        outcome.status[step] == status::CLOSED
            && outcome.taken[step] == outcome.taken[closed]
            && (outcome.outputs[step].is_empty() || own)
    };
    assert!(
        (closed + 1..session.steps.len()).all(silent),
        "CLOSED is final"
    );
}

proptest! {
    #![proptest_config(cases(20_000))]

    /// Whatever a server says and however its bytes are cut: no panic, whole rows, every operation ends at most once,
    /// CLOSED is final, and the cut changes nothing.
    #[test]
    fn a_spoiled_session_stays_sound(session in any::<Index>(), edits in vec(edit(), 0..5), sizes in cuts()) {
        let mut session = SESSIONS[session.index(SESSIONS.len())].clone();
        edits.iter().for_each(|edit| spoil(&mut session, edit));
        let whole = session.replay(|_| false);
        is_sound(&session, &whole);
        let cuts = cut_at(&sizes, session.fed());
        prop_assert_eq!(session.replay(|at| cuts[at]), whole);
    }

    /// The same for messages in no order at all.
    #[test]
    fn a_random_session_stays_sound(asks in vec((edit(), vec(any::<Index>(), 0..6)), 1..6), sizes in cuts()) {
        let mut session = SESSIONS[0].clone();
        session.steps = vec![call("start 3.0 \"user\" \"app\""), feed(&frames(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I"))];
        for ((_, _, edit), messages) in &asks {
            if let Edit::Ask(line) = edit {
                session.steps.push(call(line));
            }
            session.steps.push(feed(&messages.iter().map(|at| MESSAGES[at.index(MESSAGES.len())].clone()).collect::<Vec<_>>()));
        }
        let whole = session.replay(|_| false);
        is_sound(&session, &whole);
        let cuts = cut_at(&sizes, session.fed());
        prop_assert_eq!(session.replay(|at| cuts[at]), whole);
    }
}

/// A notice, a parameter's status or a notification at any message boundary of a session that goes well changes its
/// rows, its output and its other events in nothing.
#[test]
fn asynchronous_messages_may_come_anywhere() {
    let lines = [
        r#"B NoticeResponse ? S "NOTICE" M "inserted" \x00"#,
        r#"B ParameterStatus ? "inserted" "inserted""#,
        r#"B NotificationResponse ? 1 "inserted" "inserted""#,
    ];
    let inserted = lines.map(|line| trace::parse(line).unwrap().bytes).concat();
    let mut places = 0;
    for session in SESSIONS.iter() {
        let whole = session.replay(|_| false);
        let last = whole.status.last().unwrap();
        if last & status::CLOSED != 0 {
            continue;
        }
        for (at, step) in session.steps.iter().enumerate() {
            let frames = fed(step).map(frames).unwrap_or_default();
            for boundary in 0..frames.len() {
                let mut changed = session.clone();
                let mut more = frames.clone();
                more.insert(boundary, inserted.clone());
                changed.steps[at] = feed(&more);
                let mut outcome = changed.replay(|_| false);
                outcome.events.retain(|event| !event.contains("inserted"));
                outcome.taken.clone_from(&whole.taken);
                assert_eq!(
                    outcome,
                    whole,
                    "{}, step {at}, before message {boundary}",
                    session.path.display()
                );
                places += 1;
            }
        }
    }
    println!("{places} places");
}

// Caps.

/// Types whose output is never shorter than the value, shorter where it has line breaks, and any.
const CAPPED: [u32; 5] = [oid::TEXT, oid::JSON, oid::JSONB, oid::BYTEA, oid::NUMERIC];

/// A field of a type of `CAPPED`, of about so many bytes; `None`: NULL.
fn field(column: usize, length: Option<usize>) -> Vec<u8> {
    let Some(length) = length else {
        return (-1_i32).to_be_bytes().to_vec();
    };
    let value: Vec<u8> = match CAPPED[column] {
        // What it stands for is a sixth as long; every format writes it as it is.
        oid::JSON if length % 3 == 0 => {
            let text = b"\\u0041".repeat(length / 6);
            [&b"\""[..], &text, b"\""].concat()
        }
        oid::JSON => b"1\r\n \n"
            .iter()
            .copied()
            .cycle()
            .take(length + 1)
            .collect(),
        oid::JSONB => [vec![1], vec![b'7'; length + 1]].concat(),
        oid::NUMERIC => vec![0; 8],
        _ => b"plain, \"\\\n"
            .iter()
            .copied()
            .cycle()
            .take(length)
            .collect(),
    };
    [&(value.len() as i32).to_be_bytes()[..], &value].concat()
}

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    [&[tag][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

/// Rows whose fields are about so long.
fn data_rows(lengths: &[Vec<Option<usize>>]) -> Vec<Vec<u8>> {
    let body = |fields: &Vec<Option<usize>>| {
        let count = (fields.len() as u16).to_be_bytes().to_vec();
        let fields = fields
            .iter()
            .enumerate()
            .flat_map(|(column, length)| field(column, *length));
        count.into_iter().chain(fields).collect::<Vec<u8>>()
    };
    lengths
        .iter()
        .map(|fields| message(b'D', &body(fields)))
        .collect()
}

/// What one result of these rows comes to, its bytes cut into pieces of these sizes: bytes of rows, and events.
fn result(
    rows: &[Vec<u8>],
    form: u32,
    caps: Caps,
    most: usize,
    sizes: &[usize],
) -> (Vec<u8>, String) {
    let mut connection = Connection::new(Settings {
        max_message_bytes: most,
        ..Settings::default()
    });
    connection.start(&Login {
        parameters: "user\0a\0",
        options: Login::default().options,
        ..Login::default()
    });
    let mut taken = (vec![], String::new());
    let mut feed = |connection: &mut Connection, bytes: &[u8]| {
        connection.input(bytes.len()).copy_from_slice(bytes);
        let mut ended = connection.received(bytes.len());
        loop {
            taken.0.extend_from_slice(connection.rows());
            connection.rows_taken();
            taken.1 += &transcript::events(connection, ended).concat();
            connection.take_output();
            if connection.status() & status::MORE == 0 {
                return;
            }
            ended = connection.received(0);
        }
    };
    feed(&mut connection, b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I");
    connection.execute(
        1,
        b"\0\x01\0\x01select\0\0\0",
        &[0; 4],
        RowForm::from_code(form),
        false,
        caps,
    );
    let column = |type_oid: &u32| {
        [
            &b"c\0\0\0\0\0\0\0"[..],
            &type_oid.to_be_bytes(),
            &[0xff; 6],
            &[0, 1],
        ]
        .concat()
    };
    let columns: Vec<u8> = CAPPED.iter().flat_map(column).collect();
    let description = message(
        b'T',
        &[&(CAPPED.len() as u16).to_be_bytes()[..], &columns].concat(),
    );
    let end = b"C\0\0\0\x0dSELECT 9\0Z\0\0\0\x05I";
    let stream = [
        b"1\0\0\0\x042\0\0\0\x04",
        &description[..],
        &rows.concat(),
        end,
    ]
    .concat();
    let cuts = cut_at(sizes, stream.len());
    let mut start = 0;
    for end in (1..=stream.len()).filter(|end| cuts[*end] || *end == stream.len()) {
        feed(&mut connection, &stream[start..end]);
        start = end;
    }
    taken
}

/// The form as a number (docs/architecture.md).
const NDJSON: u32 = 1;
const COLUMNS: u32 = 7;

fn lengths() -> impl Strategy<Value = Vec<Vec<Option<usize>>>> {
    let length = prop_oneof![0..9_usize, 0..300_usize, 0..40_000_usize];
    vec(vec(prop::option::weighted(0.9, length), CAPPED.len()), 0..5)
}

proptest! {
    #![proptest_config(cases(600))]

    /// A cap trips at the same row, with the same number, however the bytes are cut; a row is refused exactly when it
    /// would cross the cap, whole rows are all that goes out, and they are those before it.
    #[test]
    fn caps_do_not_depend_on_the_chunks(
        lengths in lengths(), form in NDJSON..=COLUMNS, row_cap in 0..5_u64, bytes in prop_oneof![Just(0), 0..500_u64, 0..90_000_u64],
        field_bytes in prop_oneof![Just(0), 1..500_u64, 1..60_000_u64], most in prop_oneof![Just(1 << 30), 0..60_000_usize], sizes in vec(1..30_000_usize, 1..9),
    ) {
        let rows = data_rows(&lengths);
        let caps = Caps { rows: row_cap, bytes, field_bytes, ..Caps::default() };
        let (whole, events) = result(&rows, form, caps, most, &[usize::MAX >> 1]);
        let (cut, cut_events) = result(&rows, form, caps, most, &sizes);
        prop_assert_eq!(&events, &cut_events);
        if form == COLUMNS {
            return Ok(()); // a batch ends where rows are taken
        }
        prop_assert_eq!(whole == cut, true, "{} and {} bytes", whole.len(), cut.len());
        if most < 1 << 30 {
            return Ok(());
        }
        let field_of = |row: &Vec<u8>| {
            let mut longest = 0;
            let mut rest = &row[7..];
            while let Some((length, behind)) = rest.split_first_chunk() {
                let length = i32::from_be_bytes(*length).max(0) as usize;
                longest = longest.max(length as u64);
                rest = &behind[length..];
            }
            longest
        };
        let within = |count: usize| {
            (row_cap == 0 || count as u64 <= row_cap)
                && (field_bytes == 0 || rows[..count].iter().all(|row| field_of(row) <= field_bytes))
                && (bytes == 0 || count == 0 || result(&rows[..count], form, Caps::default(), most, &[usize::MAX >> 1]).0.len() as u64 <= bytes)
        };
        let passed = (0..=rows.len()).rev().find(|count| within(*count)).unwrap();
        prop_assert_eq!(events.contains("\"limit\""), passed < rows.len(), "{} of {} rows fit: {}", passed, rows.len(), events);
        if passed == rows.len() {
            prop_assert!(whole == result(&rows, form, Caps::default(), most, &[usize::MAX >> 1]).0);
        } else {
            let (next, _) = result(&rows[..passed], form, Caps::default(), most, &[usize::MAX >> 1]);
            prop_assert!(passed == 0 || next.starts_with(&whole) && next.len() - whole.len() <= 2, "{} of {} bytes", whole.len(), next.len());
        }
    }
}
