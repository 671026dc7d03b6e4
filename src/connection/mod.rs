//! The state machine of one connection, as its caller sees it. commands.rs begins operations, dispatch.rs hands
//! messages on, each conversation has its file.
//!
//! Bytes go in by [`Connection::input`] and [`Connection::received`], out by [`Connection::take_output`]; rows and
//! events wait until they are taken. Nothing here waits, retries or times out: JavaScript does, by the drain rule of
//! docs/architecture.md.
//!
//! ```text
//! phase:  Fresh ─ request_tls ─> AwaitTls ─> Fresh ─ start ─> Startup ─> Ready ─ failure, terminate ─> Closed
//! ```
//! Operations queue: each wrote its flight when it was asked for (or keeps it in `pending` until the server has let us
//! in), so the answers come in the same order, and the front one is the one that is being answered.

mod batch;
mod commands;
mod dispatch;
mod early;
mod event;
mod extended_query;
mod first_run;
pub mod limits;
mod outcomes;
mod plans;
mod settings;
pub mod simple_query;
mod startup;
pub mod statements;

#[cfg(test)]
mod walk;

use crate::boundary::{login, status};
use crate::encode::{RowError, Types};
use crate::error::{Failure, NO_MEMORY};
use crate::protocol::frame::{Deframer, Frames};
use crate::protocol::frontend;
use crate::protocol::writer::TooLong;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use batch::Batch;
pub use commands::{BatchEnd, FirstRequest};
use dispatch::unencrypted_bytes;
use event::{CopyDirection, Event, Events};
use extended_query::ExtendedQuery;
use first_run::FirstRun;
use limits::{MOST_ROW_BYTES, RowSink, Rows};
use plans::Plans;
pub use settings::{Login, Settings};
use simple_query::SimpleQuery;
use startup::Startup;
use statements::Statements;

/// No startup message is longer; libpq refuses above 30,000. It bounds what an impostor can make us keep before it has
/// authenticated.
const STARTUP_MESSAGE_LIMIT: usize = 1 << 16;

/// What is no row and no data of COPY is read whole, made into an event and parsed, so it costs several times its
/// length. The longest that a server has reason to send quotes a value in an error.
const EVENT_MESSAGE_LIMIT: usize = 1 << 24;

/// Linux gives no larger ones (PID_MAX_LIMIT). Poolers make keys of their own, of random bytes (PgBouncer; one in a
/// thousand looks like a server's): behind one, a statement's name may be missing on the next server connection.
const LARGEST_PROCESS_ID: u32 = 1 << 22;

/// One session with a server, without its socket.
pub struct Connection {
    deframer: Deframer,
    state: State,
}

/// All but the receive buffer, so that a frame can be borrowed from that while this changes.
struct State {
    phase: Phase,
    startup: Startup,
    max_message_bytes: usize,
    /// A message that makes sense has come: the peer is a PostgreSQL server.
    heard: bool,
    flush_bytes: usize,
    /// What runs in front of the next statement, in this order.
    preludes: Vec<Vec<u8>>,
    /// Flights asked for before the server has let us in.
    pending: Vec<u8>,
    operations: VecDeque<Operation>,
    context: Context,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Fresh,
    AwaitTls,
    Startup,
    Ready,
    Closed,
}

enum Operation {
    Extended(ExtendedQuery),
    Simple(SimpleQuery),
    Batch(Batch),
    FirstRun(FirstRun),
}

/// What a conversation may touch.
struct Context {
    output: Vec<u8>,
    events: Events,
    statements: Statements,
    plans: Plans,
    types: Types,
    /// CancelRequest, when BackendKeyData has come.
    cancel_request: Vec<u8>,
    rows: Rows,
    /// Of the portal that was suspended last, for its further rows.
    suspended: RowSink,
    /// First runs that are over but for the rows that they hold.
    held: Vec<FirstRun>,
    /// Body of the RowDescription that was asked for last; empty for none.
    described: Vec<u8>,
}

/// Where a conversation stands after a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Continue,
    /// Its last message has come.
    Done,
    /// The server has refused us; nothing more will come.
    Closed,
}

