//! A transcript of a replication connection behind its login, and how it is replayed.
//!
//! The trace's form is that of the other transcripts, and `rows` are the lines of changes. `events` has a line for each
//! step in which something happened: the bits of `boundary::changes` by name, and what they let the caller ask for.
//! Judges nothing: the runners do.

use crate::trace::{self, Printer, Tokens};
use pgz_edge::boundary::changes as status;
use pgz_edge::replication::{Options, Replication, Table};
use pgz_edge::types::Types;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Bits of what happened, by name.
const BITS: [(&str, u32); 9] = [
    ("answered", status::ANSWERED),
    ("streaming", status::STREAMING),
    ("lines", status::LINES),
    ("keepalive", status::KEEPALIVE),
    ("statusWanted", status::STATUS_WANTED),
    ("streamOver", status::STREAM_OVER),
    ("failed", status::FAILED),
    ("typesWanted", status::TYPES_WANTED),
    ("noticed", status::NOTICED),
];

/// One call.
pub enum Call {
    /// The next connection: what was yielded up to this position is dropped.
    Restart(u64),
    Command(String),
    /// The OID, the replica identity, the names, each ended by a NUL, then three numbers for each column, and where the
    /// slot begins.
    SnapshotTable(u32, u8, String, Vec<u32>, u64),
    Copy(String, u32),
    SnapshotOver(u64),
    /// The position, the clock, and whether an answer is wanted.
    UpdateStatus(u64, i64, bool),
    Terminate,
}

pub enum Action {
    /// The line behind `> `, and what it means.
    Call(String, Call),
    /// The server's bytes up to the next call.
    Feed(Vec<u8>),
}

/// What happens to the core, and the bytes it must then write.
pub struct Step {
    pub action: Action,
    pub output: Vec<u8>,
}

/// One file.
pub struct Conversation {
    pub path: PathBuf,
    pub steps: Vec<Step>,
    /// Expected.
    pub rows: String,
    pub events: Vec<String>,
}

/// What came out of a replay. Equal for every split.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// After each step.
    pub outputs: Vec<Vec<u8>>,
    pub rows: Vec<u8>,
    pub events: Vec<String>,
}

/// All of them, in the order of their names.
pub fn all() -> Vec<Conversation> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts/replication");
    let entries = fs::read_dir(folder).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.sort();
    paths.iter().map(|path| Conversation::read(path)).collect()
}

impl Call {
    fn parse(line: &str) -> Result<Call, String> {
        let mut tokens = Tokens::new(line);
        let call = match tokens.word()?.as_str() {
            "restart" => Call::Restart(position(&mut tokens)?),
            "command" => Call::Command(text(&mut tokens)?),
            "snapshot_table" => {
                let (oid, identity) = (tokens.number()?, tokens.number()?);
                let (names, at) = (text(&mut tokens)?, position(&mut tokens)?);
                let mut columns = vec![];
                while tokens.more() {
                    columns.push(tokens.number()?);
                }
                Call::SnapshotTable(oid, identity, names, columns, at)
            }
            "copy" => Call::Copy(text(&mut tokens)?, tokens.number()?),
            "snapshot_over" => Call::SnapshotOver(position(&mut tokens)?),
            "update_status" => {
                let (at, clock) = (position(&mut tokens)?, tokens.number()?);
                let wants_answer = tokens.more() && tokens.word()? == "wants_answer";
                Call::UpdateStatus(at, clock, wants_answer)
            }
            "terminate" => Call::Terminate,
            other => return Err(format!("no call is named {other}")),
        };
        tokens.end()?;
        Ok(call)
    }

    fn run(&self, replication: &mut Replication) {
        match self {
            Call::Restart(yielded) => replication.restart(*yielded),
            Call::Command(text) => replication.command(text),
            Call::SnapshotTable(oid, replica_identity, names, columns, at) => {
                let table = Table {
                    oid: *oid,
                    replica_identity: *replica_identity,
                    names,
                    columns: columns.as_chunks().0,
                };
                replication.snapshot_table(table, *at);
            }
            Call::Copy(text, oid) => replication.copy(text, *oid),
            Call::SnapshotOver(at) => replication.snapshot_over(*at),
            Call::UpdateStatus(at, clock, wants_answer) => {
                replication.update_status(*at, *clock, *wants_answer);
            }
            Call::Terminate => replication.terminate(),
        }
    }

