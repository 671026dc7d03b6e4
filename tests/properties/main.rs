//! Rules that hold for any bytes, any session and any split. Each test begins with its invariant as a sentence.
//!
//! `PROPERTY_TIMES=100 cargo test --release --test properties` runs a hundred times as many cases; `make fuzz
//! MINUTES=60` runs other cases for an hour, and counts them. This file has the shared parts: the number of cases, and
//! the cuts of bytes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

mod caps;
#[path = "../transcripts/command.rs"]
mod command;
mod conversations;
#[path = "../transcripts/file.rs"]
mod file;
mod forms;
mod messages;
mod scram;
mod sessions;
mod texts;
#[path = "../transcripts/trace/mod.rs"]
mod trace;
#[path = "../transcripts/transcript.rs"]
mod transcript;
mod values;

use proptest::collection::vec;
use proptest::prelude::*;
use std::io::{self, Write};
use std::panic::Location;
use std::path::Path;

/// Prints the number of cases on stderr: `[cases] scram.rs 20000`. It bypasses the test harness, which would capture
/// the line.
#[track_caller]
fn cases(count: u32) -> ProptestConfig {
    let times: u32 = std::env::var("PROPERTY_TIMES").map_or(1, |times| times.parse().unwrap());
    let subject = Path::new(Location::caller().file()).file_name().unwrap();
    let line = format!("[cases] {} {}\n", subject.display(), count * times);
    io::stderr().write_all(line.as_bytes()).unwrap();
    // There is no file of past failures: a failure becomes a transcript.
    ProptestConfig {
        cases: count * times,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// The sizes of the pieces into which a stream is cut, repeated for ever.
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
