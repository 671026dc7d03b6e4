//! The simple query protocol: one Query message, any number of results, one ReadyForQuery.
//!
//! ```text
//! Query ─> ( [RowDescription DataRow …] CommandComplete | EmptyQueryResponse )+  ReadyForQuery
//! ```
//! All values arrive in text format. A value that the session's settings print in a form we cannot parse stays the
//! server's text. COPY uses this protocol too, in calls made for COPY:
//!
//! ```text
//! COPY FROM STDIN ─> CopyInResponse  CopyData … CopyDone | CopyFail ─> CommandComplete | ErrorResponse  ReadyForQuery
//! COPY TO STDOUT  ─> CopyOutResponse CopyData … CopyDone CommandComplete  ReadyForQuery
//! ```
//! The server sends one row per CopyData. In binary format each is a DataRow's body, except that a header comes before
//! the first row and `-1` after the last. The server may refuse our data at any time; it drops whatever we still send
//! until we know.

use super::event::{CopyDirection, Event};
use super::limits::{Arriving, RowSink, Rows};
use super::{Context, Progress};
use crate::boundary::copy as codes;
use crate::error::{Failure, Reason};
use crate::protocol::backend::BackendMessage;
use crate::protocol::frame::{Frames, Part};
use crate::protocol::frontend;
use crate::protocol::writer::TooLong;
use alloc::vec::Vec;

/// What may arrive next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The first result.
    First,
    /// A further result, or the end.
    Next,
    Rows,
    /// COPY FROM STDIN waits for our data.
    CopyIn,
    /// COPY FROM STDIN has received all data, or has been refused.
    CopyInDone,
    /// COPY TO STDOUT. Its data belongs to this call only if the call was made for such a COPY.
    CopyOut,
    /// Only the end, after an error.
    Ready,
}

/// The COPY that a call is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copy {
    /// None: a COPY is refused.
    No,
    /// Data goes to the server, once.
    In,
    /// Data is passed through unchanged.
    Out,
    /// Rows arrive in binary and are encoded with the columns that were described last.
    Rows,
}

impl Copy {
    /// Converts the number of one of the [`codes`].
    pub fn from_code(code: u32) -> Copy {
        match code {
            codes::IN => Copy::In,
            codes::OUT => Copy::Out,
            codes::ROWS => Copy::Rows,
            _ => Copy::No,
        }
    }
}

const BINARY_SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";

/// One operation: `simple_query`.
pub(super) struct SimpleQuery {
    pub step: Step,
    copy: Copy,
    /// The server has asked for our data.
    is_asked: bool,
    /// The header of binary data has arrived: rows follow.
    has_header: bool,
    pub sink: RowSink,
}

impl SimpleQuery {
    /// Writes the Query message.
    pub fn new(
        sql: &[u8],
        copy: Copy,
        mut sink: RowSink,
        flight: &mut Vec<u8>,
    ) -> Result<Self, TooLong> {
        // Users may have set any DateStyle.
        sink.keeps_unread = true;
        sink.raw = copy == Copy::Out;
        frontend::query(flight, sql)?;
        Ok(SimpleQuery {
            step: Step::First,
            copy,
            is_asked: false,
            has_header: false,
            sink,
        })
    }

    /// Whether the server has asked for our data; for the walk over all states.
    #[cfg(test)]
    pub fn has_data(&self) -> bool {
        self.copy == Copy::In && self.is_asked
    }

    /// Whether the server is waiting for our data.
    pub fn takes_data(&self) -> bool {
        self.step == Step::CopyIn && self.is_asked
    }

