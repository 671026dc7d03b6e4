//! The commands of a session. Each makes an operation, whose flight is sent at once or as soon as the login allows it.
//!
//! Knows the conversations' beginnings and the queue. Must not know messages of the server.

use super::batch::Batch;
use super::caps::Caps;
use super::extended_query::{ExtendedQuery, Request};
use super::first_run::{self, FirstRun};
use super::limits::RowSink;
use super::simple_query::{Copy, SimpleQuery};
use super::statements::Statements;
use super::{Connection, Operation, Phase, State};
use crate::boundary::batch as codes;
use crate::encode::{RowForm, Types};
use crate::protocol::frontend::{self, Statement};
use crate::protocol::writer::TooLong;
use alloc::vec::Vec;

/// The caller's description of a first run.
#[derive(Debug, Clone, Copy)]
pub struct FirstRequest<'a> {
    /// The caller's number for the statement.
    pub shape: u32,
    /// Text of the statement.
    pub query: &'a str,
    /// The middle of Bind: values as text.
    pub parameters: &'a [u8],
    /// A guard statement that fails if the text format could mean something else than the binary format, or if types of
    /// the columns must be looked up.
    pub check: &'a str,
    /// The caller's number for the check, equal only for equal text. 0: the check is not cached.
    pub check_shape: u32,
}

/// A statement that has been described, and values for it.
#[derive(Debug, Clone, Copy)]
pub struct ExecuteRequest<'a> {
    /// The caller's number for the statement, equal only for equal SQL and types; 0 if it is not cached.
    pub shape: u32,
    /// The form that [`Statement`] reads.
    pub statement: &'a [u8],
    /// The middle of Bind.
    pub parameters: &'a [u8],
    /// The caller has kept the last `columns` event of the shape, so another is sent only on a change.
    pub columns_known: bool,
    /// The server parses the statement for this run: names in it mean what they mean now.
    pub parse_anew: bool,
}

/// Whether a batch ends after these items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchEnd {
    /// More items follow.
    No,
    /// These items are the last.
    Last,
    /// The caller has given up an atomic batch: the server must undo it.
    Undo,
}

impl BatchEnd {
    /// Converts the number of one of the [`codes`].
    pub fn from_code(code: u32) -> BatchEnd {
        match code {
            codes::CONTINUES => BatchEnd::No,
            codes::ENDS => BatchEnd::Last,
            _ => BatchEnd::Undo,
        }
    }
}

impl Connection {
    /// Requests the parameter types and columns of `sql`, which arrive as a `shape` event. If `shape` is not 0, the
    /// statement stays prepared under it.
    pub fn describe(&mut self, sql: &str, shape: u32) {
        let preludes = core::mem::take(&mut self.state.preludes);
        self.operate(|flight, statements| {
            ExtendedQuery::describe(sql.as_bytes(), shape, &preludes, flight, statements)
                .map(Operation::Extended)
        });
    }

    /// Describes the database's own types, and replaces all earlier descriptions.
    pub fn define_types(&mut self, types: Types) {
        let context = &mut self.state.context;
        context.types = types.with_float_times(context.types.float_times());
        context.plans.clear();
    }

    /// Called if the server has not reported `integer_datetimes` as `on`, as PostgreSQL does since version 10:
    /// it may send times as seconds in a float8. From now on the text format is requested where that would matter, and
    /// the binary format is refused.
    pub fn float_times(&mut self) {
        let context = &mut self.state.context;
        context.types = core::mem::take(&mut context.types).with_float_times(true);
        context.plans.clear();
    }

    /// Called when an observer listens for notices. Until then only the one with 25P01 becomes an event.
    pub fn want_notices(&mut self) {
        self.state.wants_notices = true;
    }

    /// The result format to request for a type: 1 (binary) if there is a decoder.
    pub fn result_format(&self, type_oid: u32) -> u32 {
        self.state.context.types.has_binary_encoder(type_oid).into()
    }

    /// Runs a statement. `format`: `None` counts rows without encoding them.
    pub fn execute(&mut self, request: &ExecuteRequest<'_>, format: Option<RowForm>, caps: Caps) {
        let preludes = core::mem::take(&mut self.state.preludes);
        let request = Request {
            preludes: &preludes,
            shape: request.shape,
            statement: Statement::new(request.statement),
            parameters: request.parameters,
            columns_known: request.columns_known,
            parse_anew: request.parse_anew,
        };
        self.operate(|flight, statements| {
            ExtendedQuery::execute(&request, RowSink::new(format, caps), flight, statements)
                .map(Operation::Extended)
        });
    }

    /// Runs a statement that has not been described yet, with values and rows as text. A `shape` event arrives before
    /// its rows.
    pub fn first_run(&mut self, request: &FirstRequest<'_>, format: Option<RowForm>, caps: Caps) {
        let preludes = core::mem::take(&mut self.state.preludes);
        let request = first_run::Request {
            shape: request.shape,
            query: request.query.as_bytes(),
            parameters: request.parameters,
            check: request.check.as_bytes(),
            check_shape: request.check_shape,
            preludes: &preludes,
        };
        self.operate(|flight, statements| {
            FirstRun::new(&request, RowSink::new(format, caps), flight, statements)
                .map(Operation::FirstRun)
        });
    }

