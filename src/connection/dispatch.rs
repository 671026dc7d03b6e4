//! Passes each message to the conversation that awaits it. Handles messages that may arrive at any time, and failures
//! that end the connection.
//!
//! Knows the phases and the queue of operations. Must not know what a conversation does with its messages.

use super::event::{Event, Text};
use super::limits::{Arriving, MOST_ROW_BYTES, RowSink};
use super::{
    Context, Operation, Phase, Progress, State, batch, extended_query, first_run, simple_query,
};
use super::{EVENT_MESSAGE_LIMIT, STARTUP_MESSAGE_LIMIT};
use crate::boundary::login;
use crate::error::{Failure, NOT_POSTGRESQL, Reason};
use crate::protocol::backend::BackendMessage;
use crate::protocol::frame::{Deframer, Frame, FrameError, Frames, Part};
use crate::protocol::writer::TooLong;

impl State {
    pub(super) fn queue(&mut self, operation: Result<Operation, TooLong>, start: usize) {
        match operation {
            Ok(operation) => {
                self.operations.push_back(operation);
                self.release_pending();
            }
            Err(TooLong) => {
                self.pending.truncate(start);
                self.fail(Failure::from(TooLong));
            }
        }
    }

    pub(super) fn busy(&self) -> bool {
        match self.phase {
            Phase::AwaitTls | Phase::Startup => true,
            Phase::Ready => !self.operations.is_empty(),
            Phase::Fresh | Phase::Closed => false,
        }
    }

    /// Whether a flight may be written now: login has succeeded, or our last password message is already in the output.
    fn accepts_flights(&self) -> bool {
        match self.phase {
            Phase::Ready => true,
            Phase::Startup => {
                self.startup.options & login::EARLY_QUERY != 0 && self.startup.has_answered()
            }
            _ => false,
        }
    }

    pub(super) fn release_pending(&mut self) {
        if self.accepts_flights() {
            let output = &mut self.context.output;
            if output.is_empty() {
                core::mem::swap(output, &mut self.pending);
            } else {
                output.append(&mut self.pending);
            }
        }
    }

    #[inline(never)]
    pub(super) fn fail(&mut self, mut failure: Failure) {
        // A peer whose very first message is nonsense is not a PostgreSQL server, and saying so helps more than
        // describing the nonsense.
        if !self.heard && failure.is_nonsense() {
            failure = Failure::new(NOT_POSTGRESQL);
        }
        self.phase = Phase::Closed;
        self.operations.clear();
        self.context.events.push(Event::from(&failure));
    }

    pub(super) fn frame_error(&self, error: FrameError) -> Failure {
        match (self.phase, error) {
            (Phase::Startup, FrameError::TooLarge { .. }) => Failure::new(&Reason {
                code: "PROTOCOL_VIOLATION",
                message: "the server sent a longer message than any startup message is; the connection is closed",
            }),
            _ => Failure::from(error),
        }
    }

    /// Handles the one-byte answer to SSLRequest. Bytes after `S` would be read as if they had arrived encrypted
    /// (CVE-2021-23222), and the text after `E` may come from an attacker in between (CVE-2024-10977): both end the
    /// connection.
    pub(super) fn tls_answer(&mut self, deframer: &mut Deframer) -> Result<(), Failure> {
        let Some(answer) = deframer.take_byte() else {
            return Ok(());
        };
        match answer {
            b'S' | b'N' if deframer.unread() > 0 => {
                self.heard = true;
                Err(unencrypted_bytes())
            }
            b'S' | b'N' => {
                self.phase = Phase::Fresh;
                let accepted = answer == b'S';
                self.context.events.push(Event::Tls { accepted });
                Ok(())
            }
            b'E' => Err(Failure::new(&Reason {
                code: "TLS_REFUSED",
                message: "the server answered SSLRequest with an error (not shown: nothing proves who wrote it); \
                    is it a PostgreSQL server?",
            })),
            _ => Err(Failure::new(NOT_POSTGRESQL)),
        }
    }

    /// Maximum length of a message at this time.
    pub(super) fn message_limit(&self) -> usize {
        match self.phase {
            Phase::Ready => self.max_message_bytes,
            _ => STARTUP_MESSAGE_LIMIT.min(self.max_message_bytes),
        }
    }

    /// Reads messages until there are no more, or until an event or many rows park the input.
    pub(super) fn read(&mut self, frames: &mut Frames<'_>) -> Result<(), Failure> {
        while !self.context.events.parked && matches!(self.phase, Phase::Startup | Phase::Ready) {
            // Rows that arrive together check this themselves.
            if self.context.rows.byte_count() >= MOST_ROW_BYTES {
                self.context.events.parked = true;
                break;
            }
            match frames.next_frame() {
                Ok(Some(frame)) if frame.tag == b'D' => self.data_rows(frame.body, frames)?,
                Ok(Some(frame)) if frame.tag == b'd' && self.copies_out() => {
                    self.copied(frame.body, frames)?;
                }
                Ok(Some(frame)) => {
                    self.frame(frame)?;
                    frames.set_limit(self.message_limit());
                }
                Ok(None) => {
                    if !self.arriving(frames)? {
                        break;
                    }
                }
                Err(FrameError::TooLarge { .. }) if self.phase == Phase::Ready => {
                    if !self.arriving(frames)? {
                        break;
                    }
                }
                Err(error) => return Err(self.frame_error(error)),
            }
        }
        Ok(())
    }

