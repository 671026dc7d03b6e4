//! A transcript of a replication connection behind its login, and how it is replayed.
//!
//! The trace's form is that of the other transcripts, and `rows` are the lines of changes. `events` has a line for each
//! step in which something happened: the bits of `boundary::changes` by name, and what they let the caller ask for.
//! Judges nothing: the runners do.

use crate::file::{Action, Call, File, pieces, text};
use crate::trace::{Printer, Tokens};
use pgz_edge::boundary::changes as status;
use pgz_edge::replication::{Options, Replication, Table};
use pgz_edge::types::Types;
use serde_json::{Value, json};

pub type Conversation = File<ChangesCall>;

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
pub enum ChangesCall {
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
    File::all("transcripts/replication")
}

impl Call for ChangesCall {
    fn parse(line: &str) -> Result<ChangesCall, String> {
        let mut tokens = Tokens::new(line);
        let call = match tokens.word()?.as_str() {
            "restart" => ChangesCall::Restart(position(&mut tokens)?),
            "command" => ChangesCall::Command(text(&mut tokens)?),
            "snapshot_table" => {
                let (oid, identity) = (tokens.number()?, tokens.number()?);
                let (names, at) = (text(&mut tokens)?, position(&mut tokens)?);
                let mut columns = vec![];
                while tokens.more() {
                    columns.push(tokens.number()?);
                }
                ChangesCall::SnapshotTable(oid, identity, names, columns, at)
            }
            "copy" => ChangesCall::Copy(text(&mut tokens)?, tokens.number()?),
            "snapshot_over" => ChangesCall::SnapshotOver(position(&mut tokens)?),
            "update_status" => {
                let (at, clock) = (position(&mut tokens)?, tokens.number()?);
                let wants_answer = tokens.more() && tokens.word()? == "wants_answer";
                ChangesCall::UpdateStatus(at, clock, wants_answer)
            }
            "terminate" => ChangesCall::Terminate,
            other => return Err(format!("no call is named {other}")),
        };
        tokens.end()?;
        Ok(call)
    }
}

impl ChangesCall {
    fn run(&self, replication: &mut Replication) {
        match self {
            ChangesCall::Restart(yielded) => replication.restart(*yielded),
            ChangesCall::Command(text) => replication.command(text),
            ChangesCall::SnapshotTable(oid, replica_identity, names, columns, at) => {
                let table = Table {
                    oid: *oid,
                    replica_identity: *replica_identity,
                    names,
                    columns: columns.as_chunks().0,
                };
                replication.snapshot_table(table, *at);
            }
            ChangesCall::Copy(text, oid) => replication.copy(text, *oid),
            ChangesCall::SnapshotOver(at) => replication.snapshot_over(*at),
            ChangesCall::UpdateStatus(at, clock, wants_answer) => {
                replication.update_status(*at, *clock, *wants_answer);
            }
            ChangesCall::Terminate => replication.terminate(),
        }
    }

    /// The same call of `ChangesCore`. Positions are texts: they do not fit the numbers of JSON.
    pub fn to_json(&self) -> Value {
        match self {
            ChangesCall::Restart(yielded) => json!(["restart", { "u64": yielded.to_string() }]),
            ChangesCall::Command(text) => json!(["command", text]),
            ChangesCall::SnapshotTable(oid, identity, names, columns, at) => {
                let (columns, at) = (json!({ "u32": columns }), json!({ "u64": at.to_string() }));
                json!(["snapshot_table", oid, identity, names, columns, at])
            }
            ChangesCall::Copy(text, oid) => json!(["copy", text, oid]),
            ChangesCall::SnapshotOver(at) => json!(["snapshot_over", { "u64": at.to_string() }]),
            ChangesCall::UpdateStatus(at, clock, wants_answer) => {
                let (at, clock) = (at.to_string(), clock.to_string());
                json!(["update_status", { "u64": at }, { "u64": clock }, wants_answer])
            }
            ChangesCall::Terminate => json!(["terminate"]),
        }
    }
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
    /// Whether START_REPLICATION asks for parts of open transactions.
    fn streams(&self) -> bool {
        self.steps.iter().any(|step| match &step.action {
            Action::Call(_, ChangesCall::Command(text)) => text.contains("streaming '"),
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
                    let (mut happened, mut wanted) = (0, vec![]);
                    for piece in pieces(bytes, at, &cut) {
                        happened |= outcome.feed(&mut replication, piece, &mut wanted);
                    }
                    at += bytes.len();
                    outcome.step(&mut replication, happened, &wanted);
                }
            }
        }
        outcome
    }

    /// The file's text with trace, rows and events as `outcome` has them.
    pub fn text_of(&self, outcome: &Outcome) -> String {
        let printer = Printer::logged_in();
        self.rewritten(printer, &outcome.outputs, &outcome.rows, &outcome.events)
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
