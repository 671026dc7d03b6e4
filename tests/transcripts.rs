//! Replays every transcript natively, in every split. `tests/unit/transcripts.test.ts` does the same through wasm.
//!
//! `TRANSCRIPTS=rewrite cargo test --test transcripts` writes the core's present behaviour into the files: look at the
//! diff before you keep it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

#[path = "transcripts/command.rs"]
mod command;
#[path = "transcripts/file.rs"]
mod file;
#[path = "transcripts/trace/mod.rs"]
mod trace;
#[path = "transcripts/transcript.rs"]
mod transcript;

use file::{Action, Step};
use pgz_edge::boundary::status;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::{env, fs};
use trace::Printer;
use transcript::{Outcome, Transcript};

/// Compares with the file's expectation, and shows the difference by its lines.
fn check(transcript: &Transcript, outcome: &Outcome) {
    let name = transcript.path.file_name().unwrap().display();
    for (number, (step, output)) in transcript.steps.iter().zip(&outcome.outputs).enumerate() {
        if step.output != *output {
            let lines = |bytes: &[u8]| Printer::default().lines('F', bytes).join("\n");
            let raw = |bytes: &[u8]| bytes.escape_ascii().to_string();
            panic!(
                "{name}, step {number}: the client should say\n{}\n{}\nand says\n{}\n{}",
                lines(&step.output),
                raw(&step.output),
                lines(output),
                raw(output)
            );
        }
    }
    assert_eq!(
        outcome.rows.escape_ascii().to_string(),
        transcript.rows.as_bytes().escape_ascii().to_string(),
        "{name}: rows"
    );
    assert_eq!(outcome.events, transcript.events, "{name}: events");
}

#[test]
fn every_transcript_replays_in_every_split() {
    let rewrite = env::var("TRANSCRIPTS").is_ok_and(|mode| mode == "rewrite");
    let (mut files, mut splits) = (0, 0);
    for transcript in transcript::all() {
        let whole = transcript.replay(|_| false);
        if rewrite {
            fs::write(&transcript.path, transcript.text_of(&whole)).unwrap();
            continue;
        }
        check(&transcript, &whole);
        files += 1;
        splits += 1;
        if transcript.whole {
            continue;
        }
        let same = |split: &str, outcome: Outcome| {
            assert!(
                outcome == whole,
                "{}: {split}: {outcome:#?}\nis not\n{whole:#?}",
                transcript.path.display()
            )
        };
        same("one byte at a time", transcript.replay(|_| true));
        for cut in 1..transcript.fed() {
            same(
                &format!("cut before byte {cut}"),
                transcript.replay(|at| at == cut),
            );
        }
        splits += transcript.fed();
    }
    println!("{files} transcripts, {splits} splits");
}

#[test]
fn every_line_is_written_as_the_printer_writes_it() {
    for transcript in transcript::all() {
        let text = fs::read_to_string(&transcript.path).unwrap();
        assert!(
            transcript.text_of(&transcript.replay(|_| false)) == text,
            "{}: TRANSCRIPTS=rewrite changes it",
            transcript.path.display()
        );
    }
}

#[test]
fn every_backend_message_occurs() {
    let seen: BTreeSet<String> = transcript::all()
        .into_iter()
        .flat_map(|transcript| transcript.backend_messages)
        .collect();
    let missing: Vec<&str> = trace::layout::backend_messages()
        .filter(|name| !seen.contains(*name))
        .collect();
    assert!(missing.is_empty(), "no transcript has {missing:?}");
    assert_eq!(trace::layout::backend_messages().count(), 28);
}

#[test]
fn every_transcript_ends_in_a_known_state() {
    for transcript in transcript::all() {
        let status = transcript.replay(|_| false).status.pop().unwrap();
        assert!(
            status == 0 || status == status::CLOSED,
            "{} ends while the core waits",
            transcript.path.display()
        );
    }
}

/// The runner in JavaScript has no parser of its own: this test gives it the steps as JSON (`TRANSCRIPT_STEPS` says
/// where to write them).
#[test]
fn steps_for_the_wasm_runner() {
    let steps = |transcript: &Transcript| -> Vec<_> {
        let step = |step: &Step<command::Command>| match &step.action {
            Action::Call(_, command) => {
                json!({ "command": command.to_json(), "output": step.output })
            }
            Action::Feed(bytes) => json!({ "feed": bytes, "output": step.output }),
        };
        transcript.steps.iter().map(step).collect()
    };
    let all: Vec<_> = transcript::all()
        .iter()
        .map(|transcript| {
            let name = transcript.path.file_stem().unwrap().to_str().unwrap();
            json!({
                "name": name,
                "whole": transcript.whole,
                "steps": steps(transcript),
                "rows": transcript.rows,
                "events": transcript.events,
            })
        })
        .collect();
    let file = env::var_os("TRANSCRIPT_STEPS").map_or(
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("transcripts.json"),
        PathBuf::from,
    );
    fs::write(file, serde_json::to_string(&all).unwrap()).unwrap();
}