    /// Writes the end of the data: CopyFail if there is a reason, else CopyDone.
    pub fn end_data(&mut self, reason: Option<&[u8]>, output: &mut Vec<u8>) -> Result<(), TooLong> {
        if !self.takes_data() {
            return Ok(());
        }
        self.step = Step::CopyInDone;
        match reason {
            Some(reason) => frontend::copy_fail(output, reason),
            None => frontend::copy_done(output),
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
        self.step = match (self.step, message) {
            (_, M::ErrorResponse { fields }) => {
                context.events.error(true, fields);
                Step::Ready
            }
            (Step::First | Step::Next, M::RowDescription { columns }) => {
                self.sink.is_copied = false;
                if context.plan(0, columns, &mut self.sink).is_some() {
                    context.events.push(Event::Columns { shape: 0, columns });
                }
                Step::Rows
            }
            (step, M::CommandComplete { command_tag }) if self.may_complete() => {
                if step != Step::CopyOut || matches!(self.copy, Copy::Out | Copy::Rows) {
                    context.events.note_command(command_tag);
                    context.events.complete();
                }
                Step::Next
            }
            (Step::First | Step::Next, M::EmptyQueryResponse) => {
                context.events.note_command(b"");
                context.events.complete();
                Step::Next
            }
            // The call's data is for one COPY only.
            (Step::First | Step::Next, M::CopyInResponse)
                if self.copy != Copy::In || self.is_asked || self.sink.discard =>
            {
                context.refuse_copy_in()?;
                Step::CopyInDone
            }
            (Step::First | Step::Next, M::CopyInResponse) => {
                context.events.push(Event::Copy {
                    direction: CopyDirection::In,
                });
                self.is_asked = true;
                Step::CopyIn
            }
            (Step::First | Step::Next, M::CopyOutResponse) => {
                self.sink.is_copied = true;
                if self.copy != Copy::Rows || context.plan_copy(&mut self.sink).is_some() {
                    context.events.push(Event::Copy {
                        direction: CopyDirection::Out,
                    });
                }
                Step::CopyOut
            }
            (Step::CopyOut, M::CopyDone) => Step::CopyOut,
            (Step::Next | Step::Ready, M::ReadyForQuery { status }) => {
                context.events.ready(status);
                return Ok(Progress::Done);
            }
            _ => return Err(Failure::unexpected("simple query", tag)),
        };
        Ok(Progress::Continue)
    }

    /// Whether CommandComplete may arrive now. After a refused COPY FROM STDIN only an error may.
    fn may_complete(&self) -> bool {
        match self.step {
            Step::First | Step::Next | Step::Rows | Step::CopyOut => true,
            Step::CopyInDone => self.is_asked,
            Step::CopyIn | Step::Ready => false,
        }
    }

    /// Decides about a CopyData of which `part` has arrived.
    pub fn data_arriving(&mut self, part: Part<'_>, rows: &mut Rows) -> Arriving {
        if self.step != Step::CopyOut {
            return Arriving::Wanted;
        }
        if self.sink.discard {
            return Arriving::Unwanted;
        }
        let arriving = match self.copy {
            Copy::No | Copy::In => Arriving::Unwanted,
            Copy::Out => self.sink.arriving(part, rows),
            Copy::Rows => {
                let row = if self.has_header {
                    Some(part.body)
                } else {
                    after_header(part.body)
                };
                let length = row.map_or(0, |row| {
                    part.length
                        .saturating_sub(part.body.len())
                        .saturating_add(row.len())
                });
                match row {
                    // Two bytes may be the end of the data.
                    Some(body) if length > 2 => self.sink.arriving(
                        Part {
                            body,
                            length,
                            ..part
                        },
                        rows,
                    ),
                    _ => Arriving::Wanted,
                }
            }
        };
        self.has_header |= arriving != Arriving::Wanted;
        arriving
    }

    /// Takes the data of one CopyData, together with the messages `following` it that need no individual check.
    pub fn data<'a>(
        &mut self,
        data: &'a [u8],
        following: &mut Frames<'a>,
        context: &mut Context,
    ) -> Result<(), Failure> {
        if self.sink.discard {
            return Ok(());
        }
        let row = match self.copy {
            Copy::No | Copy::In => None,
            Copy::Out => Some(data),
            Copy::Rows => self.row_of(data)?,
        };
        match row {
            Some(row) => context.rows(row, following, &mut self.sink),
            None => Ok(()),
        }
    }

    fn row_of<'a>(&mut self, data: &'a [u8]) -> Result<Option<&'a [u8]>, Failure> {
        let row = if self.has_header {
            Some(data)
        } else {
            after_header(data)
        };
        self.has_header = true;
        match row {
            Some([] | [0xff, 0xff]) => Ok(None),
            Some(row) => Ok(Some(row)),
            None => Err(Failure::new(&Reason {
                code: "PROTOCOL_VIOLATION",
                message: "the data of COPY are not in binary format; the connection is closed",
            })),
        }
    }
}

/// Skips what comes before the first row: the signature, int32 flags, the int32 length of an extension, and the
/// extension.
fn after_header(data: &[u8]) -> Option<&[u8]> {
    let rest = data.strip_prefix(BINARY_SIGNATURE)?.get(4..)?;
    let (length, rest) = rest.split_first_chunk()?;
    rest.get(u32::from_be_bytes(*length) as usize..)
}
