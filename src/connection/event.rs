//! What the core tells JavaScript besides rows: rare things, one JSON object each (docs/architecture.md, "Events").
//!
//! Errors cross as code and fields, never as a text to take apart. An event borrows from the message that it tells of
//! and is written down at once: strings, columns and fields of their own, and a serialiser for them, cost 2 kB of wasm.

use super::limits::Limit;
use crate::error::Failure;
use crate::protocol::backend::{Column, ParameterDescription, RowDescription};
use crate::protocol::fields::Fields;
use crate::protocol::writer::decimal;
use crate::types::output::{Output, Target};
use crate::types::{self, json_string};
use alloc::vec::Vec;

/// What an empty buffer of events may keep: more than almost every one of them needs.
const KEEP: usize = 1 << 14;

/// One event. The JSON has `kind` first, then the members, in this order.
#[derive(Clone, Copy)]
pub(super) enum Event<'a> {
    /// The answer to SSLRequest.
    Tls { accepted: bool },
    /// AuthenticationSASL, which is allowed: the mechanisms that the server offers, each with a NUL behind it.
    Sasl { mechanisms: &'a [u8] },
    /// SCRAM waits for the salted password. `salt` is base64.
    KeyDerivation { salt: &'a [u8], iterations: u32 },
    /// AuthenticationMD5Password waits for the text of PasswordMessage.
    Md5 { salt: u32 },
    /// ParameterStatus.
    ParameterStatus { name: &'a [u8], value: &'a [u8] },
    /// BackendKeyData; the secret itself stays in the core.
    BackendKeyData { process_id: u32 },
    /// NoticeResponse.
    Notice { fields: Fields<'a> },
    /// NotificationResponse.
    Notification {
        process_id: u32,
        channel: &'a [u8],
        payload: &'a [u8],
    },
    /// What `describe` learned: parameter types and columns, and the formats to ask for (binary where there is a
    /// decoder).
    Shape {
        parameters: ParameterDescription<'a>,
        columns: Option<RowDescription<'a>>,
    },
    /// RowDescription: before the first row. `shape`: of whose execution; 0 for none.
    Columns {
        shape: u32,
        columns: RowDescription<'a>,
    },
    /// CommandComplete or EmptyQueryResponse.
    Complete { command_tag: &'a [u8] },
    /// PortalSuspended: there may be more.
    Suspended,
    /// What became of items of a batch, in their order.
    Items { outcomes: &'a Outcomes },
    /// The rows that follow are of this statement of the batch, whose columns are known.
    Switch { statement: usize },
    /// The columns are no longer those that `describe` saw, and one came in a form that cannot be read; or a value
    /// holds a type that is not described. The rows are dropped.
    ShapeChanged { type_oid: u32 },
    /// ErrorResponse. `bound`: the statement may have run: the error came behind BindComplete (or the protocol does not
    /// tell).
    Error { bound: bool, fields: Fields<'a> },
    /// A cap was reached; the rest of the result is dropped.
    Limit(Limit),
    /// The statement was COPY, which needs a call of its own.
    Copy { direction: &'static str },
    /// ReadyForQuery, and CommandComplete (or EmptyQueryResponse) where it was the only one.
    Ready {
        status: u8,
        command_tag: Option<&'a [u8]>,
    },
    /// The connection is over.
    Failure(&'a Failure),
}

/// Those that wait to be taken, as JSON, oldest first and a line each. What the server sends need not be UTF-8; whoever
/// decodes this shows U+FFFD then.
#[derive(Default)]
pub(super) struct Events {
    waiting: Json,
    /// One about the current operation waits: no further message is read before the caller has seen it.
    pub parked: bool,
}

impl Events {
    pub fn push(&mut self, event: Event<'_>) {
        self.parked |= event.parks();
        // No line of JSON has a newline within.
        self.waiting.separate("\n");
        self.waiting.event(event);
    }

    /// All of them.
    pub fn take(&mut self) -> Vec<u8> {
        let lines = self.waiting.0.as_slice().to_vec();
        self.waiting.0.clear(KEEP);
        lines
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.0.is_empty()
    }
}

impl Event<'_> {
    /// Whether `receive` stops at this event, so that what came before it can be told from what comes after.
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

/// Items of a batch that are over, as JSON without brackets; for each the command tag's words and number, or two nulls
/// where it failed, then how many rows (bytes, of encoded output) it has put out.
#[derive(Default)]
pub(super) struct Outcomes {
    json: Json,
    /// Where the last one begins.
    last: usize,
}

impl Outcomes {
    pub fn complete(&mut self, command_tag: &[u8], counted: u64) {
        self.last = self.json.0.len();
        self.json.separate(",");
        self.json.command("", command_tag, ",");
        self.json.number(",", counted as i64);
    }

    pub fn failed(&mut self, counted: u64) {
        self.json.separate(",");
        self.json.number("null,null,", counted as i64);
    }

    /// The last one has not been complete after all.
    pub fn take_back(&mut self) {
        self.json.0.truncate(self.last);
    }

    pub fn is_empty(&self) -> bool {
        self.json.0.is_empty()
    }

    pub fn clear(&mut self) {
        self.last = 0;
        self.json.0.clear(0);
    }
}

/// Writes JSON: each method a piece as it stands, then a value.
#[derive(Default)]
struct Json(Output);

impl Json {
    /// In front of all but the first.
    fn separate(&mut self, separator: &str) {
        if !self.0.is_empty() {
            self.piece(separator);
        }
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Tls { accepted } => self.boolean(r#"{"kind":"tls","accepted":"#, accepted),
            Event::Sasl { mechanisms } => {
                let mut before = r#"{"kind":"sasl","mechanisms":["#;
                for mechanism in mechanisms.split(|byte| *byte == 0) {
                    if !mechanism.is_empty() {
                        self.text(before, mechanism);
                        before = ",";
                    }
                }
                self.piece("]");
            }
            Event::KeyDerivation { salt, iterations } => {
                self.text(r#"{"kind":"keyDerivation","salt":"#, salt);
                self.number(r#","iterations":"#, iterations.into());
            }
            Event::Md5 { salt } => self.number(r#"{"kind":"md5","salt":"#, salt.into()),
            Event::ParameterStatus { name, value } => {
                self.text(r#"{"kind":"parameterStatus","name":"#, name);
                self.text(r#","value":"#, value);
            }
            Event::BackendKeyData { process_id } => {
                self.number(
                    r#"{"kind":"backendKeyData","processId":"#,
                    process_id.into(),
                );
            }
            Event::Notice { fields } => self.fields(r#"{"kind":"notice","#, fields),
            Event::Notification {
                process_id,
                channel,
                payload,
            } => {
                self.number(r#"{"kind":"notification","processId":"#, process_id.into());
                self.text(r#","channel":"#, channel);
                self.text(r#","payload":"#, payload);
            }
            Event::Shape {
                parameters,
                columns,
            } => self.shape(parameters, columns),
            Event::Columns { shape, columns } => {
                self.number(r#"{"kind":"columns","shape":"#, shape.into());
                self.columns(",", columns);
            }
            Event::Complete { command_tag } => {
                self.command(
                    r#"{"kind":"complete","command":"#,
                    command_tag,
                    r#","rowCount":"#,
                );
            }
            Event::Suspended => self.piece(r#"{"kind":"suspended""#),
            Event::Items { outcomes } => {
                self.piece(r#"{"kind":"items","items":["#);
                self.0
                    .write(|out| out.put_slice(outcomes.json.0.as_slice()));
                self.piece("]");
            }
            Event::Switch { statement } => {
                self.number(r#"{"kind":"switch","statement":"#, statement as i64);
            }
            Event::ShapeChanged { type_oid } => {
                self.number(r#"{"kind":"shapeChanged","typeOid":"#, type_oid.into());
            }
            Event::Error { bound, fields } => {
                self.boolean(r#"{"kind":"error","bound":"#, bound);
                self.fields(",", fields);
            }
            Event::Limit(Limit {
                limit,
                value,
                observed,
                truncated,
            }) => {
                self.text(r#"{"kind":"limit","limit":"#, limit.as_bytes());
                self.number(r#","value":"#, value as i64);
                self.number(r#","observed":"#, observed as i64);
                self.boolean(r#","truncated":"#, truncated);
            }
            Event::Copy { direction } => {
                self.text(r#"{"kind":"copy","direction":"#, direction.as_bytes());
            }
            Event::Ready {
                status,
                command_tag,
            } => {
                self.text(r#"{"kind":"ready","status":"#, &[status]);
                if let Some(command_tag) = command_tag {
                    self.command(r#","command":"#, command_tag, r#","rowCount":"#);
                }
            }
            Event::Failure(Failure { reason, detail }) => {
                self.text(r#"{"kind":"failure","code":"#, reason.code.as_bytes());
                self.text(r#","message":"#, reason.message.as_bytes());
                self.text(r#","detail":"#, detail.as_bytes());
            }
        }
        self.piece("}");
    }

    fn shape(&mut self, parameters: ParameterDescription<'_>, columns: Option<RowDescription<'_>>) {
        self.piece(r#"{"kind":"shape","parameterTypes":["#);
        let mut before = "";
        for oid in parameters.iter() {
            self.number(before, oid.into());
            before = ",";
        }
        let Some(columns) = columns else {
            return self.piece(r#"],"columns":[],"resultFormats":[]"#);
        };
        self.columns("],", columns);
        before = r#","resultFormats":["#;
        for column in columns.iter() {
            self.number(before, types::has_binary_encoder(column.type_oid).into());
            before = ",";
        }
        self.piece(if before == "," {
            "]"
        } else {
            r#","resultFormats":[]"#
        });
    }

    fn columns(&mut self, before: &str, columns: RowDescription<'_>) {
        self.piece(before);
        let mut before = r#""columns":[{"name":"#;
        for column in columns.iter() {
            let Column {
                name,
                table_oid,
                column_attribute_number,
                type_oid,
                type_size,
                type_modifier,
                format_code,
            } = column;
            self.text(before, name);
            self.number(r#","tableOid":"#, table_oid.into());
            self.number(
                r#","columnAttributeNumber":"#,
                column_attribute_number.into(),
            );
            self.number(r#","typeOid":"#, type_oid.into());
            self.number(r#","typeSize":"#, type_size.into());
            self.number(r#","typeModifier":"#, type_modifier.into());
            self.number(r#","formatCode":"#, format_code.into());
            before = r#"},{"name":"#;
        }
        self.piece(if before.starts_with('}') {
            "}]"
        } else {
            r#""columns":[]"#
        });
    }

    /// In wire order.
    fn fields(&mut self, before: &str, fields: Fields<'_>) {
        self.piece(before);
        let mut before = r#""fields":{""#;
        for (name, text) in fields.iter() {
            self.piece(before);
            self.0.write(|out| out.put_slice(name));
            self.text("\":", text);
            before = ",\"";
        }
        self.piece(if before == ",\"" {
            "}"
        } else {
            r#""fields":{}"#
        });
    }

    /// The tag is words, then numbers of which the last counts rows (`INSERT 0 5`, `SELECT 3`, `CREATE TABLE`).
    fn command(&mut self, before: &str, command_tag: &[u8], between: &str) {
        let mut command = command_tag;
        while let [words @ .., b'0'..=b'9' | b' '] = command {
            command = words;
        }
        self.text(before, command);
        let (mut digits, mut row_count) = (0_usize, Some(0_i64));
        for byte in command_tag.get(command.len()..).unwrap_or_default() {
            if *byte == b' ' {
                (digits, row_count) = (0, Some(0));
            } else {
                digits = digits.saturating_add(1);
                row_count = row_count
                    .and_then(|count| count.checked_mul(10)?.checked_add((byte - b'0').into()));
            }
        }
        match row_count {
            Some(count) if digits > 0 => self.number(between, count),
            _ => {
                self.piece(between);
                self.piece("null");
            }
        }
    }

    #[inline(never)]
    fn piece(&mut self, piece: &str) {
        self.0.write(|out| out.put_slice(piece.as_bytes()));
    }

    #[inline(never)]
    fn text(&mut self, before: &str, text: &[u8]) {
        self.piece(before);
        self.0.write(|out| json_string::append(out, text));
    }

    #[inline(never)]
    fn boolean(&mut self, before: &str, value: bool) {
        self.piece(before);
        self.piece(if value { "true" } else { "false" });
    }

    #[inline(never)]
    fn number(&mut self, before: &str, number: i64) {
        self.piece(before);
        self.piece(&decimal(number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    fn json(event: Event<'_>) -> String {
        let mut events = Events::default();
        events.push(event);
        String::from_utf8_lossy(&events.take()).into_owned()
    }

    #[test]
    fn command_tags_split_into_command_and_row_count() {
        for (tag, expected) in [
            ("SELECT 3", r#""SELECT","rowCount":3"#),
            ("INSERT 0 5", r#""INSERT","rowCount":5"#),
            ("CREATE TABLE", r#""CREATE TABLE","rowCount":null"#),
            ("", r#""","rowCount":null"#),
            ("5", r#""","rowCount":5"#),
            ("COPY 007", r#""COPY","rowCount":7"#),
            ("FETCH 5 ", r#""FETCH","rowCount":null"#),
            ("SELECT 99999999999999999999", r#""SELECT","rowCount":null"#),
        ] {
            let event = Event::Complete {
                command_tag: tag.as_bytes(),
            };
            assert_eq!(
                json(event),
                [r#"{"kind":"complete","command":"#, expected, "}"].concat()
            );
        }
    }

    #[test]
    fn events_have_their_kind_first() {
        assert_eq!(
            json(Event::Ready {
                status: b'I',
                command_tag: None
            }),
            r#"{"kind":"ready","status":"I"}"#
        );
        assert_eq!(
            json(Event::KeyDerivation {
                salt: b"AA==",
                iterations: 1
            }),
            r#"{"kind":"keyDerivation","salt":"AA==","iterations":1}"#
        );
        assert_eq!(
            json(Event::BackendKeyData {
                process_id: u32::MAX
            }),
            r#"{"kind":"backendKeyData","processId":4294967295}"#
        );
    }

    #[test]
    fn empty_lists_and_objects_are_there() {
        let columns = RowDescription::parse(&[0, 0]).unwrap();
        let parameters = ParameterDescription { oids: &[] };
        let fields = Fields::parse(b"\0").unwrap();
        for (event, expected) in [
            (
                Event::Columns { shape: 7, columns },
                r#"{"kind":"columns","shape":7,"columns":[]}"#,
            ),
            (
                Event::Shape {
                    parameters,
                    columns: Some(columns),
                },
                r#"{"kind":"shape","parameterTypes":[],"columns":[],"resultFormats":[]}"#,
            ),
            (
                Event::Shape {
                    parameters,
                    columns: None,
                },
                r#"{"kind":"shape","parameterTypes":[],"columns":[],"resultFormats":[]}"#,
            ),
            (Event::Notice { fields }, r#"{"kind":"notice","fields":{}}"#),
        ] {
            assert_eq!(json(event), expected);
        }
    }

    #[test]
    fn text_that_is_no_utf_8_shows_as_such() {
        let value = b"a\xff\"\xe2\x82";
        assert_eq!(
            json(Event::ParameterStatus { name: b"n", value }),
            "{\"kind\":\"parameterStatus\",\"name\":\"n\",\"value\":\"a\u{fffd}\\\"\u{fffd}\"}"
        );
    }
}
