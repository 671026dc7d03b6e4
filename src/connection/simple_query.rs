//! The simple query protocol: one Query message, any number of results, one ReadyForQuery.
//!
//! ```text
//! Query ─> ( [RowDescription DataRow …] CommandComplete | EmptyQueryResponse )+  ReadyForQuery
//! ```
//! All values come in text format.

use super::event::Event;
use super::extended_query::new_plan;
use super::limits::RowSink;
use super::{Context, Progress};
use crate::encode::RowForm;
use crate::error::Failure;
use crate::protocol::backend::BackendMessage;
use crate::protocol::frontend;
use crate::protocol::writer::TooLong;
use alloc::rc::Rc;
use alloc::vec::Vec;

/// What may come next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The first result.
    First,
    /// A further result, or the end.
    Next,
    Rows,
    CopyIn,
    CopyOut,
    /// After an error: only the end.
    Ready,
}

/// One operation: `simple_query`.
pub(super) struct SimpleQuery {
    pub step: Step,
    format: Option<RowForm>,
    pub sink: RowSink,
}

impl SimpleQuery {
    /// Writes the Query message.
    pub fn new(
        sql: &[u8],
        format: Option<RowForm>,
        sink: RowSink,
        flight: &mut Vec<u8>,
    ) -> Result<Self, TooLong> {
        frontend::query(flight, sql)?;
        Ok(SimpleQuery {
            step: Step::First,
            format,
            sink,
        })
    }

    pub fn receive(
        &mut self,
        tag: u8,
        message: BackendMessage<'_>,
        context: &mut Context,
    ) -> Result<Progress, Failure> {
        use BackendMessage as M;
        self.step = match (self.step, message) {
            (_, M::ErrorResponse { fields }) => {
                context.events.push(Event::Error {
                    bound: true,
                    fields,
                });
                Step::Ready
            }
            (Step::First | Step::Next, M::RowDescription { columns }) => {
                if let Some(format) = self.format {
                    self.sink.plan = new_plan(columns, format, &context.types).ok().map(Rc::new);
                }
                context.events.push(Event::Columns { columns });
                Step::Rows
            }
            (Step::First | Step::Next | Step::Rows, M::CommandComplete { command_tag }) => {
                context.events.push(Event::Complete { command_tag });
                Step::Next
            }
            (Step::First | Step::Next, M::EmptyQueryResponse) => {
                context.events.push(Event::Complete { command_tag: b"" });
                Step::Next
            }
            (Step::First | Step::Next, M::CopyInResponse) => {
                context.refuse_copy_in()?;
                Step::CopyIn
            }
            (Step::First | Step::Next, M::CopyOutResponse) => {
                context.events.push(Event::Copy { direction: "out" });
                Step::CopyOut
            }
            (Step::CopyOut, M::CopyData { .. } | M::CopyDone) => Step::CopyOut,
            (Step::CopyOut, M::CommandComplete { .. }) => Step::Next,
            (Step::Next | Step::Ready, M::ReadyForQuery { status }) => {
                context.events.push(Event::Ready {
                    status: status.letter(),
                });
                return Ok(Progress::Done);
            }
            _ => return Err(Failure::unexpected("simple query", tag)),
        };
        Ok(Progress::Continue)
    }
}
