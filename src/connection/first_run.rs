//! The first run of a statement that has not been described yet: one flight, with values and rows as text.
//!
//! ```text
//! Close S n  [Close …] [prelude …]  Parse n  Describe S n  [Parse c] Bind "" c Execute ""  Bind "" n  Execute ""  Sync
//!   answer:  CloseComplete … [prelude's]   ParseComplete   ParameterDescription   RowDescription | NoData
//!            [ParseComplete] BindComplete CommandComplete   BindComplete   DataRow …   CommandComplete
//!            ReadyForQuery
//! ```
//! After Describe comes a check: a guard statement that fails if the text format could mean something else than the
//! binary format, or if types of the columns must be looked up before a row can be read. (JavaScript knows which
//! settings and types matter.) The server then skips the rest, so the statement has not run, and it is already
//! described. Many first runs share a check, and planning it costs the server more than running it. So, where names are
//! safe, the check gets a name at its second use, like any statement, and is only bound from the third use on.
//!
//! A message that is out of place ends the connection: the whole flight has arrived, so a server that is not PostgreSQL
//! may run the statement whatever it has answered before.

use super::event::{Event, Part};
use super::extended_query::Preceding;
use super::limits::RowSink;
use super::statements::{Statements, Use};
use super::{Context, Progress};
use crate::error::{Failure, Reason};
use crate::protocol::backend::{BackendMessage, RowDescription, TransactionStatus};
use crate::protocol::fields::Fields;
use crate::protocol::frontend;
use crate::protocol::writer::TooLong;
use alloc::vec::Vec;

/// The statement's name, since the check may use the unnamed statement. All clients use the same name, and the flight
/// starts with Close. So behind a pooler at most one such statement remains on a server connection, and the next first
/// run there closes it. A Close after the run would come too late for PgBouncer (1.21 to 1.25): it answers Close
/// itself, and does so in the middle of a CommandComplete that reached it in two pieces.
const NAME: &[u8] = b"pgz_first_run";

/// No plan is cached for a first run: its columns are read as text only once.
const NO_SHAPE: u32 = 0;

/// The answer that is expected next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Parse,
    Parameters,
    Columns,
    /// All answers to the check.
    Check,
    Bind,
    Rows,
    /// Like `Rows`, for a statement that returns none.
    NoRows,
    Ready,
}

/// The arguments of a first run.
pub(super) struct Request<'a> {
    /// The caller's number for the statement.
    pub shape: u32,
    pub query: &'a [u8],
    /// The middle of Bind, with text values only.
    pub parameters: &'a [u8],
    /// A statement without parameters or rows.
    pub check: &'a [u8],
    /// The caller's number for the check, equal only for equal text. 0: the check gets no name.
    pub check_shape: u32,
    /// Statements without parameters that run in front of the statement; may be empty.
    pub preludes: &'a [Vec<u8>],
}

/// One operation.
pub(super) struct FirstRun {
    pub step: Step,
    pub preceding: Preceding,
    /// How the flight refers to the check.
    check: Use,
    /// The answers to the check that are still expected.
    pub check_answers: Preceding,
    /// Number of parameter values.
    value_count: usize,
    /// The body of ParameterDescription.
    parameter_types: Vec<u8>,
    /// The body of RowDescription; `None`: the statement returns no rows.
    columns: Option<Vec<u8>>,
    /// The command is complete; the caller is told at ReadyForQuery.
    complete: bool,
    pub sink: RowSink,
}

