//! The state machine of one connection, as its caller sees it. commands.rs begins operations, dispatch.rs passes
//! messages on, and each conversation has its own file.
//!
//! Bytes go in through [`Connection::input`] and [`Connection::received`], and out through [`Connection::take_output`].
//! Rows and events are kept until they are taken. Nothing here waits, retries or times out: JavaScript does, by the
//! drain rule of docs/architecture.md.
//!
//! ```text
//! phase:  Fresh ─ request_tls ─> AwaitTls ─> Fresh ─ start ─> Startup ─> Ready ─ failure, terminate ─> Closed
//! ```
//! Operations queue. Each wrote its flight when the caller asked for it, or keeps the flight in `pending` until the
//! login allows it. So the answers arrive in the same order, and the front operation is the one being answered.

mod batch;
pub mod caps;
mod commands;
mod dispatch;
mod event;
mod extended_query;
mod first_run;
mod incomplete_row;
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
pub use commands::{BatchEnd, ExecuteRequest, FirstRequest};
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

/// Maximum length of a message before the login has succeeded; libpq refuses more than 30,000 bytes. Bounds what an
/// impostor can make us keep before it has authenticated.
const STARTUP_MESSAGE_LIMIT: usize = 1 << 16;

/// Maximum length of a message that is neither a row nor COPY data. Such a message is read whole, turned into an event
/// and parsed, so it costs several times its length. The longest that a server has reason to send is an error that
/// quotes a value.
const EVENT_MESSAGE_LIMIT: usize = 1 << 24;

/// The largest process ID that Linux assigns (PID_MAX_LIMIT). Poolers make up their own keys from random bytes
/// (PgBouncer; one in a thousand looks like a server's). Behind a pooler, a statement's name may be missing on the next
/// server connection.
const LARGEST_PROCESS_ID: u32 = 1 << 22;

/// One session with a server, without its socket.
pub struct Connection {
    deframer: Deframer,
    state: State,
}

/// Everything except the receive buffer, so that a frame can be borrowed from the buffer while the state changes.
struct State {
    phase: Phase,
    startup: Startup,
    max_message_bytes: usize,
    /// A valid message has arrived, so the peer is a PostgreSQL server.
    heard: bool,
    /// Whether an observer listens for notices. Making an event of one costs more than everything else about it.
    wants_notices: bool,
    flush_bytes: usize,
    /// Statements that run in front of the next statement, in this order.
    preludes: Vec<Vec<u8>>,
    /// Flights of operations that were requested before the login allowed them to be sent.
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

/// The state that a conversation may change.
struct Context {
    output: Vec<u8>,
    events: Events,
    statements: Statements,
    plans: Plans,
    types: Types,
    /// CancelRequest, once BackendKeyData has arrived.
    cancel_request: Vec<u8>,
    rows: Rows,
    /// The sink of the last suspended portal, for its further rows.
    suspended: RowSink,
    /// Body of the RowDescription of the last describe; empty if there is none.
    described: Vec<u8>,
}

/// The state of a conversation after a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Continue,
    /// The conversation's last message has arrived.
    Done,
    /// The server has refused the login; nothing more will arrive.
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

    /// Passes `body` to the sink, together with those rows `following` it that [`RowSink::take`] takes.
    #[inline]
    fn rows<'a>(
        &mut self,
        body: &'a [u8],
        following: &mut Frames<'a>,
        sink: &mut RowSink,
    ) -> Result<(), Failure> {
        match sink.take(body, following, &mut self.rows) {
            Ok(None) => Ok(()),
            Ok(Some(limit)) => {
                self.events.push(limit.into());
                Ok(())
            }
            Err(error) => self.unreadable(error, sink),
        }
    }

    /// An undescribed type ends the operation; any other error ends the connection.
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

    /// Refuses COPY FROM STDIN in a call that has no data: the server waits for data, so it needs an answer.
    fn refuse_copy_in(&mut self) -> Result<(), TooLong> {
        self.events.push(Event::Copy {
            direction: CopyDirection::In,
        });
        frontend::copy_fail(&mut self.output, b"COPY FROM STDIN needs a copy call")
    }
}

