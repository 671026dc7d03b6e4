//! The state machine of one connection, as its caller sees it. dispatch.rs hands messages on; each conversation has its file.
//!
//! Bytes go in by [`Connection::input`] and [`Connection::received`], out by [`Connection::take_output`]; rows and events wait until they are
//! taken. Nothing here waits, retries or times out: JavaScript does, by the drain rule of docs/architecture.md.
//!
//! ```text
//! phase:  Fresh ─ request_tls ─> AwaitTls ─> Fresh ─ start ─> Startup ─> Ready ─ failure, terminate ─> Closed
//! ```
//! Operations queue: each wrote its flight when it was asked for (or keeps it in `pending` until the server has let us in),
//! so the answers come in the same order, and the front one is the one that is being answered.

mod batch;
mod dispatch;
mod event;
mod extended_query;
pub mod limits;
mod settings;
pub mod simple_query;
mod startup;
pub mod statements;

#[cfg(test)]
mod walk;

use crate::encode::{RowError, RowForm, Types};
use crate::error::Failure;
use crate::protocol::frame::Deframer;
use crate::protocol::frontend;
use crate::protocol::writer::TooLong;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use batch::Batch;
use dispatch::unencrypted_bytes;
use event::{Event, Events};
use extended_query::{ExtendedQuery, Request};
use limits::{Caps, Limit, RowSink, Rows};
pub use settings::{Login, Settings, Status};
use simple_query::{Copy, SimpleQuery};
use startup::Startup;
use statements::Statements;

/// No startup message is longer; libpq refuses above 30,000. It bounds what an impostor can make us keep before it has
/// authenticated.
const STARTUP_MESSAGE_LIMIT: usize = 1 << 16;

/// Linux gives no larger ones (PID_MAX_LIMIT). Poolers make keys of their own, of random bytes (PgBouncer; one in a thousand looks like a
/// server's): behind one, a statement's name may be missing on the next server connection.
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
    /// What runs in front of the next statement.
    prelude: Vec<u8>,
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
}

/// Whether a batch ends with these items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchEnd {
    /// More follow.
    No,
    /// They are the last.
    Last,
    /// Nothing of an atomic one is wanted any more.
    Undo,
}

impl BatchEnd {
    /// As a number, which is how it crosses the boundary.
    pub fn from_code(code: u32) -> BatchEnd {
        match code {
            0 => BatchEnd::No,
            1 => BatchEnd::Last,
            _ => BatchEnd::Undo,
        }
    }
}

/// What a conversation may touch.
struct Context {
    output: Vec<u8>,
    events: Events,
    statements: Statements,
    types: Types,
    /// CancelRequest, when BackendKeyData has come.
    cancel_request: Vec<u8>,
    rows: Rows,
    /// Of the portal that was suspended last, for its further rows.
    suspended: RowSink,
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

    #[cold]
    #[inline(never)]
    fn limit(&mut self, limit: Limit) {
        let Limit {
            limit,
            value,
            observed,
            truncated,
        } = limit;
        self.events.push(Event::Limit {
            limit,
            value,
            observed,
            truncated,
        });
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
        self.events.push(Event::Copy { direction: "in" });
        frontend::copy_fail(&mut self.output, b"COPY FROM STDIN needs a copy call")
    }
}