impl FirstRun {
    /// Writes the flight.
    pub fn new(
        request: &Request<'_>,
        sink: RowSink,
        flight: &mut Vec<u8>,
        statements: &mut Statements,
    ) -> Result<Self, TooLong> {
        frontend::close_statement(flight, NAME)?;
        let check = match request.check_shape {
            0 => Use::UNNAMED,
            shape => statements.touch(shape),
        };
        let preceding = Preceding::write(flight, statements, request.preludes)?.after_close();
        statements.note_use(request.shape);
        frontend::parse_untyped(flight, NAME, request.query)?;
        frontend::describe_statement(flight, NAME)?;
        write_check(request.check, check, flight, statements)?;
        frontend::bind(flight, b"", NAME, request.parameters, &[0; 2])?;
        frontend::execute(flight, b"", 0)?;
        frontend::sync(flight)?;
        Ok(FirstRun {
            step: Step::Parse,
            preceding,
            check,
            check_answers: match check.parse {
                true => Preceding::PRELUDE,
                false => Preceding::BOUND,
            },
            value_count: value_count(request.parameters),
            parameter_types: Vec::new(),
            columns: None,
            complete: false,
            sink,
        })
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
            _ if !self.preceding.is_over() => return Err(unexpected(tag)),
            M::ReadyForQuery { status } if self.step == Step::Ready => {
                self.ended(status, context);
                return Ok(Progress::Done);
            }
            message => self.next(tag, message, context)?,
        };
        Ok(Progress::Continue)
    }

    fn next(
        &mut self,
        tag: u8,
        message: BackendMessage<'_>,
        context: &mut Context,
    ) -> Result<Step, Failure> {
        use BackendMessage as M;
        Ok(match (self.step, message) {
            (Step::Parse, M::ParseComplete) => Step::Parameters,
            (Step::Parameters, M::ParameterDescription { parameters }) => {
                self.parameter_types = parameters.oids.to_vec();
                Step::Columns
            }
            (Step::Columns, M::RowDescription { columns }) => {
                self.columns = Some(columns.body().to_vec());
                self.shape(columns, context)
            }
            (Step::Columns, M::NoData) => self.shape(RowDescription::NONE, context),
            (Step::Check, message) if self.check_answers.answered_by(&message) => {
                if self.check_answers.is_over() {
                    Step::Bind
                } else {
                    Step::Check
                }
            }
            (Step::Bind, M::BindComplete) if self.has_all_values() => self.bound(context),
            (Step::Rows | Step::NoRows, M::CommandComplete { command_tag }) => {
                self.completed(command_tag, context)
            }
            _ => return Err(unexpected(tag)),
        })
    }

    /// Reports the statement's parameters and columns. Before more is read, the caller may describe types.
    fn shape(&mut self, columns: RowDescription<'_>, context: &mut Context) -> Step {
        let float_times = context.types.float_times();
        context
            .events
            .shape(&self.parameter_types, columns, float_times);
        Step::Check
    }

    /// Whether each described parameter has a value. Bind succeeds only then, so otherwise the description is that of
    /// another statement.
    fn has_all_values(&self) -> bool {
        self.parameter_types.len() / size_of::<u32>() == self.value_count
    }

    /// Handles BindComplete: rows come next, if the statement returns any. Prepares the sink for the columns, and
    /// reports them.
    fn bound(&mut self, context: &mut Context) -> Step {
        let described = self.columns.as_deref();
        let described = described.and_then(|columns| RowDescription::parse(columns).ok());
        let columns = described.unwrap_or(RowDescription::NONE);
        let is_planned = context.plan(NO_SHAPE, columns, &mut self.sink).is_some();
        if described.is_none() {
            return Step::NoRows;
        }
        if is_planned {
            context.events.push(Event::Columns {
                shape: NO_SHAPE,
                columns,
            });
        }
        Step::Rows
    }

    fn completed(&mut self, command_tag: &[u8], context: &mut Context) -> Step {
        context.events.note_command(command_tag);
        self.complete = true;
        Step::Ready
    }

    /// Handles ReadyForQuery: ends the rows, and reports the command.
    fn ended(&mut self, status: TransactionStatus, context: &mut Context) {
        if self.complete {
            self.sink.finish(&mut context.rows);
            context.events.complete();
        }
        context.events.ready(status);
    }

    /// Handles ErrorResponse: the server skips to the Sync.
    fn failed(&mut self, fields: Fields<'_>, context: &mut Context) -> Step {
        self.blame(fields.get(b'C'), &mut context.statements);
        if !self.preceding.is_over() {
            context.events.error_before(Part::Prelude, fields);
        } else if self.step == Step::Check {
            context.events.error_before(Part::Check, fields);
        } else {
            let is_bound = matches!(self.step, Step::Rows | Step::NoRows | Step::Ready);
            context.events.error(is_bound, fields);
        }
        self.preceding = Preceding::default();
        self.complete = false;
        self.sink.discard = true;
        Step::Ready
    }

    /// Learns from the error whether the check's name exists on the server.
    fn blame(&self, code: Option<&[u8]>, statements: &mut Statements) {
        let Use { number, parse } = self.check;
        if parse && self.check_answers == Preceding::PRELUDE {
            statements.parse_failed(number);
        }
        // The name may also be missing because an earlier flight did not get to its Parse.
        if !parse
            && self.step == Step::Check
            && self.check_answers == Preceding::BOUND
            && code == Some(b"26000")
            && statements.knows(number)
        {
            statements.names_are_unsafe();
        }
    }
}

/// The failure for a message that says too little about the statement: it may have run.
pub(super) fn unexpected(tag: u8) -> Failure {
    Failure::unexpected_for(
        &Reason {
            code: "UNEXPECTED_MESSAGE",
            message: "the server sent a message that has no place in the first run of a statement, which may have \
                taken effect; the connection is closed; for a server that is not PostgreSQL, set firstRun: \"describe\"",
        },
        "first run",
        tag,
    )
}

/// Number of values in the middle of Bind, which begins with the number of format codes: none, since all are text.
fn value_count(parameters: &[u8]) -> usize {
    match parameters {
        [0, 0, high, low, ..] => usize::from(u16::from_be_bytes([*high, *low])),
        _ => 0,
    }
}

/// Writes the check.
fn write_check(
    check: &[u8],
    reference: Use,
    flight: &mut Vec<u8>,
    statements: &Statements,
) -> Result<(), TooLong> {
    let name = statements.name(reference.number);
    if reference.parse {
        frontend::parse_untyped(flight, &name, check)?;
    }
    frontend::bind(flight, b"", &name, &[0; 4], &[0; 2])?;
    frontend::execute(flight, b"", 0)
}
