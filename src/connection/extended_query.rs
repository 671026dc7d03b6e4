//! The extended query protocol: one statement, described or executed, as one flight that ends in Sync.
//!
//! ```text
//! describe:  [Close …]         [prelude …]  Parse n        Describe S n                              Sync
//!   answer:  [CloseComplete …] [prelude's]  ParseComplete  ParameterDescription  RowDescription | NoData
//!            ReadyForQuery
//! execute:   [Close …]         [prelude …]  [Parse n]        Bind "" n     Describe P ""
//!   answer:  [CloseComplete …] [prelude's]  [ParseComplete]  BindComplete  RowDescription | NoData
//!                                                          Execute ""                 Sync
//!                                                          DataRow … CommandComplete  ReadyForQuery
//! ```
//! A prelude is a statement that must run first, such as BEGIN. If it fails, the server skips the rest.
//!
//! ```text
//! prelude:   Parse ""  Bind "" ""  Execute ""
//!   answer:  ParseComplete  BindComplete  CommandComplete
//! ```
//! With a row limit, Execute leaves its portal open. The portal has a name and lives until the transaction ends:
//!
//! ```text
//! execute:   … Bind portal n   Describe P portal   Execute portal rows   Sync
//! fetch:     Execute portal rows   Sync
//!   answer:  DataRow …  PortalSuspended | CommandComplete   ReadyForQuery
//! close:     Close P portal   Sync
//!   answer:  CloseComplete   ReadyForQuery
//! ```
//! An ErrorResponse may arrive anywhere; the server then skips to the Sync. It may even follow CommandComplete: a
//! deferred constraint fails when Sync commits.

use super::event::{CopyDirection, Event, Part};
use super::limits::RowSink;
use super::statements::{Statements, Use};
use super::{Context, Progress};
use crate::error::Failure;
use crate::protocol::backend::{BackendMessage, RowDescription, TransactionStatus};
use crate::protocol::fields::Fields;
use crate::protocol::frontend::{self, Statement};
use crate::protocol::writer::TooLong;
use alloc::vec::Vec;

/// The answer that is expected next. `Copy…`: the statement was COPY and is being refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    DescribeParse,
    Parse,
    Parameters,
    Columns,
    Bind,
    PortalColumns,
    Rows,
    /// Like `Rows`, for a statement that returns none.
    NoRows,
    CopyIn,
    CopyOut,
    Ready,
}

/// The arguments of an execution.
pub(super) struct Request<'a> {
    /// 0: the statement never gets a name.
    pub shape: u32,
    pub statement: Statement<'a>,
    pub parameters: &'a [u8],
    /// Statements without parameters or rows that run in front of this one.
    pub preludes: &'a [Vec<u8>],
    /// The caller has kept the columns that it last received for this shape.
    pub columns_known: bool,
    /// The server parses the statement for this run. A name would let it, or a pooler, use an earlier parse.
    pub parse_anew: bool,
}

/// One operation: `describe` or `execute`.
pub(super) struct ExtendedQuery {
    pub step: Step,
    pub preceding: Preceding,
    shape: u32,
    reference: Use,
    columns_known: bool,
    /// The body of ParameterDescription.
    parameter_types: Vec<u8>,
    /// The command is complete; the caller is told at ReadyForQuery.
    complete: bool,
    pub sink: RowSink,
}

impl ExtendedQuery {
    /// Writes the flight that learns a statement's types. If `shape` is not 0, the statement is prepared under a name
    /// and kept for `shape`.
    pub fn describe(
        sql: &[u8],
        shape: u32,
        preludes: &[Vec<u8>],
        flight: &mut Vec<u8>,
        statements: &mut Statements,
    ) -> Result<Self, TooLong> {
        let reference = match shape {
            0 => Use::UNNAMED,
            shape => statements.touch_beside(shape, 0),
        };
        let preceding = Preceding::write(flight, statements, preludes)?;
        let name = statements.name(reference.number);
        let mut step = Step::Parameters;
        if reference.parse {
            frontend::parse_untyped(flight, &name, sql)?;
            step = Step::DescribeParse;
        }
        frontend::describe_statement(flight, &name)?;
        frontend::sync(flight)?;
        Ok(ExtendedQuery {
            preceding,
            shape,
            reference,
            ..Self::new(step, RowSink::default())
        })
    }

