//! What the core reports to JavaScript besides rows (docs/architecture.md, "Events").
//!
//! Rare events cross as JSON, one object each, which serde writes. js/wasm/boundary.ts has the same shapes for
//! TypeScript, and tests/unit/boundary-events.ts has samples by which the compiler compares the two. What every query
//! has, the end of its command and of its operation, crosses as bits and a number. Errors cross as a code and fields,
//! never as text that must be parsed.

use super::limits::Limit;
use crate::boundary::ended;
use crate::error::Failure;
use crate::protocol::backend::{self, ParameterDescription, RowDescription, TransactionStatus};
use crate::protocol::command_tag::CommandTag;
use crate::protocol::fields::Fields;
use crate::types::Types;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Serialize, Serializer};

/// One event that crosses as JSON. It borrows from the message that it reports, and is written at once.
#[derive(Clone, Copy, Serialize)]
#[serde(
    tag = "kind",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub(super) enum Event<'a> {
    /// The answer to SSLRequest.
    Tls { accepted: bool },
    /// AuthenticationSASL, if the method is allowed: the mechanisms that the server offers, each followed by a NUL.
    Sasl { mechanisms: Mechanisms<'a> },
    /// SCRAM waits for the salted password. `salt` is base64.
    KeyDerivation { salt: Text<'a>, iterations: u32 },
    /// AuthenticationMD5Password waits for the text of PasswordMessage.
    Md5 { salt: u32 },
    /// ParameterStatus.
    ParameterStatus { name: Text<'a>, value: Text<'a> },
    /// BackendKeyData; the secret itself stays in the core.
    BackendKeyData { process_id: u32 },
    /// NoticeResponse.
    Notice { fields: Fields<'a> },
    /// NotificationResponse.
    Notification {
        process_id: u32,
        channel: Text<'a>,
        payload: Text<'a>,
    },
    /// The result of `describe`: parameter types, columns, and the formats to request (binary if there is a decoder).
    Shape {
        parameter_types: ParameterDescription<'a>,
        columns: RowDescription<'a>,
        result_formats: ResultFormats<'a>,
    },
    /// RowDescription, before the first row. `shape`: the shape of the execution, or 0.
    Columns {
        shape: u32,
        columns: RowDescription<'a>,
    },
    /// PortalSuspended: there may be more rows.
    Suspended,
    /// The outcomes of items of a batch, in order; outcomes.rs describes the format.
    Items {
        commands: &'a [String],
        items: &'a [i64],
    },
    /// The rows that follow belong to this statement of the batch, whose columns are known.
    Switch { statement: usize },
    /// The columns differ from those that `describe` saw, and one arrived in a form that cannot be read; or a value
    /// contains a type that is not described. The rows are dropped.
    ShapeChanged { type_oid: u32 },
    /// ErrorResponse. `bound`: the statement may have run, because the error came after BindComplete (or the protocol
    /// does not say when it came). `answered`: the error was not the first answer to its operation. If `part` is not
    /// the statement, the server has skipped the statement.
    Error {
        bound: bool,
        answered: bool,
        part: Part,
        fields: Fields<'a>,
    },
    /// A text value of a first run is invalid for its type. The rows are dropped, but the run continues to its end, so
    /// that the caller can report the statement's outcome.
    Unreadable {
        code: &'static str,
        message: &'static str,
        detail: &'a str,
    },
    /// A cap was reached; the rest of the result is dropped.
    Limit {
        limit: &'static str,
        value: u64,
        observed: u64,
        truncated: bool,
    },
    /// The statement is COPY. In a call that was not made for it, COPY is refused or its data is dropped.
    Copy { direction: CopyDirection },
    /// The connection has failed and is closed.
    Failure {
        code: &'static str,
        message: &'static str,
        detail: &'a str,
    },
}

/// The part of a flight that an error belongs to.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Part {
    Prelude,
    /// The check in front of a first run's statement.
    Check,
    Statement,
}

/// The direction of a COPY's data, as the server sees it.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum CopyDirection {
    /// COPY FROM STDIN.
    In,
    /// COPY TO STDOUT.
    Out,
}

impl Event<'_> {
    /// Whether `receive` stops at this event, so that the caller can tell what came before it from what comes after.
    fn parks(&self) -> bool {
        !matches!(
            self,
            Event::Sasl { .. }
                | Event::ParameterStatus { .. }
                | Event::BackendKeyData { .. }
                | Event::Notice { .. }
                | Event::Notification { .. }
        )
    }
}

impl From<Limit> for Event<'_> {
    fn from(tripped: Limit) -> Self {
        let Limit {
            limit,
            value,
            observed,
            truncated,
        } = tripped;
        Event::Limit {
            limit,
            value,
            observed,
            truncated,
        }
    }
}

impl<'a> From<&'a Failure> for Event<'a> {
    fn from(Failure { reason, detail }: &'a Failure) -> Self {
        Event::Failure {
            code: reason.code,
            message: reason.message,
            detail,
        }
    }
}

// -- how members are written ------------------------------------------------------------------------------------------

/// Text from the server, which may be invalid UTF-8: invalid bytes become U+FFFD.
#[derive(Clone, Copy)]
pub(super) struct Text<'a>(pub &'a [u8]);

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&String::from_utf8_lossy(self.0))
    }
}

/// The mechanisms of AuthenticationSASL that have a name, since the list ends with an empty one.
#[derive(Clone, Copy)]
pub(super) struct Mechanisms<'a>(pub &'a [u8]);