impl Context {
    fn backend_key_data(&mut self, process_id: u32, secret_key: &[u8]) -> Result<(), TooLong> {
        self.cancel_request.clear();
        frontend::cancel_request(&mut self.cancel_request, process_id, secret_key)?;
        self.events.push(Event::BackendKeyData { process_id });
        if process_id > LARGEST_PROCESS_ID {
            self.statements.no_backend();
        }
        Ok(())
    }

    /// `body`, and of the rows `behind` it those that [`RowSink::take`] takes.
    #[inline]
    fn rows<'a>(
        &mut self,
        body: &'a [u8],
        behind: &mut Frames<'a>,
        sink: &mut RowSink,
    ) -> Result<(), Failure> {
        match sink.take(body, behind, &mut self.rows) {
            Ok(None) => Ok(()),
            Ok(Some(limit)) => {
                self.events.push(limit.into());
                Ok(())
            }
            Err(error) => self.unreadable(error, sink),
        }
    }

    /// A type that nobody has described ends the operation, anything else the connection.
    #[cold]
    #[inline(never)]
    fn unreadable(&mut self, error: RowError, sink: &mut RowSink) -> Result<(), Failure> {
        match error {
            RowError::Value { error, .. } if error.is_unknown_type() => {
                sink.discard = true;
                self.events.push(Event::ShapeChanged {
                    type_oid: error.type_oid,
                });
                Ok(())
            }
            _ => Err(error.into()),
        }
    }

    /// COPY FROM STDIN through a call that has no data: the server waits for ours, so it must be told.
    fn refuse_copy_in(&mut self) -> Result<(), TooLong> {
        self.events.push(Event::Copy {
            direction: CopyDirection::In,
        });
        frontend::copy_fail(&mut self.output, b"COPY FROM STDIN needs a copy call")
    }
}

impl Connection {
    /// Nothing is written yet.
    pub fn new(settings: Settings) -> Self {
        let statements = Statements::new(settings.statement_prefix, settings.statement_cache_size);
        Connection {
            deframer: Deframer::default(),
            state: State {
                phase: Phase::Fresh,
                startup: Startup::default(),
                max_message_bytes: settings.max_message_bytes,
                heard: false,
                flush_bytes: usize::MAX,
                preludes: Vec::new(),
                pending: Vec::new(),
                operations: VecDeque::new(),
                context: Context {
                    output: Vec::new(),
                    events: Events::default(),
                    statements,
                    plans: Plans::default(),
                    types: Types::default(),
                    cancel_request: Vec::new(),
                    rows: Rows::default(),
                    suspended: RowSink::default(),
                    held: Vec::new(),
                    described: Vec::new(),
                },
            },
        }
    }

    /// Writes SSLRequest; the answer is a `tls` event.
    pub fn request_tls(&mut self) {
        let State { phase, context, .. } = &mut self.state;
        if *phase == Phase::Fresh {
            *phase = Phase::AwaitTls;
            let written = frontend::ssl_request(&mut context.output);
            self.settle(written);
        }
    }

    /// Writes StartupMessage. Nothing in `login` but its parameters may hold a NUL (the caller has refused it with a
    /// better error).
    pub fn start(&mut self, login: &Login<'_>) {
        let state = &mut self.state;
        if state.phase != Phase::Fresh {
            return;
        }
        state.phase = Phase::Startup;
        state.startup = Startup::new(login);
        state.flush_bytes = login.flush_bytes.min(MOST_ROW_BYTES);
        let Context {
            output, statements, ..
        } = &mut state.context;
        if login.options & login::NAME_FIRST_USE != 0 {
            statements.name_first_use();
        }
        let written = state.startup.begin(login.parameters.as_bytes(), output);
        self.settle(written);
    }

    /// The answer to a `keyDerivation` event (PBKDF2-HMAC-SHA-256 of the password, 32 bytes) or an `md5` event (the
    /// text of PasswordMessage, 35 characters). At any other time, or in another length, it is dropped.
    pub fn prove(&mut self, answer: &[u8]) {
        let state = &mut self.state;
        if state.phase == Phase::Startup {
            let proved = state.startup.prove(answer, &mut state.context);
            state.release_pending();
            self.settle(proved);
        }
    }