    /// The same call of `ChangesCore`. Positions are texts: they do not fit the numbers of JSON.
    pub fn to_json(&self) -> Value {
        match self {
            Call::Restart(yielded) => json!(["restart", { "u64": yielded.to_string() }]),
            Call::Command(text) => json!(["command", text]),
            Call::SnapshotTable(oid, identity, names, columns, at) => {
                let (columns, at) = (json!({ "u32": columns }), json!({ "u64": at.to_string() }));
                json!(["snapshot_table", oid, identity, names, columns, at])
            }
            Call::Copy(text, oid) => json!(["copy", text, oid]),
            Call::SnapshotOver(at) => json!(["snapshot_over", { "u64": at.to_string() }]),
            Call::UpdateStatus(at, clock, wants_answer) => {
                let (at, clock) = (at.to_string(), clock.to_string());
                json!(["update_status", { "u64": at }, { "u64": clock }, wants_answer])
            }
            Call::Terminate => json!(["terminate"]),
        }
    }
}

fn text(tokens: &mut Tokens<'_>) -> Result<String, String> {
    String::from_utf8(tokens.quoted('"')?).map_err(|error| error.to_string())
}

/// `0/16B3748` is 0x16b3748.
fn position(tokens: &mut Tokens<'_>) -> Result<u64, String> {
    let word = tokens.word()?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let halves = word
        .split_once('/')
        .and_then(|(high, low)| Some((number(high)?, number(low)?)));
    let (high, low) = halves.ok_or_else(|| format!("{word} is no position"))?;
    Ok(high << 32 | low)
}