impl Serialize for Mechanisms<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let names = self.0.split(|byte| *byte == 0);
        serializer.collect_seq(names.filter(|name| !name.is_empty()).map(Text))
    }
}

/// The fields in wire order.
impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(name, text)| (name, Text(text))))
    }
}

impl Serialize for ParameterDescription<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl Serialize for RowDescription<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(Column::from))
    }
}

/// The format to request for each of these columns, as long as the database's own types are unknown.
#[derive(Clone, Copy)]
pub(super) struct ResultFormats<'a> {
    pub columns: RowDescription<'a>,
    /// The value of [`Types::float_times`].
    pub float_times: bool,
}

impl Serialize for ResultFormats<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let built_in = Types::default().with_float_times(self.float_times);
        let columns = self.columns.iter();
        serializer.collect_seq(
            columns.map(|column| u32::from(built_in.has_binary_encoder(column.type_oid))),
        )
    }
}

/// A column as JavaScript sees it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Column<'a> {
    name: Text<'a>,
    table_oid: u32,
    column_attribute_number: i16,
    type_oid: u32,
    type_size: i16,
    type_modifier: i32,
    format_code: i16,
}

impl<'a> From<backend::Column<'a>> for Column<'a> {
    fn from(column: backend::Column<'a>) -> Self {
        Column {
            name: Text(column.name),
            table_oid: column.table_oid,
            column_attribute_number: column.column_attribute_number,
            type_oid: column.type_oid,
            type_size: column.type_size,
            type_modifier: column.type_modifier,
            format_code: column.format_code,
        }
    }
}

// -- events that are not reported yet ---------------------------------------------------------------------------------

/// The events that have not been reported to the caller yet.
#[derive(Default)]
pub(super) struct Events {
    /// JSON, oldest first and one event per line.
    waiting: String,
    /// An event about the current operation is waiting: no further message is read before the caller has seen it.
    pub parked: bool,
    /// The current operation has had an answer.
    pub answered: bool,
    /// Bits of [`ended`]. They report what came after the waiting events.
    ended: u32,
    command: Command,
}

/// The last completed command.
#[derive(Default)]
struct Command {
    words: Vec<u8>,
    /// The caller has not asked for these words yet.
    is_new: bool,
    row_count: Option<u64>,
}

impl Events {
    #[inline(never)] // see State::dispatch
    pub fn push(&mut self, event: Event<'_>) {
        self.parked |= event.parks();
        // Only a map key that is not text, or a `Serialize` that fails itself, would be an error.
        let Ok(json) = serde_json::to_string(&event) else {
            return;
        };
        if self.waiting.is_empty() {
            self.waiting = json;
        } else {
            // serde writes no newline within an object.
            self.waiting.push('\n');
            self.waiting.push_str(&json);
        }
    }

    /// Reports what a statement takes and returns. `parameter_types`: the body of ParameterDescription; `float_times`:
    /// the value of [`Types::float_times`].
    pub fn shape(
        &mut self,
        parameter_types: &[u8],
        columns: RowDescription<'_>,
        float_times: bool,
    ) {
        self.push(Event::Shape {
            parameter_types: ParameterDescription {
                oids: parameter_types,
            },
            columns,
            result_formats: ResultFormats {
                columns,
                float_times,
            },
        });
    }

    /// Reports an ErrorResponse. `bound`: as in [`Event::Error`].
    pub fn error(&mut self, bound: bool, fields: Fields<'_>) {
        self.push(Event::Error {
            bound,
            answered: self.answered,
            part: Part::Statement,
            fields,
        });
    }

    /// Reports an ErrorResponse to a part in front of the statement; the statement has not run.
    pub fn error_before(&mut self, part: Part, fields: Fields<'_>) {
        self.push(Event::Error {
            bound: false,
            answered: self.answered,
            part,
            fields,
        });
    }

    /// Notes CommandComplete or EmptyQueryResponse, which [`complete`](Self::complete) will report.
    pub fn note_command(&mut self, command_tag: &[u8]) {
        let CommandTag { words, row_count } = CommandTag::parse(command_tag);
        self.command.row_count = row_count;
        if self.command.words != words {
            self.command.words = words.to_vec();
            self.command.is_new = true;
        }
    }

    /// Reports the command that was noted last.
    pub fn complete(&mut self) {
        self.parked = true;
        self.ended |= ended::COMPLETE;
        if self.command.is_new {
            self.ended |= ended::NEW_COMMAND;
        }
    }

    /// Reports ReadyForQuery.
    pub fn ready(&mut self, status: TransactionStatus) {
        self.parked = true;
        self.ended |= match status {
            TransactionStatus::Idle => ended::READY_IDLE,
            TransactionStatus::InTransaction => ended::READY_IN_TRANSACTION,
            TransactionStatus::Failed => ended::READY_FAILED,
        };
    }

    /// Called when the caller has seen what has ended and wants more.
    pub fn resume(&mut self) {
        self.parked = false;
        self.ended = 0;
    }

    /// Takes all waiting events.
    pub fn take(&mut self) -> String {
        core::mem::take(&mut self.waiting)
    }

    /// The words of the last command.
    pub fn command(&mut self) -> String {
        self.command.is_new = false;
        String::from_utf8_lossy(&self.command.words).into_owned()
    }

    pub fn row_count(&self) -> Option<u64> {
        self.command.row_count
    }

    pub fn ended(&self) -> u32 {
        self.ended
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests;
