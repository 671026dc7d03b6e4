//! The first run of a statement that has not been described yet: one flight, with values and rows as text.
//!
//! ```text
//! Close S n  [Close …] [prelude …]  Parse n  [Parse c] Bind "" c Execute ""  Describe S n  Bind "" n  Execute ""  Sync
//!   answer:  CloseComplete … [prelude's]   ParseComplete   [ParseComplete] BindComplete CommandComplete
//!            ParameterDescription   RowDescription | NoData   BindComplete   DataRow …   CommandComplete
//!            ReadyForQuery
//! ```
//! After Parse comes a check: a guard statement that fails if the text format could mean something else than the binary
//! format. (JavaScript knows which settings and parameter types matter.) The server then skips the rest, so the
//! statement has not run. Many first runs share a check, and planning it costs the server more than running it. So,
//! where names are safe, the check gets a name at its second use, like any statement, and is only bound from the third
//! use on.
//!
//! Servers that only speak the protocol, and routers, answer Close and the check in their own ways. These answers are
//! accepted, because the answers about the statement itself are PostgreSQL's. The caller is told that the server is
//! odd:
//!
//! ```text
//!   Close:  an error, or nothing, and the flight continues    check:  rows, a description, an error, and it continues
//! ```
//! The first ParameterDescription is the statement's, whatever the answers to the check were. Any other message that is
//! out of place ends the connection: the answers do not suffice to say whether the statement has run.
//!
//! A column may have a type that only the catalog knows. The catalog is asked after this flight. Until then the rows
//! are held as they arrived, up to a limit set by the caller. Beyond the limit they are dropped, and the caller is
//! told.

use super::event::{Event, Events, Part};
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
    /// All answers to the check.
    Check,
    /// An error came in place of CloseComplete (`preceding` still has the Close) or of an answer to the check. The next
    /// message shows whether the server skips to the Sync.
    Refused,
    Parameters,
    Columns,
    Bind,
    Rows,
    /// Like `Rows`, for a statement that returns none.
    NoRows,
    Ready,
}