impl Conversation {
    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let mut conversation = Conversation {
            path: path.to_path_buf(),
            steps: vec![],
            rows: String::new(),
            events: vec![],
        };
        let mut fence = None;
        for (index, line) in text.lines().enumerate() {
            match (fence, line.strip_prefix("```")) {
                (None, Some(info)) => fence = Some(info),
                (Some(_), Some(_)) => fence = None,
                (Some("rows"), None) => conversation.rows += &(line.to_owned() + "\n"),
                (Some("events"), None) => conversation.events.push(line.to_owned()),
                (Some("trace"), None) => conversation.line(line).unwrap_or_else(|error| {
                    panic!("{}:{}: {error}", path.display(), index + 1);
                }),
                _ => {}
            }
        }
        assert!(
            !conversation.steps.is_empty(),
            "{} has no trace",
            path.display()
        );
        conversation
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        if let Some(call) = line.strip_prefix("> ") {
            let action = Action::Call(call.to_owned(), Call::parse(call)?);
            self.steps.push(Step {
                action,
                output: vec![],
            });
            return Ok(());
        }
        let line = trace::parse(line)?;
        match (line.side, self.steps.last_mut()) {
            ('F', Some(step)) => step.output.extend(line.bytes),
            ('F', None) => return Err("the client says nothing by itself".into()),
            (
                _,
                Some(Step {
                    action: Action::Feed(bytes),
                    ..
                }),
            ) => bytes.extend(line.bytes),
            _ => self.steps.push(Step {
                action: Action::Feed(line.bytes),
                output: vec![],
            }),
        }
        Ok(())
    }

    /// How many bytes the server says.
    pub fn fed(&self) -> usize {
        let bytes = |step: &Step| match &step.action {
            Action::Feed(bytes) => bytes.len(),
            Action::Call(..) => 0,
        };
        self.steps.iter().map(bytes).sum()
    }

    /// Whether START_REPLICATION asks for parts of open transactions.
    fn streams(&self) -> bool {
        self.steps.iter().any(|step| match &step.action {
            Action::Call(_, Call::Command(text)) => text.contains("streaming '"),
            _ => false,
        })
    }

    /// Replays. `cut`: whether a piece ends before the server's byte of this number.
    pub fn replay(&self, cut: impl Fn(usize) -> bool) -> Outcome {
        let options = Options {
            streams: self.streams(),
            ..Options::default()
        };
        let mut replication = Replication::new(1 << 30, options);
        let mut outcome = Outcome::default();
        let mut at = 0;
        for step in &self.steps {
            match &step.action {
                Action::Call(_, call) => {
                    call.run(&mut replication);
                    outcome.step(&mut replication, 0, &[]);
                }
                Action::Feed(bytes) => {
                    let from = at;
                    at += bytes.len();
                    let (mut happened, mut wanted) = (0, vec![]);
                    let mut piece = from;
                    for end in (from + 1..=at).filter(|end| *end == at || cut(*end)) {
                        let bytes = &bytes[piece - from..end - from];
                        happened |= outcome.feed(&mut replication, bytes, &mut wanted);
                        piece = end;
                    }
                    outcome.step(&mut replication, happened, &wanted);
                }
            }
        }
        outcome
    }

    /// The file's text with trace, rows and events as `outcome` has them; prose stays.
    pub fn rewritten(&self, outcome: &Outcome) -> String {
        let text = fs::read_to_string(&self.path).unwrap();
        let mut new = text.split("```trace").next().unwrap().to_owned() + "```trace\n";
        let mut printer = Printer::logged_in();
        for (step, output) in self.steps.iter().zip(&outcome.outputs) {
            let lines = match &step.action {
                Action::Call(line, _) => vec![format!("> {line}")],
                Action::Feed(bytes) => printer.lines('B', bytes),
            };
            new.extend(lines.into_iter().map(|line| line + "\n"));
            new.extend(
                printer
                    .lines('F', output)
                    .into_iter()
                    .map(|line| line + "\n"),
            );
        }
        let rows = str::from_utf8(&outcome.rows).unwrap();
        new += &format!("```\n\n```rows\n{rows}```\n\n```events\n");
        new.extend(outcome.events.iter().map(|event| event.to_owned() + "\n"));
        new + "```\n"
    }
}

impl Outcome {
    /// Describes no types, so values of types that the core does not know stay the server's text.
    fn feed(&mut self, replication: &mut Replication, bytes: &[u8], wanted: &mut Vec<u32>) -> u32 {
        replication.input(bytes.len()).copy_from_slice(bytes);
        let mut all = replication.received(bytes.len());
        let mut happened = all;
        while happened & status::TYPES_WANTED != 0 {
            wanted.extend(replication.take_wanted_types());
            replication.define_types(Types::new(&[], &[], ""));
            happened = replication.received(0);
            all |= happened;
        }
        all
    }

    fn step(&mut self, replication: &mut Replication, happened: u32, wanted: &[u32]) {
        self.outputs.push(replication.take_output());
        replication.seal();
        self.rows.extend_from_slice(replication.changes());
        replication.changes_taken();
        if happened == 0 {
            return;
        }
        let names = BITS.iter().filter(|(_, bit)| happened & bit != 0);
        let names: Vec<&str> = names.map(|(name, _)| *name).collect();
        let mut event = format!(r#"{{"happened":{}"#, json!(names));
        if happened & status::ANSWERED != 0 {
            event += &format!(r#","answer":{}"#, replication.take_answer());
        }
        if happened & status::FAILED != 0 {
            event += &format!(r#","failure":{}"#, replication.failure());
        }
        if happened & status::TYPES_WANTED != 0 {
            event += &format!(r#","types":{}"#, json!(wanted));
        }
        let (end, committed) = (said(replication.end()), said(replication.committed()));
        let outside = replication.is_outside();
        event += &format!(r#","end":"{end}","committed":"{committed}","outside":{outside}}}"#);
        self.events.push(event);
    }
}

fn said(position: u64) -> String {
    format!("{:X}/{:X}", position >> 32, position & 0xffff_ffff)
}
