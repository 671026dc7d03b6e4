//! A replication connection after its login: commands, and the stream that START_REPLICATION begins.
//!
//! ```text
//! Idle ──── command ──────────> Command
//! Command ─ ReadyForQuery ────> Idle
//! Command ─ CopyOutResponse ──> Copying, if a table was asked for
//! Copying ─ CopyDone, ErrorResponse ──> Command
//! Command ─ CopyBothResponse ─> Streaming
//! Streaming ─ CopyDone, ErrorResponse ─> Command
//! Streaming ─ CommandComplete ─> Streaming, and the server closes the connection
//! any ───── a failure ────────> Failed
//! ```
//! Several commands may be sent together: the last ReadyForQuery ends the state Command.
//!
//! Knows which message may come when. Must not know what commands mean, or what a change looks like ([`Changes`]).

use super::changes::{Changes, Keepalive, Options, Table, status_update};
use super::message::Position;
use crate::boundary::changes as status;
use crate::error::{Failure, NO_MEMORY};
use crate::protocol::backend::BackendMessage;
use crate::protocol::fields::Fields;
use crate::protocol::frame::{Deframer, Frame};
use crate::protocol::frontend;
use crate::protocol::reader::{Malformed, Reader};
use crate::types::Types;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use serde::Serialize;

/// Capacity of the output buffer that is kept after the lines were taken.
const KEEP: usize = 1 << 18;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Command,
    /// The rows of this table arrive.
    Copying(u32),
    Streaming,
    Failed,
}

/// The answer to a command, as JavaScript receives it.
#[derive(Debug, Default, Serialize)]
struct Answer {
    /// The rows of its result, as text.
    rows: Vec<Vec<Option<String>>>,
    /// ErrorResponse, by the names of its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<BTreeMap<&'static str, String>>,
}

/// The reason why our side ends the connection, as JavaScript receives it.
#[derive(Serialize)]
struct Told<'a> {
    code: &'static str,
    message: &'static str,
    detail: &'a str,
}

/// One replication connection.
#[derive(Debug)]
pub struct Replication {
    state: State,
    /// Number of commands whose ReadyForQuery has not arrived.
    pending: u32,
    deframer: Deframer,
    max_message_bytes: usize,
    changes: Changes,
    answer: Answer,
    /// NoticeResponses that JavaScript has not taken, by the names of their fields.
    notices: Vec<BTreeMap<&'static str, String>>,
    /// The table whose rows this command copies, until the server begins to send them.
    copied: Option<u32>,
    failure: Option<Failure>,
    output: Vec<u8>,
    /// Bits of [`status`] since the last `received`.
    happened: u32,
}

impl Replication {
    /// The state after the login's ReadyForQuery.
    pub fn new(max_message_bytes: usize, options: Options) -> Replication {
        Replication {
            state: State::Idle,
            pending: 0,
            deframer: Deframer::default(),
            max_message_bytes,
            changes: Changes::new(options),
            answer: Answer::default(),
            notices: Vec::new(),
            copied: None,
            failure: None,
            output: Vec::new(),
            happened: 0,
        }
    }

    /// Starts the next connection of the same stream: see [`Changes::restart`].
    pub fn restart(&mut self, yielded: Position) {
        self.state = State::Idle;
        self.pending = 0;
        self.deframer.clear();
        self.answer = Answer::default();
        self.copied = None;
        self.notices.clear();
        self.failure = None;
        self.output.clear();
        self.changes.restart(yielded);
    }

    /// See [`Changes::define_types`].
    pub fn define_types(&mut self, types: Types) {
        self.changes.define_types(types);
    }

    /// Takes the types to describe. After that, call `received(0)` to continue.
    pub fn take_wanted_types(&mut self) -> Vec<u32> {
        self.changes.take_wanted()
    }

    /// Sends a command. If others are pending, the rows of all of them are one answer. Nothing may follow
    /// START_REPLICATION.
    pub fn command(&mut self, text: &str) {
        if self.pending == 0 {
            self.answer = Answer::default();
        }
        self.state = State::Command;
        self.pending += 1;
        self.copied = None;
        if let Err(too_long) = frontend::query(&mut self.output, text.as_bytes()) {
            self.fail(too_long.into());
        }
    }

    /// Describes a table whose rows [`Replication::copy`] requests next. The slot starts at `at`.
    pub fn snapshot_table(&mut self, table: Table<'_>, at: Position) {
        if let Err(failure) = self.changes.snapshot_table(table, at) {
            self.fail(failure);
        }
    }

