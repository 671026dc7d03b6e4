//! A transcript: a Markdown file with a session in it, and its replay.
//!
//! Reads the file into steps, feeds the server's bytes to a core in pieces of any size by the drain rule
//! (docs/architecture.md), records all that comes out, and can rewrite the file from that. Judges nothing: the runners
//! do.

#![allow(
    dead_code,
    reason = "the tests transcripts and properties each use a part"
)]

use crate::command::{self, Command};
use crate::trace::{self, Printer};
use pgz_edge::boundary::{ended, status};
use pgz_edge::connection::{Connection, Settings};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// One file, parsed.
#[derive(Clone)]
pub struct Transcript {
    pub path: PathBuf,
    pub steps: Vec<Step>,
    /// The names of the server's messages in the file.
    pub backend_messages: Vec<String>,
    /// The expected rows.
    pub rows: String,
    pub events: Vec<String>,
    /// The fence says `trace whole`: the outcome depends on the split, so the bytes come in one piece.
    pub whole: bool,
}

/// An action on the core, and the bytes that the core must then write.
#[derive(Clone)]
pub struct Step {
    pub action: Action,
    pub output: Vec<u8>,
}

#[derive(Clone)]
pub enum Action {
    /// The text after `> `, and its parsed form.
    Call(String, Command),
    /// The server's bytes up to the point where the client must act.
    Feed(Vec<u8>),
}

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

/// The folder of the transcripts.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts")
}

/// Returns all transcripts, in order of their names.
pub fn all() -> Vec<Transcript> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.retain(|path| {
        path.extension().is_some_and(|extension| extension == "md")
            && path.file_stem().unwrap() != "README"
    });
    paths.sort();
    paths.iter().map(|path| Transcript::read(path)).collect()
}

impl Transcript {
    /// Reads a file. Panics with file and line if it is not a transcript.
    pub fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let mut transcript = Transcript {
            path: path.to_path_buf(),
            steps: vec![],
            backend_messages: vec![],
            rows: String::new(),
            events: vec![],
            whole: false,
        };
        let mut fence = None;
        for (index, line) in text.lines().enumerate() {
            match (fence, line.strip_prefix("```")) {
                (None, Some(info)) => {
                    fence = Some(info);
                    transcript.whole |= info == "trace whole";
                }
                (Some(_), Some(_)) => fence = None,
                (Some("rows"), None) => {
                    transcript.rows += &(line.to_owned() + "\n")
                        .replace("␃\n", "")
                        .replace('␍', "\r");
                }
                (Some("events"), None) => transcript.events.push(line.to_owned()),
                (Some("trace" | "trace whole"), None) => {
                    transcript.line(line).unwrap_or_else(|error| {
                        panic!("{}:{}: {error}", path.display(), index + 1)
                    });
                }
                _ => {}
            }
        }
        assert!(
            !transcript.steps.is_empty(),
            "{} has no trace",
            path.display()
        );
        transcript
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        if line.is_empty() {
            return Ok(());
        }
        if let Some(call) = line.strip_prefix("> ") {
            self.steps.push(Step {
                action: Action::Call(call.to_owned(), command::parse(call)?),
                output: vec![],
            });
            return Ok(());
        }
        let line = trace::parse(line)?;
        if line.side == 'F' {
            self.steps
                .last_mut()
                .ok_or("the client says nothing by itself")?
                .output
                .extend(line.bytes);
            return Ok(());
        }
        self.backend_messages.push(line.name);
        match self.steps.last_mut() {
            Some(Step {
                action: Action::Feed(bytes),
                output,
            }) if output.is_empty() => bytes.extend(line.bytes),
            _ => self.steps.push(Step {
                action: Action::Feed(line.bytes),
                output: vec![],
            }),
        }
        Ok(())
    }

    /// Returns the number of bytes that the server sends.
    pub fn fed(&self) -> usize {
        self.steps
            .iter()
            .map(|step| {
                if let Action::Feed(bytes) = &step.action {
                    bytes.len()
                } else {
                    0
                }
            })
            .sum()
    }

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
                    let from = at;
                    at += bytes.len();
                    let mut piece = from;
                    for end in (from + 1..=at).filter(|end| *end == at || cut(*end)) {
                        outcome.feed(
                            &mut connection,
                            &bytes[piece - from..end - from],
                            &mut output,
                        );
                        piece = end;
                    }
                }
            }
            outcome.outputs.push(output);
            outcome
                .status
                .push(connection.status() & (status::BUSY | status::CLOSED));
            outcome
                .taken
                .push((outcome.rows.len(), outcome.events.len()));
        }
        outcome
    }

    /// Returns the file's text with trace, rows and events replaced by those of `outcome`; prose stays.
    pub fn rewritten(&self, outcome: &Outcome) -> String {
        let text = fs::read_to_string(&self.path).unwrap();
        let prose = text.split("```trace").next().unwrap();
        let mut new = format!(
            "{prose}```trace{}\n",
            if self.whole { " whole" } else { "" }
        );
        let mut printer = Printer::default();
        for (step, output) in self.steps.iter().zip(&outcome.outputs) {
            match &step.action {
                Action::Call(line, _) => new += &format!("> {line}\n"),
                Action::Feed(bytes) => new.extend(
                    printer
                        .lines('B', bytes)
                        .into_iter()
                        .map(|line| line + "\n"),
                ),
            }
            let cancel = matches!(step.action, Action::Call(_, Command::CancelRequest));
            let lines = if cancel {
                Printer::default().lines('F', output)
            } else {
                printer.lines('F', output)
            };
            new.extend(lines.into_iter().map(|line| line + "\n"));
        }
        new += "```\n\n```rows\n";
        let mut rows = str::from_utf8(&outcome.rows).unwrap().replace('\r', "␍");
        if !rows.is_empty() && !rows.ends_with('\n') {
            rows += "␃\n";
        }
        new += &rows;
        new += "```\n\n```events\n";
        new.extend(outcome.events.iter().map(|event| event.to_owned() + "\n"));
        new + "```\n"
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