    /// Runs `sql`, a statement without parameters or rows, in front of the next statement, in the same flight and after
    /// earlier preludes. If `sql` fails, the server skips the rest of the flight. In a batch of isolated items, `sql`
    /// runs in front of each item.
    pub fn prelude(&mut self, sql: &str) {
        self.state.preludes.push(sql.as_bytes().to_vec());
    }

    /// Fetches more rows of the portal that [`execute`](Self::execute) left open with [`Caps::fetch`], after that
    /// operation is over. The caps continue to count.
    pub fn fetch(&mut self) {
        let sink = core::mem::take(&mut self.state.context.suspended);
        self.operate(|flight, statements| {
            ExtendedQuery::fetch(sink, flight, statements).map(Operation::Extended)
        });
    }

    /// Closes the portal that [`execute`](Self::execute) left open.
    pub fn close_portal(&mut self) {
        self.operate(|flight, statements| {
            ExtendedQuery::close_portal(flight, statements).map(Operation::Extended)
        });
    }

    /// Runs any number of statements by the simple query protocol. `copy`: the COPY that is one of them.
    pub fn simple_query(&mut self, sql: &str, copy: Copy, format: Option<RowForm>, caps: Caps) {
        self.operate(|flight, _| {
            SimpleQuery::new(sql.as_bytes(), copy, RowSink::new(format, caps), flight)
                .map(Operation::Simple)
        });
    }

    /// Writes the CopyData header for `length` bytes of COPY FROM STDIN, after the server asked for them (a `copy`
    /// event). The caller sends the bytes after it. Writes nothing if the server no longer asks for data.
    pub fn copy_data(&mut self, length: u32) {
        if let Some((operation, output)) = self.copying()
            && operation.takes_data()
        {
            frontend::copy_data_header(output, length);
        }
    }

    /// Ends the data: all have been sent or, with a `reason`, no more will come.
    pub fn copy_end(&mut self, reason: Option<&str>) {
        if let Some((operation, output)) = self.copying() {
            let written = operation.end_data(reason.map(str::as_bytes), output);
            self.settle(written);
        }
    }

    /// The statement whose data may be sent now, and the output they are written to.
    fn copying(&mut self) -> Option<(&mut SimpleQuery, &mut Vec<u8>)> {
        let State {
            phase,
            operations,
            context,
            ..
        } = &mut self.state;
        match operations.front_mut() {
            Some(Operation::Simple(operation)) if *phase == Phase::Ready => {
                Some((operation, &mut context.output))
            }
            _ => None,
        }
    }

    /// Begins a batch, whose statements and items follow. `isolated`: each item runs in its own transaction.
    pub fn batch(&mut self, isolated: bool, format: Option<RowForm>, caps: Caps) {
        let preludes = core::mem::take(&mut self.state.preludes);
        self.operate(|_, _| {
            let sink = RowSink::new(format, caps);
            Ok(Operation::Batch(Batch::new(isolated, preludes, sink)))
        });
    }

    /// Adds a statement, in the form that [`Statement`] reads, to the batch. Returns its number there.
    pub fn batch_statement(&mut self, shape: u32, statement: &[u8]) -> usize {
        let State {
            operations,
            context,
            ..
        } = &mut self.state;
        let Some(Operation::Batch(batch)) = operations.back_mut() else {
            return 0;
        };
        let statement = Statement::new(statement);
        let number = batch.statement(shape, statement, &mut context.statements);
        number.unwrap_or_else(|error| {
            self.state.fail(error.into());
            0
        })
    }

    /// Adds executions to the batch, in the form that [`Batch::add`] reads.
    pub fn batch_items(&mut self, items: &[u8], end: BatchEnd) {
        let State {
            operations,
            context,
            pending,
            ..
        } = &mut self.state;
        let Some(Operation::Batch(batch)) = operations.back_mut() else {
            return;
        };
        let mut written = batch.add(items, pending, &mut context.statements);
        if end != BatchEnd::No && written.is_ok() {
            written = batch.end(end == BatchEnd::Undo, pending);
        }
        self.state.release_pending();
        self.settle(written);
    }

    /// Drops the shape's named statement. Its Close is sent at the start of the next flight.
    pub fn forget(&mut self, shape: u32) {
        self.state.context.statements.forget(shape);
    }

    /// Discards rows of the current operation: waiting rows are dropped, and later rows are read and dropped.
    pub fn discard(&mut self) {
        self.copy_end(Some("the call was cancelled"));
        self.state.context.rows.clear();
        if let Some(sink) = self.state.operations.front_mut().map(Operation::sink) {
            sink.discard = true;
        }
    }

    /// Queues the operation that `write` makes. Its flight is sent at once or as soon as the login allows it.
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
}