    /// Writes the flight that runs a statement.
    pub fn execute(
        request: &Request<'_>,
        sink: RowSink,
        flight: &mut Vec<u8>,
        statements: &mut Statements,
    ) -> Result<Self, TooLong> {
        let reference = match request.shape {
            0 => Use::UNNAMED,
            _ if request.parse_anew => Use::UNNAMED,
            shape => statements.touch(shape),
        };
        let preceding = Preceding::write(flight, statements, request.preludes)?;
        let name = statements.name(reference.number);
        let mut step = Step::Bind;
        if reference.parse {
            frontend::parse(flight, &name, request.statement.query_and_types)?;
            step = Step::Parse;
        }
        let maximum_rows = sink.maximum_rows();
        let portal = match maximum_rows {
            0 => Vec::new(),
            _ => statements.open_portal(),
        };
        let result_formats = request.statement.result_formats;
        frontend::bind(flight, &portal, &name, request.parameters, result_formats)?;
        frontend::describe_portal(flight, &portal)?;
        frontend::execute(flight, &portal, maximum_rows)?;
        frontend::sync(flight)?;
        Ok(ExtendedQuery {
            preceding,
            shape: request.shape,
            reference,
            columns_known: request.columns_known,
            ..Self::new(step, sink)
        })
    }

    /// Writes the flight that fetches more rows of the suspended portal. `sink`: the portal's sink.
    pub fn fetch(
        sink: RowSink,
        flight: &mut Vec<u8>,
        statements: &Statements,
    ) -> Result<Self, TooLong> {
        frontend::execute(flight, &statements.portal(), sink.maximum_rows())?;
        frontend::sync(flight)?;
        Ok(Self::new(Step::Rows, sink))
    }

    /// Writes the flight that closes the portal.
    pub fn close_portal(flight: &mut Vec<u8>, statements: &Statements) -> Result<Self, TooLong> {
        frontend::close_portal(flight, &statements.portal())?;
        frontend::sync(flight)?;
        Ok(ExtendedQuery {
            preceding: Preceding::CLOSE,
            ..Self::new(Step::Ready, RowSink::default())
        })
    }

    fn new(step: Step, sink: RowSink) -> Self {
        ExtendedQuery {
            step,
            preceding: Preceding::default(),
            shape: 0,
            reference: Use::UNNAMED,
            columns_known: false,
            parameter_types: Vec::new(),
            complete: false,
            sink,
        }
    }

    #[inline(never)] // see State::dispatch
    pub fn receive(
        &mut self,
        tag: u8,
        message: BackendMessage<'_>,
        context: &mut Context,
    ) -> Result<Progress, Failure> {
        use BackendMessage as M;
        if self.preceding.answered_by(&message) {
            return Ok(Progress::Continue);
        }
        self.step = match message {
            M::ErrorResponse { fields } => self.failed(fields, context),
            _ if !self.preceding.is_over() => {
                return Err(Failure::unexpected("extended query", tag));
            }
            M::ReadyForQuery { status } if self.step == Step::Ready => {
                self.ended(status, context);
                return Ok(Progress::Done);
            }
            message => self.next(tag, message, context)?,
        };
        Ok(Progress::Continue)
    }