impl Connection {
    /// Nothing is written yet.
    pub fn new(settings: Settings) -> Self {
        let statements = Statements::new(settings.statement_prefix, settings.statement_cache_size);
        Connection {
            deframer: Deframer::new(STARTUP_MESSAGE_LIMIT.min(settings.max_message_bytes)),
            state: State {
                phase: Phase::Fresh,
                startup: Startup::new(&Login::default()),
                max_message_bytes: settings.max_message_bytes,
                heard: false,
                flush_bytes: usize::MAX,
                prelude: Vec::new(),
                pending: Vec::new(),
                operations: VecDeque::new(),
                context: Context {
                    output: Vec::new(),
                    events: Events::default(),
                    statements,
                    types: Types::default(),
                    cancel_request: Vec::new(),
                    rows: Rows::default(),
                    suspended: RowSink::default(),
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

    /// Writes StartupMessage. Nothing in `login` but its parameters may hold a NUL (the caller has refused it with a better error).
    pub fn start(&mut self, login: &Login<'_>) {
        let state = &mut self.state;
        if state.phase != Phase::Fresh {
            return;
        }
        state.phase = Phase::Startup;
        state.startup = Startup::new(login);
        state.flush_bytes = login.flush_bytes;
        let Context {
            output, statements, ..
        } = &mut state.context;
        if login.options & Login::NAME_FIRST_USE != 0 {
            statements.name_first_use();
        }
        let written =
            frontend::startup_message(output, login.protocol_version, login.parameters.as_bytes());
        self.settle(written);
    }

    /// The answer to a `keyDerivation` event (PBKDF2-HMAC-SHA-256 of the password, 32 bytes) or an `md5` event (the text of
    /// PasswordMessage, 35 characters). At any other time, or in another length, it is dropped.
    pub fn prove(&mut self, answer: &[u8]) {
        let state = &mut self.state;
        if state.phase == Phase::Startup {
            let proved = state.startup.prove(answer, &mut state.context);
            state.release_pending();
            self.settle(proved);
        }
    }

    /// Room for `count` bytes from the socket; only the bytes count that [`received`](Self::received) names.
    pub fn input(&mut self, count: usize) -> &mut [u8] {
        self.deframer.input(count)
    }

    /// `count` bytes stand in the room that [`input`](Self::input) gave; 0 goes on with parked input. Stops at the first event about the
    /// current operation.
    pub fn received(&mut self, count: usize) {
        self.deframer.received(count);
        self.state.context.events.parked = false;
        if let Err(failure) = self.advance() {
            self.state.fail(failure);
        }
        if self.state.phase == Phase::Closed {
            self.deframer.clear();
        }
    }

    /// Learns the parameter types and columns of `sql`: a `shape` event. `shape`, where it is not 0: the statement stays prepared for it.
    pub fn describe(&mut self, sql: &str, shape: u32) {
        self.operate(|flight, statements| {
            ExtendedQuery::describe(sql.as_bytes(), shape, flight, statements)
                .map(Operation::Extended)
        });
    }

    /// Describes the database's own types; those of before are gone.
    pub fn define_types(&mut self, types: Types) {
        let context = &mut self.state.context;
        context.types = types;
        context.statements.forget_plans();
    }

    /// The format to ask for: 1 where there is a decoder.
    pub fn result_format(&self, type_oid: u32) -> u32 {
        self.state.context.types.has_binary_encoder(type_oid).into()
    }

    /// Runs `sql`. `shape`: the caller's number for it, equal only for equal SQL and types; `parameters`: the middle of Bind;
    /// `format`: `None` counts rows without encoding them. `columns_known`: the columns of the last `columns` event for the shape need no repeating.
    #[allow(
        clippy::too_many_arguments,
        reason = "it is one message's worth of arguments, and a struct would cross the boundary badly"
    )]
    pub fn execute(
        &mut self,
        shape: u32,
        sql: &str,
        parameter_types: &[u32],
        result_formats: &[u8],
        parameters: &[u8],
        format: Option<RowForm>,
        columns_known: bool,
        caps: Caps,
    ) {
        let prelude = core::mem::take(&mut self.state.prelude);
        let request = Request {
            prelude: &prelude,
            shape,
            sql: sql.as_bytes(),
            parameter_types,
            result_formats,
            parameters,
            format,
            columns_known,
        };
        self.operate(|flight, statements| {
            ExtendedQuery::execute(&request, RowSink::new(caps), flight, statements)
                .map(Operation::Extended)
        });
    }

    /// Runs `sql` in front of the next [`execute`](Self::execute), in its flight: the server skips that where `sql` fails.
    pub fn prelude(&mut self, sql: &str) {
        self.state.prelude = sql.as_bytes().to_vec();
    }

    /// More rows of the portal that was left by [`execute`](Self::execute) with [`Caps::fetch`], when that operation is over. The caps count on.
    pub fn fetch(&mut self) {
        let sink = core::mem::take(&mut self.state.context.suspended);
        self.operate(|flight, statements| {
            ExtendedQuery::fetch(sink, flight, statements).map(Operation::Extended)
        });
    }

    /// Closes that portal.
    pub fn close_portal(&mut self) {
        self.operate(|flight, statements| {
            ExtendedQuery::close_portal(flight, statements).map(Operation::Extended)
        });
    }

    /// Runs any number of statements by the simple query protocol; `copy`: one of them is this COPY.
    pub fn simple_query(&mut self, sql: &str, copy: Copy, format: Option<RowForm>, caps: Caps) {
        self.operate(|flight, _| {
            SimpleQuery::new(sql.as_bytes(), copy, format, RowSink::new(caps), flight)
                .map(Operation::Simple)
        });
    }

    /// The header for so many bytes of data for COPY FROM STDIN, which has asked for them (a `copy` event); they follow it. Nothing when it does not
    /// ask any more.
    pub fn copy_data(&mut self, length: u32) {
        let State {
            phase,
            operations,
            context,
            ..
        } = &mut self.state;
        if *phase == Phase::Ready
            && let Some(Operation::Simple(operation)) = operations.front()
            && operation.takes_data()
        {
            frontend::copy_data_header(&mut context.output, length);
        }
    }

    /// All data have been sent; or there will be no more, for this reason.
    pub fn copy_end(&mut self, reason: Option<&str>) {
        let State {
            phase,
            operations,
            context,
            ..
        } = &mut self.state;
        if *phase == Phase::Ready
            && let Some(Operation::Simple(operation)) = operations.front_mut()
        {
            let written = operation.end_data(reason.map(str::as_bytes), &mut context.output);
            self.settle(written);
        }
    }

    /// Begins a batch, whose statements and items follow. `isolated`: each item in a transaction of its own.
    pub fn batch(&mut self, isolated: bool, format: Option<RowForm>, caps: Caps) {
        self.operate(|_, _| {
            Ok(Operation::Batch(Batch::new(
                isolated,
                format,
                RowSink::new(caps),
            )))
        });
    }

    /// A statement of the batch; its number there.
    pub fn batch_statement(
        &mut self,
        shape: u32,
        sql: &str,
        parameter_types: &[u32],
        result_formats: &[u8],
    ) -> usize {
        let State {
            operations,
            context,
            ..
        } = &mut self.state;
        let statements = &mut context.statements;
        match operations.back_mut() {
            Some(Operation::Batch(batch)) => batch.statement(
                shape,
                sql.as_bytes(),
                parameter_types,
                result_formats,
                statements,
            ),
            _ => 0,
        }
    }

    /// Executions of the batch, as [`Batch::add`] reads them.
    pub fn batch_items(&mut self, items: &[u8], end: BatchEnd) {
        let State {
            operations,
            context,
            pending,
            prelude,
            ..
        } = &mut self.state;
        let Some(Operation::Batch(batch)) = operations.back_mut() else {
            return;
        };
        let prelude = core::mem::take(prelude);
        let mut written = batch.add(items, &prelude, pending, &mut context.statements);
        if end != BatchEnd::No && written.is_ok() {
            written = batch.end(end == BatchEnd::Undo, pending);
        }
        self.state.release_pending();
        self.settle(written);
    }

    /// Drops the shape's named statement; its Close rides in front of the next flight.
    pub fn forget(&mut self, shape: u32) {
        self.state.context.statements.forget(shape);
    }

    /// Rows of the current operation are no longer wanted: those that wait are dropped, those that come are read and dropped.
    pub fn discard(&mut self) {
        self.copy_end(Some("the call was cancelled"));
        self.state.context.rows.clear();
        if let Some(sink) = self.state.operations.front_mut().map(Operation::sink) {
            sink.discard = true;
        }
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

    /// The next event, oldest first, as the JSON of docs/architecture.md. UTF-8 as far as the server sent UTF-8.
    pub fn next_event(&mut self) -> Option<Vec<u8>> {
        self.state.context.events.pop()
    }

    /// Bits of [`Status`].
    pub fn status(&self) -> u32 {
        let state = &self.state;
        let Context { output, events, .. } = &state.context;
        let closed = state.phase == Phase::Closed;
        let bit = |is: bool, bit: u32| if is { bit } else { 0 };
        bit(!output.is_empty(), Status::OUTPUT)
            | bit(state.context.rows.byte_count() > 0, Status::ROWS)
            | bit(!events.is_empty(), Status::EVENT)
            | bit(
                events.parked && !closed && self.deframer.unread() > 0,
                Status::MORE,
            )
            | bit(state.busy(), Status::BUSY)
            | bit(closed, Status::CLOSED)
            | bit(
                state.context.rows.byte_count() >= state.flush_bytes,
                Status::ROWS_FULL,
            )
    }

    /// Reads messages until the input ends or an event parks.
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
        while !state.context.events.parked && matches!(state.phase, Phase::Startup | Phase::Ready) {
            let frame = match deframer.next_frame() {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(error) => return Err(state.frame_error(error)),
            };
            state.frame(frame)?;
            if state.phase == Phase::Ready {
                deframer.set_limit(state.max_message_bytes);
            }
        }
        Ok(())
    }

    /// Queues what `write` made, whose flight leaves at once or when the server has let us in.
    fn operate(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>, &mut Statements) -> Result<Operation, TooLong>,
    ) {
        let state = &mut self.state;
        if state.phase == Phase::Closed {
            return;
        }
        let start = state.pending.len();
        let operation = write(&mut state.pending, &mut state.context.statements);
        state.queue(operation, start);
    }

    fn settle<E: Into<Failure>>(&mut self, result: Result<(), E>) {
        if let Err(error) = result {
            self.state.fail(error.into());
        }
    }
}