    /// Sends a COPY TO STDOUT in text format of a table's rows, which become lines.
    pub fn copy(&mut self, text: &str, relation: u32) {
        self.command(text);
        self.copied = Some(relation);
    }

    /// Ends the snapshot: all tables have been read.
    pub fn snapshot_over(&mut self, at: Position) {
        self.changes.snapshot_over(at);
    }

    /// Sends a status update: the server may discard WAL before `flushed`.
    pub fn update_status(&mut self, flushed: Position, clock: i64, wants_answer: bool) {
        self.changes.acknowledged(flushed);
        if self.state == State::Streaming {
            status_update(&mut self.output, flushed, clock, wants_answer);
        }
    }

    /// Ends the connection.
    pub fn terminate(&mut self) {
        self.state = State::Failed;
        // Terminate has no body, so it cannot be too long.
        let _ = frontend::terminate(&mut self.output);
    }

    /// The bytes that must be written to the socket.
    pub fn take_output(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.output)
    }

    /// A buffer for `count` bytes from the socket; empty if there is no memory.
    pub fn input(&mut self, count: usize) -> &mut [u8] {
        self.deframer.input(count)
    }

    /// Reads `count` bytes from that buffer. Returns bits of [`status`].
    pub fn received(&mut self, count: usize) -> u32 {
        self.happened = 0;
        self.deframer.received(count);
        // Taken out, so that messages can borrow the buffer while `self` changes.
        let deframer = core::mem::take(&mut self.deframer);
        let mut frames = deframer.frames(self.max_message_bytes);
        while self.state != State::Failed && !self.changes.wants_types() {
            match frames.next_frame() {
                Ok(Some(frame)) => self.frame(frame),
                Ok(None) => break,
                Err(error) => self.fail(error.into()),
            }
        }
        let unread = frames.unread();
        self.deframer = deframer;
        self.deframer.leave(unread, 0);
        // The description of a table is reported with its rows, or not at all if the server refuses the table.
        if self.changes.has_output() && self.copied.is_none() {
            self.happened |= status::LINES;
        }
        if self.changes.wants_types() {
            self.happened |= status::TYPES_WANTED;
        }
        self.happened
    }

    /// Fails because there was no memory for what the server has sent.
    pub fn has_no_memory(&mut self) {
        self.fail(Failure::new(NO_MEMORY));
    }

    /// Completes the output for the changes read so far: their lines, or a batch. Returns its length.
    pub fn seal(&mut self) -> usize {
        self.changes.seal(KEEP);
        self.changes().len()
    }

    /// The completed output.
    pub fn changes(&self) -> &[u8] {
        self.changes.output()
    }

    /// Drops that output after it has been taken.
    pub fn changes_taken(&mut self) {
        self.changes.output_taken(KEEP);
    }

    /// The end of the server's WAL, as last reported.
    pub fn end(&self) -> Position {
        self.changes.end()
    }

    /// Position after the last commit that was read.
    pub fn committed(&self) -> Position {
        self.changes.committed()
    }

    /// Whether the stream is between two transactions.
    pub fn is_outside(&self) -> bool {
        self.changes.is_outside()
    }

    /// Takes the answer to the last command, as JSON.
    pub fn take_answer(&mut self) -> String {
        json(&core::mem::take(&mut self.answer))
    }

    /// Takes the notices that have arrived, as a JSON array.
    pub fn take_notices(&mut self) -> String {
        json(&core::mem::take(&mut self.notices))
    }

    /// Why the connection has failed, as JSON; empty if it has not.
    pub fn failure(&self) -> String {
        let told = |failure: &Failure| {
            json(&Told {
                code: failure.reason.code,
                message: failure.reason.message,
                detail: &failure.detail,
            })
        };
        self.failure.as_ref().map(told).unwrap_or_default()
    }

    fn frame(&mut self, frame: Frame<'_>) {
        // Most messages by far.
        match (self.state, frame.tag) {
            (State::Streaming, b'd') => return self.copy_data(frame.body),
            (State::Copying(relation), b'd') => return self.copied_row(relation, frame.body),
            _ => {}
        }
        match BackendMessage::parse(frame) {
            Ok(message) => self.message(message, frame.tag),
            Err(error) => self.fail(error.into()),
        }
    }

    fn copy_data(&mut self, body: &[u8]) {
        match self.changes.receive(body) {
            Ok(Some(Keepalive { wants_status, .. })) => {
                self.happened |= status::KEEPALIVE;
                if wants_status {
                    self.happened |= status::STATUS_WANTED;
                }
            }
            Ok(None) => {}
            Err(failure) => self.fail(failure),
        }
    }

    fn message(&mut self, message: BackendMessage<'_>, tag: u8) {
        use BackendMessage as M;
        use State as S;
        match (self.state, message) {
            (_, M::ParameterStatus { .. }) => {}
            (_, M::NoticeResponse { fields }) => self.notice(fields),
            (S::Idle | S::Command | S::Copying(_) | S::Streaming, M::ErrorResponse { fields }) => {
                self.error(fields)
            }
            (S::Command, M::DataRow { body }) => self.row(body, tag),
            (S::Command, M::CopyOutResponse) => match self.copied.take() {
                Some(relation) => self.state = S::Copying(relation),
                None => self.unexpected(tag),
            },
            (S::Copying(_), M::CopyDone) => self.state = S::Command,
            (S::Command, M::RowDescription { .. } | M::CommandComplete { .. } | M::CopyDone) => {}
            (S::Command, M::CopyBothResponse) => {
                self.state = S::Streaming;
                self.happened |= status::STREAMING;
            }
            (S::Streaming, M::CopyDone) => {
                self.state = S::Command;
                self.happened |= status::STREAM_OVER;
            }
            // A server that shuts down sends nothing more: WalSndDone() sends CommandComplete without CopyDone and ends
            // the process.
            (S::Streaming, M::CommandComplete { .. }) => {}
            (S::Command, M::ReadyForQuery { .. }) => {
                self.pending = self.pending.saturating_sub(1);
                if self.pending == 0 {
                    self.state = S::Idle;
                    self.happened |= status::ANSWERED;
                }
            }
            _ => self.unexpected(tag),
        }
    }

    fn copied_row(&mut self, relation: u32, line: &[u8]) {
        if let Err(failure) = self.changes.snapshot_row(relation, line) {
            self.fail(failure);
        }
    }

    fn row(&mut self, body: &[u8], tag: u8) {
        match row(body) {
            Ok(row) => self.answer.rows.push(row),
            Err(Malformed) => self.unexpected(tag),
        }
    }

    /// Handles NoticeResponse. From PostgreSQL 18 on, a missing publication is a warning, and the server continues
    /// without its changes. It must end the stream: a later status update would let the server discard them. Messages
    /// are translated, so the warning is recognised by its code and the server's function.
    fn notice(&mut self, fields: Fields<'_>) {
        self.notices.push(by_name(fields));
        self.happened |= status::NOTICED;
        let is_missing =
            fields.get(b'C') == Some(b"55000") && fields.get(b'R') == Some(b"LoadPublications");
        if self.state == State::Streaming && is_missing {
            self.answer.error = Some(by_name(fields));
            self.over();
        }
    }

    /// Handles ErrorResponse. Nothing follows a FATAL error. Of several commands in one flight the first error is told:
    /// in a transaction it is the reason for the others.
    fn error(&mut self, fields: Fields<'_>) {
        if self.answer.error.is_none() || fields.are_fatal() {
            self.answer.error = Some(by_name(fields));
        }
        if fields.are_fatal() {
            self.over();
        } else {
            self.state = State::Command;
        }
    }

    /// Ends the connection with the error of the answer.
    fn over(&mut self) {
        self.state = State::Failed;
        self.happened |= status::ANSWERED;
    }

    fn unexpected(&mut self, tag: u8) {
        self.fail(Failure::unexpected("replication", tag));
    }

    fn fail(&mut self, failure: Failure) {
        self.state = State::Failed;
        self.happened |= status::FAILED;
        self.failure = Some(failure);
    }
}

/// Reads a DataRow with values as text.
fn row(body: &[u8]) -> Result<Vec<Option<String>>, Malformed> {
    let mut reader = Reader::new(body);
    let values = (0..reader.u16()?).map(|_| match reader.i32()? {
        -1 => Ok(None),
        length => {
            let length = usize::try_from(length).map_err(|_| Malformed)?;
            Ok(Some(lossy(reader.bytes(length)?)))
        }
    });
    values.collect()
}

fn by_name(fields: Fields<'_>) -> BTreeMap<&'static str, String> {
    let all = fields.iter();
    all.map(|(name, text)| (name, lossy(text))).collect()
}

fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

/// Serializes texts and lists, which cannot fail.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

#[cfg(test)]
mod tests;
