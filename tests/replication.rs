//! Replays every transcript of a replication connection natively, in every split.
//! `tests/unit/replication-transcripts.test.ts` does the same through wasm.
//!
//! `TRANSCRIPTS=rewrite cargo test --features replication --test replication` writes the core's present behaviour into
//! the files: look at the diff before you keep it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

#[path = "transcripts/replication/conversation.rs"]
mod conversation;
#[path = "transcripts/file.rs"]
mod file;
#[path = "transcripts/trace/mod.rs"]
mod trace;

use conversation::{ChangesCall, Conversation, Outcome};
use file::{Action, Step};
use serde_json::json;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::{env, fs};
use trace::Printer;

fn check(conversation: &Conversation, outcome: &Outcome) {
    let name = conversation.path.file_name().unwrap().display();
    for (number, (step, output)) in conversation.steps.iter().zip(&outcome.outputs).enumerate() {
        let lines = |bytes: &[u8]| Printer::logged_in().lines('F', bytes);
        let (expected, said) = (lines(&step.output), lines(output));
        assert_eq!(said, expected, "{name}, step {number}");
    }
    let rows = str::from_utf8(&outcome.rows).unwrap();
    assert_eq!(rows, conversation.rows, "{name}: rows");
    assert_eq!(outcome.events, conversation.events, "{name}: events");
}

#[test]
fn every_conversation_replays_in_every_split() {
    let rewrite = env::var("TRANSCRIPTS").is_ok_and(|mode| mode == "rewrite");
    let (mut files, mut splits) = (0, 0);
    for conversation in conversation::all() {
        let whole = conversation.replay(|_| false);
        if rewrite {
            fs::write(&conversation.path, conversation.text_of(&whole)).unwrap();
            continue;
        }
        check(&conversation, &whole);
        let name = conversation.path.display();
        let bytewise = conversation.replay(|_| true);
        assert_eq!(bytewise, whole, "{name}: one byte at a time");
        for cut in 1..conversation.fed() {
            let outcome = conversation.replay(|at| at == cut);
            assert_eq!(outcome, whole, "{name}: cut before byte {cut}");
        }
        files += 1;
        splits += 1 + conversation.fed();
    }
    assert!(rewrite || files >= 10, "{files} files");
    println!("{files} transcripts of replication, {splits} splits");
}

#[test]
fn every_line_is_written_as_the_printer_writes_it() {
    for conversation in conversation::all() {
        let text = fs::read_to_string(&conversation.path).unwrap();
        assert!(
            conversation.text_of(&conversation.replay(|_| false)) == text,
            "{}: TRANSCRIPTS=rewrite changes it",
            conversation.path.display()
        );
    }
}

/// The kinds are the first bytes of CopyData, and of the message within XLogData: all of pgoutput's four versions.
#[test]
fn every_message_of_a_stream_occurs() {
    let mut seen = BTreeSet::new();
    for step in conversation::all().iter().flat_map(|one| &one.steps) {
        let Action::Feed(bytes) = &step.action else {
            continue;
        };
        let mut rest = bytes.as_slice();
        while let [tag, a, b, c, d, body @ ..] = rest {
            let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize - 4;
            match (tag, body) {
                (b'd', [b'w', message @ ..]) => seen.extend(message.get(24)),
                (b'd', [kind, ..]) => _ = seen.insert(*kind),
                _ => {}
            }
            rest = &body[length..];
        }
    }
    let all = b"kBCORYIUDTMSEcAbPKrp";
    let missing = all.iter().filter(|tag| !seen.contains(tag));
    let missing: Vec<char> = missing.map(|tag| char::from(*tag)).collect();
    assert!(missing.is_empty(), "no transcript has {missing:?}");
}

/// The runner in JavaScript has no parser of its own: this test gives it the steps as JSON (`REPLICATION_STEPS` says
/// where to write them).
#[test]
fn steps_for_the_wasm_runner() {
    let step = |step: &Step<ChangesCall>| match &step.action {
        Action::Call(_, call) => json!({ "call": call.to_json(), "output": step.output }),
        Action::Feed(bytes) => json!({ "feed": bytes, "output": step.output }),
    };
    let all: Vec<_> = conversation::all()
        .iter()
        .map(|conversation| {
            json!({
                "name": conversation.path.file_stem().unwrap().to_str().unwrap(),
                "steps": conversation.steps.iter().map(step).collect::<Vec<_>>(),
                "rows": conversation.rows,
                "events": conversation.events,
            })
        })
        .collect();
    let file = env::var_os("REPLICATION_STEPS").map_or(
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("replication.json"),
        PathBuf::from,
    );
    fs::write(file, serde_json::to_string(&all).unwrap()).unwrap();
}