impl Connection {
    /// A new connection; nothing is written yet.
    pub fn new(settings: Settings) -> Self {
        let statements = Statements::new(settings.statement_prefix, settings.statement_cache_size);
        Connection {
            deframer: Deframer::default(),
            state: State {
                phase: Phase::Fresh,
                startup: Startup::default(),
                max_message_bytes: settings.max_message_bytes,
                heard: false,
                wants_notices: false,
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
                    described: Vec::new(),
                },
            },
        }
    }

    /// Writes SSLRequest. The answer arrives as a `tls` event.
    pub fn request_tls(&mut self) {
        let State { phase, context, .. } = &mut self.state;
        if *phase == Phase::Fresh {
            *phase = Phase::AwaitTls;
            let written = frontend::ssl_request(&mut context.output);
            self.settle(written);
        }
    }

    /// Writes StartupMessage. Only `parameters` of `login` may contain a NUL; the caller has already refused any other,
    /// with a better error.
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

    /// Takes the answer to a `keyDerivation` event (PBKDF2-HMAC-SHA-256 of the password, 32 bytes) or to an `md5` event
    /// (the text of PasswordMessage, 35 characters). At any other time, or with another length, the answer is dropped.
    pub fn prove(&mut self, answer: &[u8]) {
        let state = &mut self.state;
        if state.phase == Phase::Startup {
            let proved = state.startup.prove(answer, &mut state.context);
            state.release_pending();
            self.settle(proved);
        }
    }

    /// A buffer for `count` bytes from the socket. Only as many bytes count as [`received`](Self::received) is told. If
    /// the buffer is shorter than `count`, memory ran out and the connection has failed.
    pub fn input(&mut self, count: usize) -> &mut [u8] {
        let room = self.deframer.input(count);
        if room.len() < count && self.state.phase != Phase::Closed {
            self.state.fail(Failure::new(NO_MEMORY));
        }
        room
    }

    /// Reads `count` bytes from the buffer that [`input`](Self::input) returned; 0 continues with parked input. Stops
    /// at the first event about the current operation, and when many rows are waiting. Returns what the last message
    /// ended, as bits of [`ended`](crate::boundary::ended).
    pub fn received(&mut self, count: usize) -> u32 {
        self.deframer.received(count);
        self.state.context.events.resume();
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

    /// CancelRequest for a second socket; empty until BackendKeyData arrives.
    pub fn cancel_request(&self) -> Vec<u8> {
        self.state.context.cancel_request.clone()
    }

    /// Whether operations are waiting for the login, so that no part of them is in the output.
    pub fn holds_back(&self) -> bool {
        !self.state.pending.is_empty()
    }

    /// The bytes that must be written to the socket.
    pub fn take_output(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.state.context.output)
    }

    /// The finished rows; whole rows only.
    pub fn rows(&mut self) -> &[u8] {
        self.state.context.rows.bytes()
    }

    /// Clears the rows after the caller has taken them.
    pub fn rows_taken(&mut self) {
        self.state.context.rows.clear();
    }

    /// Returns the waiting events, oldest first and one per line, as the JSON of docs/architecture.md.
    pub fn take_events(&mut self) -> String {
        self.state.context.events.take()
    }

    /// The words of the last command's tag, such as `SELECT` or `CREATE TABLE`; empty for an empty query.
    pub fn command(&mut self) -> String {
        self.state.context.events.command()
    }

    /// Number of rows that the last command counted, if it counts any.
    pub fn row_count(&self) -> Option<u64> {
        self.state.context.events.row_count()
    }

    /// The bits of [`status`].
    pub fn status(&self) -> u32 {
        let state = &self.state;
        let Context { output, events, .. } = &state.context;
        let closed = state.phase == Phase::Closed;
        let bit = |is: bool, bit: u32| if is { bit } else { 0 };
        bit(!output.is_empty(), status::OUTPUT)
            | bit(state.context.rows.byte_count() > 0, status::ROWS)
            | bit(!events.is_empty(), status::EVENT)
            | bit(
                events.parked && !closed && self.deframer.unread() > 0,
                status::MORE,
            )
            | bit(state.busy(), status::BUSY)
            | bit(closed, status::CLOSED)
            | bit(
                state.context.rows.byte_count() >= state.flush_bytes,
                status::ROWS_FULL,
            )
    }

    /// Reads messages until the input ends, or until an event or many rows park it.
    fn advance(&mut self) -> Result<(), Failure> {
        let Connection { deframer, state } = self;
        if state.phase == Phase::AwaitTls {
            state.tls_answer(deframer)?;
        }
        // The server sends nothing before StartupMessage. After `S`, such bytes were not encrypted, however late their
        // chunk arrives.
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
