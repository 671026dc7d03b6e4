//! A batch: many executions in one pipeline, of statements that are parsed once.
//!
//! ```text
//! item:      [Close …] [prelude …] [Parse n]  Bind "" n  [Describe P ""]  Execute ""
//!   answer:  [CloseComplete …] [prelude's]   [ParseComplete] BindComplete [RowDescription | NoData] DataRow …
//!            CommandComplete
//!
//! atomic:    item item … item Sync             an error undoes the earlier items, and the server skips the rest
//! isolated:  item Sync  item Sync  … item Sync   each is its own transaction
//! ```
//! Items may be added while answers arrive, so a batch of any size needs no more memory than its window. [`Batch::end`]
//! writes the last Sync. One event reports many items: all that finished before another kind of event, before the
//! columns change, or up to a maximum. An event per item would cost more than the item.

use super::event::{Event, Events, Part};
use super::extended_query::Preceding;
use super::limits::RowSink;
use super::outcomes::Outcomes;
use super::statements::Statements;
use super::{Context, Progress};
use crate::encode::{Plan, RowForm};
use crate::error::{Failure, Reason};
use crate::protocol::backend::{BackendMessage, RowDescription};
use crate::protocol::fields::Fields;
use crate::protocol::frontend;
use crate::protocol::writer::TooLong;
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec::Vec;

/// The answer that is expected next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// None: no item is waiting, and no Sync has been written.
    Idle,
    Parse,
    Bind,
    PortalColumns,
    /// Rows of the first item, or its end; the item may have no rows.
    Rows,
    Ready,
}

/// What may still be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writing {
    /// The first item, with Closes and preludes in front.
    First,
    Items,
    /// Only the last Sync, after an error in an atomic batch.
    LastSync,
    Nothing,
}

/// Whether the server has a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parsed {
    No,
    /// Parse has been written.
    Asked,
    Yes,
}

/// What is known about a statement's columns.
enum Columns {
    Unknown,
    /// Describe has been written.
    Asked,
    Known {
        /// The body that `plan` was made from.
        row_description: Vec<u8>,
        plan: Rc<Plan>,
    },
}

/// A statement of the batch.
struct Statement {
    shape: u32,
    /// The whole Parse message.
    parse: Vec<u8>,
    result_formats: Vec<u8>,
    /// The number of its name; 0: unnamed.
    number: u32,
    name: Vec<u8>,
    /// For an unnamed statement: whether it was ever parsed.
    parsed: Parsed,
    columns: Columns,
}

impl Statement {
    fn plan(&self) -> Option<Rc<Plan>> {
        match &self.columns {
            Columns::Known { plan, .. } => Some(plan.clone()),
            Columns::Unknown | Columns::Asked => None,
        }
    }

    fn was_described_as(&self, columns: RowDescription<'_>) -> bool {
        matches!(&self.columns, Columns::Known { row_description, .. } if row_description == columns.body())
    }
}

/// An execution that has not been answered completely.
struct Item {
    statement: usize,
    preceding: Preceding,
    parse: bool,
    describe: bool,
}

/// One operation: `batch`.
pub(super) struct Batch {
    pub step: Step,
    /// Whether a Sync follows each item.
    isolated: bool,
    /// Run in front of each isolated item, else of the first item only: their effect may end at a Sync.
    preludes: Vec<Vec<u8>>,
    writing: Writing,
    statements: Vec<Statement>,
    /// The statement that is the server's unnamed statement now.
    unnamed: Option<usize>,
    /// The pending items, in the order of their answers.
    items: VecDeque<Item>,
    outcomes: Outcomes,
    /// The statement whose rows the sink takes.
    current: usize,
    /// Rows or bytes that were output before the first item.
    counted: u64,
    pub sink: RowSink,
}

