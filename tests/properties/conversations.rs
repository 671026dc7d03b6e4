//! Whole sessions: the transcripts, corrupted at random.

use crate::command::Command;
use crate::file::{Action, Call, Step};
use crate::sessions::{MESSAGES, SESSIONS, frames, method};
use crate::transcript::{Outcome, Transcript};
use crate::{cases, cut_at, cuts, trace};
use pgz_edge::boundary::status;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// One way to corrupt a session.
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
        "first_run 9 \"select 9\" \"select 1 where false\" ndjson rows 1",
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

fn call(line: &str) -> Step<Command> {
    Step::new(Action::Call(line.to_owned(), Command::parse(line).unwrap()))
}

fn feed(frames: &[Vec<u8>]) -> Step<Command> {
    Step::new(Action::Feed(frames.concat()))
}

fn spoil(session: &mut Transcript, (step, message, edit): &(Index, Index, Edit)) {
    let at = step.index(session.steps.len());
    if let Edit::Ask(line) = edit {
        return session.steps.insert(at + 1, call(line));
    }
    let Some(bytes) = session.steps[at].fed() else {
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

/// Checks the rules that a session must keep whatever the server sends.
fn is_sound(session: &Transcript, outcome: &Outcome) {
    let operations = session.steps.iter().flat_map(method).filter(|method| {
        [
            "describe",
            "execute",
            "first_run",
            "fetch",
            "close_portal",
            "simple_query",
            "batch",
        ]
        .contains(method)
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
        let own = ["cancel_request", "constructor"];
        let is_own = method(&session.steps[step]).is_some_and(|method| own.contains(&method));
        outcome.status[step] == status::CLOSED
            && outcome.taken[step] == outcome.taken[closed]
            && (outcome.outputs[step].is_empty() || is_own)
    };
    assert!(
        (closed + 1..session.steps.len()).all(silent),
        "CLOSED is final"
    );
}

proptest! {
    #![proptest_config(cases(20_000))]

    /// Whatever a server sends and however its bytes are cut: no panic, rows are whole, every operation ends at most
    /// once, CLOSED is final, and the cut changes nothing.
    #[test]
    fn a_spoiled_session_stays_sound(session in any::<Index>(), edits in vec(edit(), 0..5), sizes in cuts()) {
        let mut session = SESSIONS[session.index(SESSIONS.len())].clone();
        edits.iter().for_each(|edit| spoil(&mut session, edit));
        let whole = session.replay(|_| false);
        is_sound(&session, &whole);
        let cuts = cut_at(&sizes, session.fed());
        prop_assert_eq!(session.replay(|at| cuts[at]), whole);
    }

    /// The same rules hold for messages in random order.
    #[test]
    fn a_random_session_stays_sound(asks in vec((edit(), vec(any::<Index>(), 0..6)), 1..6), sizes in cuts()) {
        let mut session = SESSIONS[0].clone();
        session.steps = vec![call("start 3.0 \"user\" \"app\""), feed(&frames(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I"))];
        for ((_, _, edit), messages) in &asks {
            if let Edit::Ask(line) = edit {
                session.steps.push(call(line));
            }
            let messages = messages.iter().map(|at| MESSAGES[at.index(MESSAGES.len())].clone());
            session.steps.push(feed(&messages.collect::<Vec<_>>()));
        }
        let whole = session.replay(|_| false);
        is_sound(&session, &whole);
        let cuts = cut_at(&sizes, session.fed());
        prop_assert_eq!(session.replay(|at| cuts[at]), whole);
    }
}

/// A NoticeResponse, ParameterStatus or NotificationResponse at any message boundary of a successful session changes
/// neither its rows, nor its output, nor its other events.
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
            let frames = step.fed().map(frames).unwrap_or_default();
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