    /// Looks at a message that is incomplete, or longer than the limit. A message that is not wanted is skipped,
    /// whatever its length. Returns whether there is more to read.
    #[cold]
    #[inline(never)]
    fn arriving(&mut self, frames: &mut Frames<'_>) -> Result<bool, Failure> {
        let Some(part) = frames.part() else {
            return Ok(false);
        };
        if self.phase != Phase::Ready {
            return Ok(false);
        }
        let limit = self.max_message_bytes;
        // Bytes beyond the limit are not examined, so that the result does not depend on how much arrived at once.
        let looked_at = Part {
            body: part.body.get(..limit).unwrap_or(part.body),
            ..part
        };
        let Context { rows, events, .. } = &mut self.context;
        let (mut caps_bytes, mut arriving) = (false, Arriving::Wanted);
        match (part.tag, self.operations.front_mut()) {
            (b'D', operation) => {
                let Some(sink) = operation.and_then(Operation::row_sink) else {
                    return Err(self.out_of_place());
                };
                caps_bytes = sink.caps_bytes();
                arriving = sink.arriving(looked_at, rows);
            }
            (b'd', Some(Operation::Simple(operation))) => {
                caps_bytes = operation.sink.caps_bytes();
                arriving = operation.data_arriving(looked_at, rows);
            }
            (b'd', Some(Operation::Extended(operation)))
                if operation.step == extended_query::Step::CopyOut =>
            {
                arriving = Arriving::Unwanted;
            }
            _ => {}
        }
        match arriving {
            Arriving::Wanted => {
                let accepted = accepted_length(part.tag, limit);
                // A cap may still refuse the row, which says more and costs less than ending the connection.
                let is_over = if caps_bytes {
                    part.body.len() > limit
                } else {
                    part.length > accepted
                };
                if is_over {
                    let Part { tag, length, .. } = part;
                    return Err(FrameError::TooLarge { tag, length }.into());
                }
                return Ok(false);
            }
            Arriving::Unwanted => {}
            Arriving::Refused(limit) => events.push(limit.into()),
        }
        frames.skip();
        Ok(true)
    }

    #[inline]
    fn frame(&mut self, frame: Frame<'_>) -> Result<(), Failure> {
        let Frame { tag, body } = frame;
        let length = body.len();
        if length > accepted_length(tag, self.message_limit()) {
            return Err(FrameError::TooLarge { tag, length }.into());
        }
        let message = BackendMessage::parse(frame)?;
        if self.asynchronous(message) {
            self.heard = true;
            return encoding_is_utf8(message);
        }
        let progress = self.dispatch(frame.tag, message)?;
        self.heard = true;
        self.context.events.answered = matches!(progress, Progress::Continue) && self.busy();
        match progress {
            Progress::Continue => self.release_pending(),
            Progress::Closed => self.phase = Phase::Closed,
            Progress::Done => self.done(),
        }
        Ok(())
    }