impl Batch {
    pub fn new(isolated: bool, preludes: Vec<Vec<u8>>, sink: RowSink) -> Self {
        Batch {
            step: Step::Idle,
            isolated,
            preludes,
            writing: Writing::First,
            statements: Vec::new(),
            unnamed: None,
            items: VecDeque::new(),
            outcomes: Outcomes::default(),
            current: usize::MAX,
            counted: 0,
            sink,
        }
    }

    /// Adds a statement for later items, and returns its number. At most as many statements get a name as the cache
    /// holds, so that none of them evicts another.
    pub fn statement(
        &mut self,
        shape: u32,
        statement: frontend::Statement<'_>,
        statements: &mut Statements,
    ) -> Result<usize, TooLong> {
        let number = self.statements.len();
        let reference = statements.touch_beside(shape, number);
        let name = statements.name(reference.number);
        let mut parse = Vec::new();
        frontend::parse(&mut parse, &name, statement.query_and_types)?;
        self.statements.push(Statement {
            shape,
            parse,
            result_formats: statement.result_formats.to_vec(),
            number: reference.number,
            name,
            parsed: if reference.parse {
                Parsed::No
            } else {
                Parsed::Yes
            },
            columns: Columns::Unknown,
        });
        Ok(number)
    }

    /// Writes executions. `items` has for each execution the number of its statement, the length of what follows (both
    /// int32, big-endian) and the middle of Bind. Anything else would be our own bug, and is dropped.
    pub fn add(
        &mut self,
        mut items: &[u8],
        flight: &mut Vec<u8>,
        statements: &mut Statements,
    ) -> Result<(), TooLong> {
        while let Some((statement, rest)) = items.split_first_chunk()
            && let Some((length, rest)) = rest.split_first_chunk()
            && let Some((parameters, rest)) =
                rest.split_at_checked(u32::from_be_bytes(*length) as usize)
        {
            let statement = u32::from_be_bytes(*statement) as usize;
            if matches!(self.writing, Writing::First | Writing::Items) {
                self.item(statement, parameters, flight, statements)?;
            }
            items = rest;
        }
        Ok(())
    }

    fn item(
        &mut self,
        number: usize,
        parameters: &[u8],
        flight: &mut Vec<u8>,
        statements: &mut Statements,
    ) -> Result<(), TooLong> {
        let Some(statement) = self.statements.get_mut(number) else {
            return Ok(());
        };
        let first = self.items.is_empty() && self.step == Step::Idle;
        if self.isolated && !first {
            frontend::sync(flight)?;
        }
        // Closes are written only in front of the first item: later, the batch itself may use a statement that others
        // have given up meanwhile.
        let preceding = match self.writing {
            Writing::First => Preceding::write(flight, statements, &self.preludes)?,
            _ if self.isolated => Preceding::write_preludes(flight, &self.preludes)?,
            _ => Preceding::default(),
        };
        self.writing = Writing::Items;
        let name = &statement.name;
        // Behind a pooler another server may answer the next Sync.
        let parse = match name.is_empty() {
            true => self.isolated || self.unnamed != Some(number),
            false => statement.parsed == Parsed::No,
        };
        if parse {
            flight.extend_from_slice(&statement.parse);
            if statement.parsed == Parsed::No {
                statement.parsed = Parsed::Asked;
            }
            if name.is_empty() {
                self.unnamed = Some(number);
            }
        }
        frontend::bind(flight, b"", name, parameters, &statement.result_formats)?;
        // An isolated item may fail before its columns arrive, and the next item needs them.
        let is_asked = !matches!(statement.columns, Columns::Unknown);
        let describe = self.sink.format.is_some() && (self.isolated || !is_asked);
        if describe {
            frontend::describe_portal(flight, b"")?;
        }
        if describe && !is_asked {
            statement.columns = Columns::Asked;
        }
        frontend::execute(flight, b"", 0)?;
        self.items.push_back(Item {
            statement: number,
            preceding,
            parse,
            describe,
        });
        if first {
            self.begin_item();
        }
        Ok(())
    }