    /// Room for `count` bytes from the socket; only the bytes count that [`received`](Self::received) names. Less than
    /// `count`: there is no memory, and the connection has failed.
    pub fn input(&mut self, count: usize) -> &mut [u8] {
        let room = self.deframer.input(count);
        if room.len() < count && self.state.phase != Phase::Closed {
            self.state.fail(Failure::new(NO_MEMORY));
        }
        room
    }

    /// `count` bytes stand in the room that [`input`](Self::input) gave; 0 goes on with parked input. Stops at the
    /// first event about the current operation, and where many rows wait. Returns what has ended with it, as bits of
    /// [`ended`](crate::boundary::ended).
    pub fn received(&mut self, count: usize) -> u32 {
        self.deframer.received(count);
        self.state.context.events.go_on();
        if let Err(failure) = self.advance() {
            self.state.fail(failure);
        }
        if self.state.phase == Phase::Closed {
            self.deframer.clear();
        }
        self.state.context.events.ended()
    }

    /// Writes Terminate.
    pub fn terminate(&mut self) {
        let State { phase, context, .. } = &mut self.state;
        if *phase != Phase::Closed {
            *phase = Phase::Closed;
            let written = frontend::terminate(&mut context.output);
            self.settle(written);
        }
    }

    /// CancelRequest for a second socket; empty before BackendKeyData has come.
    pub fn cancel_request(&self) -> Vec<u8> {
        self.state.context.cancel_request.clone()
    }

    /// Whether operations wait for the server to let us in, so that nothing of them is in the output.
    pub fn holds_back(&self) -> bool {
        !self.state.pending.is_empty()
    }

    /// What must be written to the socket.
    pub fn take_output(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.state.context.output)
    }

    /// Finished rows, whole rows only.
    pub fn rows(&mut self) -> &[u8] {
        self.state.context.rows.bytes()
    }

    /// The rows have been taken.
    pub fn rows_taken(&mut self) {
        self.state.context.rows.clear();
    }

    /// The events that wait, oldest first and a line each, as the JSON of docs/architecture.md.
    pub fn take_events(&mut self) -> String {
        self.state.context.events.take()
    }

    /// The words of the last command's tag, such as `SELECT` or `CREATE TABLE`; empty for an empty query.
    pub fn command(&mut self) -> String {
        self.state.context.events.command()
    }

    /// How many rows the last command counted, where it counts any.
    pub fn row_count(&self) -> Option<u64> {
        self.state.context.events.row_count()
    }

    /// Bits of [`status`].
    pub fn status(&self) -> u32 {
        let state = &self.state;
        let Context { output, events, .. } = &state.context;
        let closed = state.phase == Phase::Closed;
        let bit = |is: bool, bit: u32| if is { bit } else { 0 };
        bit(!output.is_empty(), status::OUTPUT)
            | bit(state.context.rows.byte_count() > 0, status::ROWS)
            | bit(!events.is_empty(), status::EVENT)
            | bit(
                events.parked && !closed && (self.deframer.unread() > 0 || state.has_released()),
                status::MORE,
            )
            | bit(state.busy(), status::BUSY)
            | bit(closed, status::CLOSED)
            | bit(
                state.context.rows.byte_count() >= state.flush_bytes,
                status::ROWS_FULL,
            )
    }

    /// Reads messages until the input ends, or an event or many rows park.
    fn advance(&mut self) -> Result<(), Failure> {
        let Connection { deframer, state } = self;
        if state.phase == Phase::AwaitTls {
            state.tls_answer(deframer)?;
        }
        // Nobody speaks before StartupMessage. Behind `S` such bytes were not encrypted, however late their chunk is.
        if state.phase == Phase::Fresh && deframer.unread() > 0 {
            state.heard = true;
            return Err(unencrypted_bytes());
        }
        let mut frames = deframer.frames(state.message_limit());
        let outcome = state.read(&mut frames);
        let (unread, skip) = (frames.unread(), frames.skipping());
        deframer.leave(unread, skip);
        outcome
    }

    fn settle<E: Into<Failure>>(&mut self, result: Result<(), E>) {
        if let Err(error) = result {
            self.state.fail(error.into());
        }
    }
}