    /// The step after each answer that is neither an error nor the end.
    fn next(
        &mut self,
        tag: u8,
        message: BackendMessage<'_>,
        context: &mut Context,
    ) -> Result<Step, Failure> {
        use BackendMessage as M;
        Ok(match (self.step, message) {
            (Step::DescribeParse, M::ParseComplete) => Step::Parameters,
            (Step::Parse, M::ParseComplete) => Step::Bind,
            (Step::Parameters, M::ParameterDescription { parameters }) => {
                self.parameter_types = parameters.oids.to_vec();
                Step::Columns
            }
            (Step::Columns, M::RowDescription { columns }) => self.shape(Some(columns), context),
            (Step::Columns, M::NoData) => self.shape(None, context),
            (Step::Bind, M::BindComplete) => Step::PortalColumns,
            (Step::PortalColumns, M::RowDescription { columns }) => {
                self.portal_columns(columns, context)
            }
            (Step::PortalColumns, M::NoData) => {
                context.plan(self.shape, RowDescription::NONE, &mut self.sink);
                Step::NoRows
            }
            (Step::Rows | Step::NoRows, M::CommandComplete { command_tag }) => {
                self.completed(command_tag, context)
            }
            (Step::Rows, M::PortalSuspended) if self.sink.maximum_rows() != 0 => {
                self.suspended(context)
            }
            (Step::NoRows, M::EmptyQueryResponse) => self.completed(b"", context),
            (Step::NoRows, M::CopyInResponse) => refuse_copy_in(context)?,
            (Step::NoRows, M::CopyOutResponse) => drop_copy_out(context),
            (Step::CopyOut, M::CopyData { .. } | M::CopyDone) => Step::CopyOut,
            (Step::CopyOut, M::CommandComplete { .. }) => Step::Ready,
            _ => return Err(Failure::unexpected("extended query", tag)),
        })
    }

    /// Ends a describe: reports the columns, if there are any, and the parameter types.
    fn shape(&mut self, columns: Option<RowDescription<'_>>, context: &mut Context) -> Step {
        context.described = columns.map_or(Vec::new(), |columns| columns.body().to_vec());
        let columns = columns.unwrap_or(RowDescription::NONE);
        let float_times = context.types.float_times();
        context
            .events
            .shape(&self.parameter_types, columns, float_times);
        Step::Ready
    }

    /// Takes the columns of the rows that follow. The caller is told unless it already has them.
    fn portal_columns(&mut self, columns: RowDescription<'_>, context: &mut Context) -> Step {
        let shape = self.shape;
        let known = context.plan(shape, columns, &mut self.sink);
        if known.is_some_and(|same| !(same && self.columns_known)) {
            context.events.push(Event::Columns { shape, columns });
        }
        Step::Rows
    }

    fn suspended(&mut self, context: &mut Context) -> Step {
        context.events.push(Event::Suspended);
        context.suspended = core::mem::take(&mut self.sink);
        Step::Ready
    }

    /// Notes the end of the command. A pipelined COMMIT has no shape: its completion is reported at once, since
    /// ReadyForQuery may never arrive.
    fn completed(&mut self, command_tag: &[u8], context: &mut Context) -> Step {
        context.events.note_command(command_tag);
        if self.shape == 0 {
            context.events.complete();
        }
        self.complete = self.shape != 0;
        Step::Ready
    }

    /// Handles ReadyForQuery: ends the rows, and reports the command.
    fn ended(&mut self, status: TransactionStatus, context: &mut Context) {
        self.sink.finish(&mut context.rows);
        if self.complete {
            context.events.complete();
        }
        context.events.ready(status);
    }

    /// Handles an error: the server skips to the Sync, including any remaining Closes and preludes.
    fn failed(&mut self, fields: Fields<'_>, context: &mut Context) -> Step {
        self.blame(fields.get(b'C'), &mut context.statements);
        if self.preceding.is_over() {
            context.events.error(self.is_bound(), fields);
        } else {
            context.events.error_before(Part::Prelude, fields);
        }
        self.preceding = Preceding::default();
        self.sink.discard = true;
        Step::Ready
    }

    /// Learns from the error whether the statement's name exists on the server.
    fn blame(&self, code: Option<&[u8]>, statements: &mut Statements) {
        if matches!(self.step, Step::DescribeParse | Step::Parse) {
            statements.parse_failed(self.reference.number);
        }
        // The name may also be missing because an earlier Parse of the same pipeline failed.
        if !self.reference.parse
            && matches!(self.step, Step::Bind | Step::Parameters)
            && code == Some(b"26000")
            && statements.knows(self.reference.number)
        {
            statements.names_are_unsafe();
        }
    }

    /// Whether the server has bound the statement, so some of it may have run.
    fn is_bound(&self) -> bool {
        !matches!(
            self.step,
            Step::DescribeParse | Step::Parse | Step::Parameters | Step::Columns | Step::Bind
        )
    }
}