    /// Writes the last Sync. `undo`: an atomic batch was given up after a part of it was sent. A Sync alone would
    /// commit that part, so Execute of a portal that does not exist makes the server undo it.
    pub fn end(&mut self, undo: bool, flight: &mut Vec<u8>) -> Result<(), TooLong> {
        if self.writing == Writing::Nothing {
            return Ok(());
        }
        self.writing = Writing::Nothing;
        if undo && !self.isolated {
            frontend::execute(flight, b"no more", 0)?;
        }
        if self.step == Step::Idle {
            self.step = Step::Ready;
        }
        frontend::sync(flight)
    }

    /// The answers that must come before the first item's own, for the walk over all states.
    #[cfg(test)]
    pub fn awaits(&self) -> (usize, usize) {
        self.items.front().map_or((0, 0), |item| {
            (item.preceding.closes, item.preceding.preludes)
        })
    }

    #[cfg(test)]
    pub fn has_items(&self) -> bool {
        !self.items.is_empty()
    }

    #[inline(never)] // see State::dispatch
    pub fn receive(
        &mut self,
        tag: u8,
        message: BackendMessage<'_>,
        context: &mut Context,
    ) -> Result<Progress, Failure> {
        use BackendMessage as M;
        if let M::ErrorResponse { fields } = message {
            self.error(fields, context);
            return Ok(Progress::Continue);
        }
        // At Ready the first item is the next one, whose answers follow ReadyForQuery.
        if self.step != Step::Ready
            && let Some(item) = self.items.front_mut()
        {
            if item.preceding.answered_by(&message) {
                return Ok(Progress::Continue);
            }
            if !item.preceding.is_over() {
                return Err(Failure::unexpected("batch", tag));
            }
        }
        match (self.step, message) {
            (Step::Parse, M::ParseComplete) => {
                if let Some(statement) = self.front() {
                    statement.parsed = Parsed::Yes;
                }
                self.step = Step::Bind;
            }
            (Step::Bind, M::BindComplete) => {
                if self.items.front().is_some_and(|item| item.describe) {
                    self.step = Step::PortalColumns;
                } else {
                    self.rows(context);
                }
            }
            (Step::PortalColumns, M::RowDescription { columns }) => self.columns(columns, context),
            (Step::PortalColumns, M::NoData) => {
                self.sink.plan = None;
                self.step = Step::Rows;
            }
            (Step::Rows, M::CommandComplete { command_tag }) => self.complete(command_tag, context),
            (Step::Rows, M::EmptyQueryResponse) => self.complete(b"", context),
            (
                Step::PortalColumns | Step::Rows,
                M::CopyInResponse | M::CopyOutResponse | M::CopyBothResponse,
            ) => {
                return Err(Failure::new(&Reason {
                    code: "COPY_IN_BATCH",
                    message: "COPY with data has no place in a batch; the connection is closed",
                }));
            }
            (Step::Ready, M::ReadyForQuery { .. }) if !self.items.is_empty() => {
                self.next_item(context);
            }
            (Step::Ready, M::ReadyForQuery { status }) if self.writing == Writing::Nothing => {
                self.forget_unparsed(&mut context.statements);
                self.sink.finish(&mut context.rows);
                self.tell(&mut context.events);
                context.events.ready(status);
                return Ok(Progress::Done);
            }
            _ => return Err(Failure::unexpected("batch", tag)),
        }
        Ok(Progress::Continue)
    }

    fn error(&mut self, fields: Fields<'_>, context: &mut Context) {
        let bound = matches!(self.step, Step::PortalColumns | Step::Rows | Step::Ready);
        let is_ahead = self.step != Step::Ready
            && self
                .items
                .front()
                .is_some_and(|item| !item.preceding.is_over());
        self.failed(fields.get(b'C'), &mut context.statements);
        self.tell(&mut context.events);
        if is_ahead {
            context.events.error_before(Part::Prelude, fields);
        } else {
            context.events.error(bound, fields);
        }
    }

    /// The first item's statement.
    fn front(&mut self) -> Option<&mut Statement> {
        let number = self.items.front()?.statement;
        self.statements.get_mut(number)
    }

