//! A transcript of a session, and its replay.
//!
//! Feeds the server's bytes to a core in pieces of any size by the drain rule (docs/architecture.md), and records all
//! that comes out. Judges nothing: the runners do.

#![allow(
    dead_code,
    reason = "the tests transcripts and properties each use a part"
)]

use crate::command::Command;
use crate::file::{Action, File, pieces};
use crate::trace::Printer;
use pgz_edge::boundary::{ended, status};
use pgz_edge::connection::{Connection, Settings};
use serde_json::json;

pub type Transcript = File<Command>;

/// The result of a replay. It is equal for every split.
#[derive(Debug, Default, PartialEq, Eq, Clone)]
pub struct Outcome {
    /// The output after each step.
    pub outputs: Vec<Vec<u8>>,
    pub rows: Vec<u8>,
    pub events: Vec<String>,
    /// The number of row bytes taken before each event about an operation.
    pub rows_before: Vec<usize>,
    /// BUSY and CLOSED after each step.
    pub status: Vec<u32>,
    /// The numbers of row bytes and events taken after each step.
    pub taken: Vec<(usize, usize)>,
}

/// Returns all transcripts, in order of their names.
pub fn all() -> Vec<Transcript> {
    File::all("transcripts")
}

impl Transcript {
    /// Replays the transcript. `cut` says whether a piece ends before the server's byte of this number.
    pub fn replay(&self, cut: impl Fn(usize) -> bool) -> Outcome {
        let mut connection = Connection::new(Settings::default());
        let mut outcome = Outcome::default();
        let mut at = 0;
        for step in &self.steps {
            let mut output = vec![];
            match &step.action {
                Action::Call(_, command) => {
                    output = command.run(&mut connection);
                    outcome.drain(&mut connection, 0, &mut output);
                }
                Action::Feed(bytes) => {
                    for piece in pieces(bytes, at, &cut) {
                        outcome.feed(&mut connection, piece, &mut output);
                    }
                    at += bytes.len();
                }
            }
            outcome.outputs.push(output);
            let status = connection.status() & (status::BUSY | status::CLOSED);
            outcome.status.push(status);
            let taken = (outcome.rows.len(), outcome.events.len());
            outcome.taken.push(taken);
        }
        outcome
    }

    /// Returns the file's text with trace, rows and events replaced by those of `outcome`.
    pub fn text_of(&self, outcome: &Outcome) -> String {
        let printer = Printer::default();
        self.rewritten(printer, &outcome.outputs, &outcome.rows, &outcome.events)
    }
}

impl Outcome {
    fn feed(&mut self, connection: &mut Connection, bytes: &[u8], output: &mut Vec<u8>) {
        connection.input(bytes.len()).copy_from_slice(bytes);
        let mut ended = connection.received(bytes.len());
        self.drain(connection, ended, output);
        while connection.status() & status::MORE != 0 {
            ended = connection.received(0);
            self.drain(connection, ended, output);
        }
    }

    /// Takes the output, then the rows, then the events.
    fn drain(&mut self, connection: &mut Connection, ended: u32, output: &mut Vec<u8>) {
        output.extend(connection.take_output());
        self.rows.extend_from_slice(connection.rows());
        connection.rows_taken();
        for event in events(connection, ended) {
            if parks(&event) {
                self.rows_before.push(self.rows.len());
            }
            self.events.push(event);
        }
    }
}

/// Returns all that the core reports besides rows, oldest first: the queued events, then the ends of operations, which
/// cross the boundary as numbers and are shown as events here.
pub fn events(connection: &mut Connection, ended: u32) -> Vec<String> {
    let mut events: Vec<String> = connection
        .take_events()
        .lines()
        .map(str::to_owned)
        .collect();
    if ended & ended::COMPLETE != 0 {
        let row_count = connection.row_count();
        events.push(format!(
            r#"{{"kind":"complete","command":{},"rowCount":{}}}"#,
            json!(connection.command()),
            json!(row_count)
        ));
    }
    for (bit, status) in [
        (ended::READY_IDLE, 'I'),
        (ended::READY_IN_TRANSACTION, 'T'),
        (ended::READY_FAILED, 'E'),
    ] {
        if ended & bit != 0 {
            events.push(format!(r#"{{"kind":"ready","status":"{status}"}}"#));
        }
    }
    events
}

/// Returns whether the core stops at this event (docs/architecture.md, "Events").
fn parks(event: &str) -> bool {
    let event: serde_json::Value = serde_json::from_str(event).expect("an event is JSON");
    let kind = event["kind"].as_str().expect("an event has a kind");
    let same_columns = kind == "columns" && event.get("columns").is_none();
    !same_columns
        && ![
            "parameterStatus",
            "notice",
            "notification",
            "backendKeyData",
        ]
        .contains(&kind)
}
