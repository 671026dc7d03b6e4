//! What the caller may ask of a session: each command makes an operation, whose flight leaves at once or when the
//! server has let us in.
//!
//! Knows the conversations' beginnings and the queue. Must not know messages of the server.

use super::batch::Batch;
use super::extended_query::{ExtendedQuery, Request};
use super::first_run::{self, FirstRun};
use super::limits::{Caps, RowSink};
use super::simple_query::{Copy, SimpleQuery};
use super::statements::Statements;
use super::{Connection, Operation, Phase, State};
use crate::boundary::batch as codes;
use crate::encode::{RowForm, Types};
use crate::protocol::frontend::{self, Statement};
use crate::protocol::writer::TooLong;
use alloc::vec::Vec;

/// What the caller says of a first run.
#[derive(Debug, Clone, Copy)]
pub struct FirstRequest<'a> {
    /// The caller's number for it, by which it asks for rows that are held.
    pub shape: u32,
    /// Its text.
    pub query: &'a str,
    /// The middle of Bind: values as text.
    pub parameters: &'a [u8],
    /// A statement that fails where text would not mean what binary does.
    pub check: &'a str,
    /// The caller's number for the check, equal only for equal text; 0: it is not kept.
    pub check_shape: u32,
    /// The check has a parameter, the query's text.
    pub checks_types: bool,
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
    /// From its number among [`codes`].
    pub fn from_code(code: u32) -> BatchEnd {
        match code {
            codes::CONTINUES => BatchEnd::No,
            codes::ENDS => BatchEnd::Last,
            _ => BatchEnd::Undo,
        }
    }
}

impl Connection {
    /// Learns the parameter types and columns of `sql`: a `shape` event. `shape`, where it is not 0: the statement
    /// stays prepared for it.
    pub fn describe(&mut self, sql: &str, shape: u32) {
        let preludes = core::mem::take(&mut self.state.preludes);
        self.operate(|flight, statements| {
            ExtendedQuery::describe(sql.as_bytes(), shape, &preludes, flight, statements)
                .map(Operation::Extended)
        });
    }

    /// Describes the database's own types; those of before are gone.
    pub fn define_types(&mut self, types: Types) {
        let context = &mut self.state.context;
        context.types = types.with_float_times(context.types.float_times());
        context.plans.clear();
    }

    /// The server has not reported `integer_datetimes` as `on`, as every PostgreSQL from 10 on does: it may write times
    /// as seconds, a float8. From now on text is asked for where that would show, and binary refused.
    pub fn float_times(&mut self) {
        let context = &mut self.state.context;
        context.types = core::mem::take(&mut context.types).with_float_times(true);
        context.plans.clear();
    }

    /// The format to ask for: 1 where there is a decoder.
    pub fn result_format(&self, type_oid: u32) -> u32 {
        self.state.context.types.has_binary_encoder(type_oid).into()
    }

    /// Runs a statement, given as [`Statement`] reads it. `shape`: the caller's number for it, equal only for equal SQL
    /// and types, 0 for one that is not kept; `parameters`: the middle of Bind; `format`: `None` counts rows without
    /// encoding them. `columns_known`: the columns of the last `columns` event for the shape hold until another comes.
    pub fn execute(
        &mut self,
        shape: u32,
        statement: &[u8],
        parameters: &[u8],
        format: Option<RowForm>,
        columns_known: bool,
        caps: Caps,
    ) {
        let preludes = core::mem::take(&mut self.state.preludes);
        let request = Request {
            preludes: &preludes,
            shape,
            statement: Statement::new(statement),
            parameters,
            columns_known,
        };
        self.operate(|flight, statements| {
            ExtendedQuery::execute(&request, RowSink::new(format, caps), flight, statements)
                .map(Operation::Extended)
        });
    }