/// The arguments of a first run.
pub(super) struct Request<'a> {
    /// The caller's number for the statement, used to ask for held rows.
    pub shape: u32,
    pub query: &'a [u8],
    /// The middle of Bind, with text values only.
    pub parameters: &'a [u8],
    /// A statement without rows. If `checks_types` is set, it has one parameter: the query's text.
    pub check: &'a [u8],
    /// The caller's number for the check, equal only for equal text. 0: the check gets no name.
    pub check_shape: u32,
    pub checks_types: bool,
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
    /// The fields of the error that led to [`Step::Refused`].
    refusal: Vec<u8>,
    /// The caller has been told that the server is odd.
    is_odd: bool,
    /// The caller's number for the statement.
    pub shape: u32,
    /// Number of parameter values.
    value_count: usize,
    /// The body of ParameterDescription.
    parameter_types: Vec<u8>,
    /// The body of RowDescription; `None`: the statement returns no rows.
    columns: Option<Vec<u8>>,
    /// The tag of CommandComplete, once it has arrived.
    command_tag: Option<Vec<u8>>,
    /// The sink has been prepared for the columns of the held rows.
    is_planned: bool,
    /// Released rows as whole messages, and how many bytes of them have been written.
    waiting: Option<(Vec<u8>, usize)>,
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
        write_check(request, check, flight, statements)?;
        frontend::describe_statement(flight, NAME)?;
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
            refusal: Vec::new(),
            is_odd: false,
            shape: request.shape,
            value_count: value_count(request.parameters),
            parameter_types: Vec::new(),
            columns: None,
            command_tag: None,
            is_planned: false,
            waiting: None,
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
        if self.step == Step::Refused {
            self.resume(tag, &message, context)?;
        }
        if self.preceding.closes > 0 && message == M::ParseComplete {
            self.odd(context);
            self.preceding.closes = 0;
        }
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
            (Step::Parse, M::ParseComplete) => Step::Check,
            (Step::Check, message) if self.check_answers.answered_by(&message) => {
                if self.check_answers.is_over() {
                    Step::Parameters
                } else {
                    Step::Check
                }
            }
            (Step::Check, M::RowDescription { .. } | M::NoData) if self.runs_check() => {
                self.odd(context);
                Step::Check
            }
            (Step::Check, M::EmptyQueryResponse) if self.runs_check() => {
                self.odd(context);
                Step::Parameters
            }
            (Step::Parameters, M::ParameterDescription { parameters }) => {
                self.parameter_types = parameters.oids.to_vec();
                Step::Columns
            }
            (Step::Columns, M::RowDescription { columns }) => {
                self.columns = Some(columns.body().to_vec());
                self.shape(columns, context)
            }
            (Step::Columns, M::NoData) => self.shape(RowDescription::NONE, context),
            (Step::Bind, M::BindComplete) if self.has_all_values() => self.bound(context),
            (Step::Rows | Step::NoRows, M::CommandComplete { command_tag }) => {
                self.command_tag = Some(command_tag.to_vec());
                Step::Ready
            }
            (Step::NoRows, M::EmptyQueryResponse) => {
                self.command_tag = Some(Vec::new());
                Step::Ready
            }
            _ => return Err(unexpected(tag)),
        })
    }

    /// Decides, by the message after an error in front of the statement, what the error meant.
    fn resume(
        &mut self,
        tag: u8,
        message: &BackendMessage<'_>,
        context: &mut Context,
    ) -> Result<(), Failure> {
        use BackendMessage as M;
        match message {
            M::ReadyForQuery { .. } => self.tell_refusal(context),
            _ if self.preceding.closes > 0 => {
                self.odd(context);
                self.preceding.closes = self.preceding.closes.saturating_sub(1);
                self.step = Step::Parse;
            }
            M::ParameterDescription { .. } => {
                self.odd(context);
                self.step = Step::Parameters;
            }
            // Bind and Execute fail as Parse did.
            M::ErrorResponse { .. } => {}
            _ => {
                self.tell_refusal(context);
                return Err(unexpected(tag));
            }
        }
        Ok(())
    }

    /// Reports the refusal: the server has skipped to the Sync, so nothing has run.
    fn tell_refusal(&mut self, context: &mut Context) {
        let part = match self.preceding.closes {
            0 => Part::Check,
            _ => Part::Close,
        };
        let refusal = core::mem::take(&mut self.refusal);
        context.events.error_before(part, Fields::of(&refusal));
        self.skip();
    }

    /// Whether the answer to the check's Execute is expected.
    fn runs_check(&self) -> bool {
        self.step == Step::Check && self.preceding.is_over() && self.check_answers.preludes == 1
    }

    /// Handles a DataRow where none is expected. The check returns no rows, so a row of the check is dropped.
    pub fn drop_row(&mut self, context: &mut Context) -> Result<(), Failure> {
        if !self.runs_check() {
            return Err(unexpected(b'D'));
        }
        self.odd(context);
        Ok(())
    }

    /// Reports, once, that the server answers as no PostgreSQL does.
    fn odd(&mut self, context: &mut Context) {
        if !self.is_odd {
            self.is_odd = true;
            context.events.push(Event::Odd);
        }
    }

    /// Reports the statement's parameters and columns. Before more is read, the caller may describe types or hold the
    /// rows.
    fn shape(&mut self, columns: RowDescription<'_>, context: &mut Context) -> Step {
        let float_times = context.types.float_times();
        context
            .events
            .shape(&self.parameter_types, columns, float_times);
        Step::Bind
    }

    /// Holds the rows, as long as they have at most `most` bytes.
    pub fn hold(&mut self, most: usize) {
        if self.step == Step::Bind {
            self.sink.hold(most);
        }
    }

    /// Releases the held rows, to be read next. The run is over, and the types of its columns are described as far as
    /// possible.
    pub fn release(&mut self) {
        self.waiting = Some((self.sink.take_held(), 0));
        self.step = Step::Rows;
    }

    /// Whether released rows are next, before any message.
    pub fn is_released(&self) -> bool {
        self.waiting.is_some()
    }

    /// Takes the released rows, after the caller has been told of their columns.
    pub fn take_waiting(&mut self, context: &mut Context) -> (Vec<u8>, usize) {
        // Only once: columns that cannot be read leave no plan, and their rows are dropped.
        if !self.is_planned {
            self.is_planned = true;
            self.plan(context);
        }
        if context.events.parked {
            return (Vec::new(), 0);
        }
        self.waiting.take().unwrap_or_default()
    }

    /// Puts back the last `rest` bytes of the released rows, which could not be written yet. Returns whether the run is
    /// over.
    pub fn wrote(&mut self, rows: Vec<u8>, rest: usize, context: &mut Context) -> bool {
        if rest > 0 {
            let written = rows.len().saturating_sub(rest);
            self.waiting = Some((rows, written));
            return false;
        }
        self.complete(context);
        context.events.ready_again();
        true
    }

    /// Drops the held rows and all later ones.
    pub fn give_up(&mut self, events: &mut Events) {
        self.sink.drop_held();
        self.sink.discard = true;
        events.push(Event::TooManyHeld);
    }

    /// Whether each described parameter has a value. Bind succeeds only then, so otherwise the description must belong
    /// to another statement.
    fn has_all_values(&self) -> bool {
        self.parameter_types.len() / size_of::<u32>() == self.value_count
    }

    /// Handles BindComplete: rows come next, if the statement returns any.
    fn bound(&mut self, context: &mut Context) -> Step {
        if !self.sink.holds() {
            self.plan(context);
        }
        match self.columns {
            Some(_) => Step::Rows,
            None => Step::NoRows,
        }
    }

    /// Prepares the sink for the columns, and reports them.
    fn plan(&mut self, context: &mut Context) {
        let described = self.columns.as_deref();
        let described = described.and_then(|columns| RowDescription::parse(columns).ok());
        let columns = described.unwrap_or(RowDescription::NONE);
        if context.plan(NO_SHAPE, columns, &mut self.sink).is_some() && described.is_some() {
            context.events.push(Event::Columns {
                shape: NO_SHAPE,
                columns,
            });
        }
    }

    fn complete(&mut self, context: &mut Context) {
        if let Some(command_tag) = self.command_tag.take() {
            self.sink.finish(&mut context.rows);
            context.events.note_command(&command_tag);
            context.events.complete();
        }
    }

    /// Handles ReadyForQuery. A run with held rows is not over yet.
    fn ended(&mut self, status: TransactionStatus, context: &mut Context) {
        if !self.sink.holds() {
            self.complete(context);
        }
        context.events.ready(status);
    }

    /// Handles ErrorResponse. The server should now skip to the Sync.
    fn failed(&mut self, fields: Fields<'_>, context: &mut Context) -> Step {
        if self.step == Step::Refused {
            return Step::Refused;
        }
        self.blame(fields.get(b'C'), &mut context.statements);
        // Nothing follows a fatal error.
        if (self.preceding.closes > 0 || self.step == Step::Check) && !fields.are_fatal() {
            self.refusal = fields.body().to_vec();
            return Step::Refused;
        }
        let is_bound = matches!(self.step, Step::Rows | Step::NoRows | Step::Ready);
        if !self.preceding.is_over() {
            context.events.error_before(Part::Prelude, fields);
        } else if self.step == Step::Check {
            context.events.error_before(Part::Check, fields);
        } else if self.step == Step::Parse && self.is_odd {
            // The name may be taken, because it was not closed.
            context.events.error_before(Part::Close, fields);
        } else {
            context.events.error(is_bound, fields);
        }
        self.skip();
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

    fn skip(&mut self) {
        self.step = Step::Ready;
        self.preceding = Preceding::default();
        self.command_tag = None;
        self.sink.drop_held();
        self.sink.discard = true;
    }
}

/// The failure for a message that says too little about the statement: it may have run.
pub(super) fn unexpected(tag: u8) -> Failure {
    Failure::unexpected_for(
        &Reason {
            code: "UNEXPECTED_MESSAGE",
            message: "the server sent a message that has no place in the first run of a statement, which may have \
                taken effect; the connection is closed, and the next ones describe statements first",
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

/// Writes the check, with its one value if it takes any.
fn write_check(
    request: &Request<'_>,
    check: Use,
    flight: &mut Vec<u8>,
    statements: &Statements,
) -> Result<(), TooLong> {
    let mut parameters = Vec::from([0; 4]);
    if request.checks_types {
        let length = u32::try_from(request.query.len()).map_err(|_| TooLong)?;
        parameters = [&[0, 0, 0, 1], &length.to_be_bytes()[..], request.query].concat();
    }
    let name = statements.name(check.number);
    if check.parse {
        frontend::parse_untyped(flight, &name, request.check)?;
    }
    frontend::bind(flight, b"", &name, &parameters, &[0; 2])?;
    frontend::execute(flight, b"", 0)
}
