//! What the core tells JavaScript besides rows: rare things, one JSON object each (docs/architecture.md, "Events").
//!
//! Errors cross as code and fields, never as a text to take apart.

use crate::error::Failure;
use crate::protocol::backend::{Column, RowDescription};
use crate::protocol::fields::Fields;
use crate::types;
use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use serde::{Serialize, Serializer};

/// Name and text of one field of ErrorResponse or NoticeResponse.
pub type Field = (&'static str, String);

/// One event. The JSON has `kind` first, then the members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(
    tag = "kind",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
#[allow(
    missing_docs,
    reason = "the members are documented in docs/architecture.md, where their reader looks"
)]
pub enum Event {
    /// The answer to SSLRequest.
    Tls { accepted: bool },
    /// SCRAM waits for the salted password.
    KeyDerivation { salt: String, iterations: u32 },
    /// ParameterStatus.
    ParameterStatus { name: String, value: String },
    /// BackendKeyData; the secret itself stays in the core.
    BackendKeyData { process_id: u32 },
    /// NoticeResponse.
    Notice {
        #[serde(serialize_with = "as_object")]
        fields: Vec<Field>,
    },
    /// NotificationResponse.
    Notification {
        process_id: u32,
        channel: String,
        payload: String,
    },
    /// What `describe` learned.
    Shape {
        parameter_types: Vec<u32>,
        columns: Vec<ColumnEvent>,
        result_formats: Vec<u8>,
    },
    /// RowDescription: before the first row.
    Columns { columns: Vec<ColumnEvent> },
    /// CommandComplete or EmptyQueryResponse.
    Complete {
        command: String,
        row_count: Option<u64>,
    },
    /// The columns are no longer those that `describe` saw, and one came in a form that cannot be read. The rows are dropped.
    ShapeChanged,
    /// ErrorResponse.
    Error {
        /// The statement may have run: the error came behind BindComplete (or the protocol does not tell).
        bound: bool,
        #[serde(serialize_with = "as_object")]
        fields: Vec<Field>,
    },
    /// A cap was reached; the rest of the result is dropped.
    Limit {
        limit: &'static str,
        value: u64,
        observed: u64,
        truncated: bool,
    },
    /// The statement was COPY, which needs a call of its own.
    Copy { direction: &'static str },
    /// ReadyForQuery.
    Ready { status: char },
    /// The connection is over.
    Failure {
        code: &'static str,
        message: Cow<'static, str>,
        detail: String,
    },
}

/// A column as JavaScript sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(
    missing_docs,
    reason = "protocol::backend::Column documents the same fields"
)]
pub struct ColumnEvent {
    pub name: String,
    pub table_oid: u32,
    pub column_attribute_number: i16,
    pub type_oid: u32,
    pub type_size: i16,
    pub type_modifier: i32,
    pub format_code: i16,
}

impl Event {
    /// Whether `receive` stops at this event, so that what came before it can be told from what comes after.
    pub fn parks(&self) -> bool {
        !matches!(
            self,
            Event::ParameterStatus { .. }
                | Event::BackendKeyData { .. }
                | Event::Notice { .. }
                | Event::Notification { .. }
        )
    }

    /// The JSON text that crosses the boundary.
    pub fn to_json(&self) -> String {
        // Strings, numbers and maps with string keys cannot fail to serialise.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// `shape`: parameter types and columns of a described statement, and the formats to ask for: binary where there is a decoder.
    pub(super) fn shape(parameter_types: Vec<u32>, columns: Vec<ColumnEvent>) -> Self {
        let result_formats = columns
            .iter()
            .map(|column| u8::from(types::has_binary_encoder(column.type_oid)))
            .collect();
        Event::Shape {
            parameter_types,
            columns,
            result_formats,
        }
    }

    /// CommandComplete: the tag is words, then numbers of which the last counts rows (`INSERT 0 5`, `SELECT 3`, `CREATE TABLE`).
    pub(super) fn complete(command_tag: &[u8]) -> Self {
        let tag = text(command_tag);
        let words =
            tag.trim_end_matches(|character: char| character.is_ascii_digit() || character == ' ');
        let row_count = tag
            .get(words.len()..)
            .and_then(|numbers| numbers.rsplit(' ').next())
            .and_then(|last| last.parse().ok());
        Event::Complete {
            command: words.to_string(),
            row_count,
        }
    }
}

impl From<Failure> for Event {
    fn from(
        Failure {
            code,
            message,
            detail,
        }: Failure,
    ) -> Self {
        Event::Failure {
            code,
            message,
            detail,
        }
    }
}

impl From<Column<'_>> for ColumnEvent {
    fn from(column: Column<'_>) -> Self {
        ColumnEvent {
            name: text(column.name),
            table_oid: column.table_oid,
            column_attribute_number: column.column_attribute_number,
            type_oid: column.type_oid,
            type_size: column.type_size,
            type_modifier: column.type_modifier,
            format_code: column.format_code,
        }
    }
}

/// The columns of a RowDescription as events carry them.
pub(super) fn columns(description: RowDescription<'_>) -> Vec<ColumnEvent> {
    description.iter().map(ColumnEvent::from).collect()
}

/// The fields of an ErrorResponse or NoticeResponse as events carry them, in wire order. The translated severity serves only where
/// the untranslated one is missing (servers before 9.6, poolers).
pub(super) fn fields(fields: Fields<'_>) -> Vec<Field> {
    let translated_only = fields.get("severity").is_none();
    fields
        .iter()
        .filter(|(name, _)| *name != "localizedSeverity" || translated_only)
        .map(|(name, text)| {
            (
                if name == "localizedSeverity" {
                    "severity"
                } else {
                    name
                },
                text.into_owned(),
            )
        })
        .collect()
}

/// A Vec of pairs is an object in JSON: a map would cost 6 kB of wasm.
fn as_object<S: Serializer>(fields: &[Field], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(fields.iter().map(|(name, text)| (name, text)))
}

/// Server text as a string; what is no UTF-8 shows as U+FFFD.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_tags_split_into_command_and_row_count() {
        let complete = |tag: &str| match Event::complete(tag.as_bytes()) {
            Event::Complete { command, row_count } => (command, row_count),
            _ => panic!(),
        };
        assert_eq!(complete("SELECT 3"), ("SELECT".into(), Some(3)));
        assert_eq!(complete("INSERT 0 5"), ("INSERT".into(), Some(5)));
        assert_eq!(complete("CREATE TABLE"), ("CREATE TABLE".into(), None));
        assert_eq!(complete(""), (String::new(), None));
        assert_eq!(complete("5"), (String::new(), Some(5)));
    }

    #[test]
    fn events_have_their_kind_first() {
        assert_eq!(
            Event::Ready { status: 'I' }.to_json(),
            r#"{"kind":"ready","status":"I"}"#
        );
        assert_eq!(
            Event::KeyDerivation {
                salt: "AA==".into(),
                iterations: 1
            }
            .to_json(),
            r#"{"kind":"keyDerivation","salt":"AA==","iterations":1}"#
        );
        assert_eq!(
            Event::BackendKeyData { process_id: 3 }.to_json(),
            r#"{"kind":"backendKeyData","processId":3}"#
        );
    }
}