    /// Runs a statement that nobody has described, with values and rows as text: a `shape` event comes before its rows.
    pub fn first_run(&mut self, request: &FirstRequest<'_>, format: Option<RowForm>, caps: Caps) {
        let preludes = core::mem::take(&mut self.state.preludes);
        let request = first_run::Request {
            shape: request.shape,
            query: request.query.as_bytes(),
            parameters: request.parameters,
            check: request.check.as_bytes(),
            check_shape: request.check_shape,
            checks_types: request.checks_types,
            preludes: &preludes,
        };
        self.operate(|flight, statements| {
            FirstRun::new(&request, RowSink::new(format, caps), flight, statements)
                .map(Operation::FirstRun)
        });
    }

    /// The rows of the first run that has just told its shape wait for [`release`](Self::release), as long as they have
    /// no more than `most` bytes.
    pub fn hold(&mut self, most: usize) {
        if let Some(Operation::FirstRun(operation)) = self.state.operations.front_mut() {
            operation.hold(most);
        }
    }

    /// The types of these rows, whose run is over, are described as far as they can be: they are written by an
    /// operation of their own, without a flight.
    pub fn release(&mut self, shape: u32) {
        let State {
            operations,
            context,
            ..
        } = &mut self.state;
        if let Some(at) = context.held.iter().position(|held| held.shape == shape) {
            let mut operation = context.held.swap_remove(at);
            operation.release();
            operations.push_back(Operation::FirstRun(operation));
        }
        // They are next, perhaps: then `receive(0)` writes them.
        context.events.parked = true;
    }

    /// Nobody wants the rows of this first run any more.
    pub fn drop_held(&mut self, shape: u32) {
        self.state.context.held.retain(|held| held.shape != shape);
    }

    /// Runs `sql`, a statement without parameters or rows, in front of the next statement, in its flight and behind
    /// earlier preludes: the server skips what follows where `sql` fails. In a batch of isolated items in front of
    /// each.
    pub fn prelude(&mut self, sql: &str) {
        self.state.preludes.push(sql.as_bytes().to_vec());
    }

    /// More rows of the portal that was left by [`execute`](Self::execute) with [`Caps::fetch`], when that operation is
    /// over. The caps count on.
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
            SimpleQuery::new(sql.as_bytes(), copy, RowSink::new(format, caps), flight)
                .map(Operation::Simple)
        });
    }

    /// The header for so many bytes of data for COPY FROM STDIN, which has asked for them (a `copy` event); they follow
    /// it. Nothing when it does not ask any more.
    pub fn copy_data(&mut self, length: u32) {
        if let Some((operation, output)) = self.copying()
            && operation.takes_data()
        {
            frontend::copy_data_header(output, length);
        }
    }

    /// All data have been sent; or there will be no more, for this reason.
    pub fn copy_end(&mut self, reason: Option<&str>) {
        if let Some((operation, output)) = self.copying() {
            let written = operation.end_data(reason.map(str::as_bytes), output);
            self.settle(written);
        }
    }

    /// The statement whose data may travel now, and where they go.
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

    /// Begins a batch, whose statements and items follow. `isolated`: each item in a transaction of its own.
    pub fn batch(&mut self, isolated: bool, format: Option<RowForm>, caps: Caps) {
        let preludes = core::mem::take(&mut self.state.preludes);
        self.operate(|_, _| {
            let sink = RowSink::new(format, caps);
            Ok(Operation::Batch(Batch::new(isolated, preludes, sink)))
        });
    }

    /// A statement of the batch, given as [`Statement`] reads it; its number there.
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

    /// Executions of the batch, as [`Batch::add`] reads them.
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

    /// Drops the shape's named statement; its Close rides in front of the next flight.
    pub fn forget(&mut self, shape: u32) {
        self.state.context.statements.forget(shape);
    }

    /// Rows of the current operation are no longer wanted: those that wait are dropped, those that come are read and
    /// dropped.
    pub fn discard(&mut self) {
        self.copy_end(Some("the call was cancelled"));
        self.state.context.rows.clear();
        if let Some(sink) = self.state.operations.front_mut().map(Operation::sink) {
            sink.discard = true;
            sink.drop_held();
        }
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
}
