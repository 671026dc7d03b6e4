//! The transcripts as input: whole sessions, and every message of a server in them.

use crate::command::Command;
use crate::file::{Action, Step};
use crate::transcript::{self, Transcript};
use std::sync::LazyLock;

/// Sessions that may be cut anywhere.
pub static SESSIONS: LazyLock<Vec<Transcript>> = LazyLock::new(|| {
    let asks_tls = |step: &Step<Command>| method(step) == Some("request_tls");
    let all = transcript::all().into_iter();
    all.filter(|transcript| !transcript.whole && !transcript.steps.iter().any(asks_tls))
        .collect()
});

/// Every message of a server in these sessions.
pub static MESSAGES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let mut messages: Vec<_> = SESSIONS
        .iter()
        .flat_map(|session| &session.steps)
        .flat_map(Step::fed)
        .flat_map(frames)
        .collect();
    messages.sort();
    messages.dedup();
    messages
});

/// The method that a step calls.
pub fn method(step: &Step<Command>) -> Option<&str> {
    match &step.action {
        Action::Call(_, command) => Some(&command.method),
        Action::Feed(_) => None,
    }
}

/// Splits bytes into whole messages. The last entry may be a remainder.
pub fn frames(mut bytes: &[u8]) -> Vec<Vec<u8>> {
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