    fn begin_item(&mut self) {
        self.counted = self.count();
        self.step = match self.items.front() {
            Some(item) if item.parse => Step::Parse,
            Some(_) => Step::Bind,
            None if self.writing == Writing::Nothing => Step::Ready,
            None => Step::Idle,
        };
    }

    /// Rows if they become values, else bytes: the measure by which the output is cut into items.
    fn count(&self) -> u64 {
        match self.sink.format {
            Some(form) if !form.is_columns() => self.sink.bytes(),
            _ => self.sink.rows(),
        }
    }

    fn columns(&mut self, columns: RowDescription<'_>, context: &mut Context) {
        let number = self.items.front().map_or(0, |item| item.statement);
        let Some(statement) = self.statements.get_mut(number) else {
            return;
        };
        if statement.was_described_as(columns) {
            return self.rows(context);
        }
        self.step = Step::Rows;
        let shape = statement.shape;
        if context.plan(shape, columns, &mut self.sink).is_some()
            && let Some(plan) = self.sink.plan.clone()
        {
            statement.columns = Columns::Known {
                row_description: columns.body().to_vec(),
                plan,
            };
            self.current = number;
            self.tell(&mut context.events);
            context.events.push(Event::Columns { shape, columns });
        }
    }

    /// Expects rows of known columns. Values of other columns must have been taken before.
    fn rows(&mut self, context: &mut Context) {
        self.step = Step::Rows;
        self.sink.plan = self.front().and_then(|statement| statement.plan());
        let number = self.items.front().map_or(0, |item| item.statement);
        let is_columns = self.sink.format.is_some_and(RowForm::is_columns);
        if is_columns && self.sink.plan.is_some() && self.current != number {
            self.current = number;
            self.tell(&mut context.events);
            context.events.push(Event::Switch { statement: number });
        }
    }

    fn complete(&mut self, command_tag: &[u8], context: &mut Context) {
        let counted = self.count().saturating_sub(self.counted);
        self.outcomes.complete(command_tag, counted);
        self.items.pop_front();
        if self.isolated {
            self.step = Step::Ready;
        } else {
            self.next_item(context);
        }
    }

    /// Begins the next item. The outcomes of the earlier items are final.
    fn next_item(&mut self, context: &mut Context) {
        if self.outcomes.are_many() {
            self.tell(&mut context.events);
        }
        self.begin_item();
    }

    /// Handles an error: the server skips to the next Sync.
    fn failed(&mut self, code: Option<&[u8]>, statements: &mut Statements) {
        let step = self.step;
        let counted = self.count().saturating_sub(self.counted);
        // At its Sync the item was already complete, but its transaction could not be committed.
        if step == Step::Ready && self.isolated {
            self.outcomes.drop_last();
        }
        self.outcomes.failed(counted);
        self.step = Step::Ready;
        if step != Step::Ready {
            if let Some(statement) = self.front() {
                if step == Step::Parse && statement.parsed == Parsed::Asked {
                    statement.parsed = Parsed::No;
                }
                // The name may also be missing because an earlier Parse failed.
                if (step, code) == (Step::Bind, Some(b"26000")) && statement.parsed == Parsed::Yes {
                    statements.names_are_unsafe();
                }
            }
            self.items.pop_front();
        }
        if !self.isolated {
            self.items.clear();
            if self.writing != Writing::Nothing {
                self.writing = Writing::LastSync;
            }
        }
    }

    /// Forgets statements whose Parse was skipped or failed: they do not exist on the server.
    fn forget_unparsed(&self, statements: &mut Statements) {
        for statement in &self.statements {
            if statement.parsed != Parsed::Yes {
                statements.parse_failed(statement.number);
            }
        }
    }

    /// Reports the outcomes of items since the last report.
    fn tell(&mut self, events: &mut Events) {
        if !self.outcomes.is_empty() {
            events.push(self.outcomes.event());
            self.outcomes = Outcomes::default();
        }
    }
}