/// Refuses COPY FROM STDIN. In copy-in mode the server has swallowed our Sync, so CopyFail needs a new Sync after it.
fn refuse_copy_in(context: &mut Context) -> Result<Step, Failure> {
    context.refuse_copy_in()?;
    frontend::sync(&mut context.output)?;
    Ok(Step::CopyIn)
}

/// Drops the data of COPY TO STDOUT, which cannot be refused.
fn drop_copy_out(context: &mut Context) -> Step {
    context.events.push(Event::Copy {
        direction: CopyDirection::Out,
    });
    Step::CopyOut
}

/// Writes Parse, Bind and Execute of a statement without parameters, whose rows are not used.
fn write_unseen(flight: &mut Vec<u8>, sql: &[u8]) -> Result<(), TooLong> {
    frontend::parse_untyped(flight, b"", sql)?;
    frontend::bind(flight, b"", b"", &[0; 4], &[0; 2])?;
    frontend::execute(flight, b"", 0)
}

/// The messages of a flight that come before the statement and are answered first: Closes, then preludes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Preceding {
    /// CloseComplete messages still expected.
    pub closes: usize,
    /// Messages expected after those: [`ANSWERS`] for each prelude.
    pub preludes: usize,
    /// The next prelude is BEGIN, and no other statement may have run in its place. (QuestDB runs a statement after
    /// BEGIN twice.)
    pub begins: bool,
}

/// Number of answers to a prelude: ParseComplete, BindComplete, CommandComplete.
const ANSWERS: usize = 3;

impl Preceding {
    /// A single Close.
    const CLOSE: Preceding = Preceding {
        closes: 1,
        preludes: 0,
        begins: false,
    };
    /// A single prelude.
    pub const PRELUDE: Preceding = Preceding {
        closes: 0,
        preludes: ANSWERS,
        begins: false,
    };
    /// A single prelude that is already prepared: its first answer is BindComplete.
    pub const BOUND: Preceding = Preceding {
        closes: 0,
        preludes: ANSWERS - 1,
        begins: false,
    };

    /// Writes Closes for the statements that the cache has evicted, then the preludes.
    pub fn write(
        flight: &mut Vec<u8>,
        statements: &mut Statements,
        preludes: &[Vec<u8>],
    ) -> Result<Self, TooLong> {
        let closing = statements.take_closing();
        for number in &closing {
            frontend::close_statement(flight, &statements.name(*number))?;
        }
        Ok(Preceding {
            closes: closing.len(),
            ..Self::write_preludes(flight, preludes)?
        })
    }

    /// The same with one more Close in front.
    pub fn after_close(self) -> Self {
        Preceding {
            closes: self.closes.saturating_add(1),
            ..self
        }
    }

    /// Writes statements without parameters, whose rows are not used.
    pub fn write_preludes(flight: &mut Vec<u8>, preludes: &[Vec<u8>]) -> Result<Self, TooLong> {
        for sql in preludes {
            write_unseen(flight, sql)?;
        }
        Ok(Preceding {
            closes: 0,
            preludes: ANSWERS * preludes.len(),
            begins: preludes
                .first()
                .is_some_and(|first| first.starts_with(b"BEGIN")),
        })
    }

    /// Whether `message` is the answer that is expected next; if so, counts it.
    pub fn answered_by(&mut self, message: &BackendMessage<'_>) -> bool {
        use BackendMessage as M;
        let Preceding {
            closes,
            preludes,
            begins,
        } = self;
        match (*closes, *preludes % ANSWERS, message) {
            (1.., _, M::CloseComplete) => *closes = closes.saturating_sub(1),
            (0, 0, M::ParseComplete) if *preludes > 0 => *preludes = preludes.saturating_sub(1),
            (0, 2, M::BindComplete) => *preludes = preludes.saturating_sub(1),
            (0, 1, M::CommandComplete { command_tag }) if !*begins || *command_tag == b"BEGIN" => {
                *preludes = preludes.saturating_sub(1);
                *begins = false;
            }
            _ => return false,
        }
        true
    }

    /// Whether everything is answered, so the execution's own answers are next.
    pub fn is_over(&self) -> bool {
        *self == Preceding::default()
    }
}