    /// The hot path: passes rows directly to the front operation.
    #[inline]
    fn data_rows<'a>(&mut self, body: &'a [u8], following: &mut Frames<'a>) -> Result<(), Failure> {
        // Not `front_mut`, which is not inlined: it costs 3 % for a narrow row.
        let sink = match (self.phase, self.operations.get_mut(0)) {
            (Phase::Ready, Some(operation)) => operation.row_sink(),
            _ => None,
        };
        let Some(sink) = sink else {
            return Err(self.out_of_place());
        };
        let read = self.context.rows(body, following, sink);
        read.or_else(|failure| self.unreadable(failure))
    }

    /// Handles a value that cannot be read. In a first run, an unreadable text says nothing about the messages after
    /// it, which report whether the statement has run.
    #[cold]
    #[inline(never)]
    fn unreadable(&mut self, failure: Failure) -> Result<(), Failure> {
        match self.operations.front_mut() {
            Some(Operation::FirstRun(operation)) if failure.is_invalid_value() => {
                operation.sink.discard = true;
                self.context.events.push(Event::Unreadable {
                    code: failure.reason.code,
                    message: failure.reason.message,
                    detail: &failure.detail,
                });
                Ok(())
            }
            _ => Err(failure),
        }
    }

    /// Whether COPY TO STDOUT is sending its data.
    fn copies_out(&self) -> bool {
        self.phase == Phase::Ready
            && matches!(self.operations.front(), Some(Operation::Simple(operation))
                if operation.step == simple_query::Step::CopyOut)
    }

    /// Passes COPY data directly to its operation, as with rows: data that arrives together is read in one loop.
    fn copied<'a>(&mut self, body: &'a [u8], following: &mut Frames<'a>) -> Result<(), Failure> {
        match self.operations.front_mut() {
            Some(Operation::Simple(operation)) => {
                operation.data(body, following, &mut self.context)
            }
            _ => Err(self.out_of_place()),
        }
    }

    /// The failure for a DataRow where none is expected.
    #[cold]
    fn out_of_place(&self) -> Failure {
        match self.operations.front() {
            Some(Operation::FirstRun(_)) => first_run::unexpected(b'D'),
            _ => Failure::unexpected("a conversation without rows", b'D'),
        }
    }

    /// Handles a message that may arrive at any time; returns whether it was one.
    fn asynchronous(&mut self, message: BackendMessage<'_>) -> bool {
        let event = match message {
            BackendMessage::NoticeResponse { fields } => {
                if !self.wants_notices && fields.get(b'C') != Some(OUTSIDE) {
                    return true;
                }
                Event::Notice { fields }
            }
            BackendMessage::ParameterStatus { name, value } => Event::ParameterStatus {
                name: Text(name),
                value: Text(value),
            },
            BackendMessage::NotificationResponse {
                process_id,
                channel,
                payload,
            } => Event::Notification {
                process_id,
                channel: Text(channel),
                payload: Text(payload),
            },
            _ => return false,
        };
        self.context.events.push(event);
        true
    }

    /// Passes the message to its conversation. Each conversation's `receive` stays a separate function in the wasm, so
    /// that a new process compiles only those that it uses (decision 0005). The same applies to writing events.
    fn dispatch(&mut self, tag: u8, message: BackendMessage<'_>) -> Result<Progress, Failure> {
        let context = &mut self.context;
        if self.phase == Phase::Startup {
            return self.startup.receive(tag, message, context);
        }
        match (self.operations.front_mut(), message) {
            (Some(Operation::Extended(operation)), message) => {
                operation.receive(tag, message, context)
            }
            (Some(Operation::Simple(operation)), message) => {
                operation.receive(tag, message, context)
            }
            (Some(Operation::Batch(operation)), message) => {
                operation.receive(tag, message, context)
            }
            (Some(Operation::FirstRun(operation)), message) => {
                operation.receive(tag, message, context)
            }
            // When an administrator ends an idle session, the server sends an error before it closes.
            (None, BackendMessage::ErrorResponse { fields }) => {
                context.events.error(false, fields);
                Ok(Progress::Continue)
            }
            (None, _) => Err(Failure::unexpected("an idle connection", tag)),
        }
    }

    fn done(&mut self) {
        if self.phase == Phase::Startup {
            self.phase = Phase::Ready;
            self.startup.forget();
            self.release_pending();
        } else {
            self.operations.pop_front();
        }
    }
}

/// Maximum length of a message of this type. Rows and COPY data may be as long as the caller's limit.
fn accepted_length(tag: u8, limit: usize) -> usize {
    match tag {
        b'D' | b'd' => limit,
        _ => limit.min(EVENT_MESSAGE_LIMIT),
    }
}

/// The SQLSTATE of the warning that COMMIT or ROLLBACK found no transaction: the driver makes an error of it.
pub(super) const OUTSIDE: &[u8] = b"25P01";

pub(super) fn unencrypted_bytes() -> Failure {
    Failure::new(&Reason {
        code: "PROTOCOL_VIOLATION",
        message: "unencrypted bytes followed the answer to SSLRequest; the connection may be intercepted",
    })
}

/// Refuses any other client encoding. Text crosses as UTF-8 both ways, so `SET client_encoding` would silently corrupt
/// what is stored and what is read.
fn encoding_is_utf8(message: BackendMessage<'_>) -> Result<(), Failure> {
    // Compared as slices, because patterns are compared byte by byte.
    const UTF_8: [&[u8]; 3] = [b"UTF8", b"UTF-8", b"UNICODE"];
    match message {
        BackendMessage::ParameterStatus { name, value }
            if name == b"client_encoding" && !UTF_8.contains(&value) =>
        {
            Err(Failure::new(&Reason {
                code: "CLIENT_ENCODING_NOT_UTF8",
                message: "client_encoding was changed, and this driver speaks UTF8 only; the connection is closed",
            }))
        }
        _ => Ok(()),
    }
}

impl Operation {
    pub(super) fn sink(&mut self) -> &mut RowSink {
        match self {
            Operation::Extended(operation) => &mut operation.sink,
            Operation::Simple(operation) => &mut operation.sink,
            Operation::Batch(operation) => &mut operation.sink,
            Operation::FirstRun(operation) => &mut operation.sink,
        }
    }

    /// The sink, if a DataRow is allowed now.
    #[inline]
    fn row_sink(&mut self) -> Option<&mut RowSink> {
        match self {
            Operation::Extended(operation) => {
                (operation.step == extended_query::Step::Rows).then_some(&mut operation.sink)
            }
            Operation::Simple(operation) => {
                (operation.step == simple_query::Step::Rows).then_some(&mut operation.sink)
            }
            Operation::Batch(operation) => {
                (operation.step == batch::Step::Rows).then_some(&mut operation.sink)
            }
            Operation::FirstRun(operation) => {
                (operation.step == first_run::Step::Rows).then_some(&mut operation.sink)
            }
        }
    }
}
