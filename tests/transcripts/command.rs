//! What the caller asks of the core, as lines of a transcript (tests/transcripts/README.md lists them).
//!
//! Each becomes one call of `Connection`, and for the wasm runner one call of `CoreConnection` with its arguments as
//! JSON: the two columns of [`Command::run`] and [`Command::to_json`] must say the same.

#![allow(
    dead_code,
    reason = "the tests transcripts and properties each use a part"
)]

use crate::trace::Tokens;
use pgz_edge::boundary::{batch, copy, form, login, protocol, rows as row_format};
use pgz_edge::connection::caps::Caps;
use pgz_edge::connection::simple_query::Copy;
use pgz_edge::connection::{BatchEnd, Connection, FirstRequest, Login, Settings};
use pgz_edge::encode::{RowForm, RowFormat};
use serde_json::{Value, json};

/// One call.
#[derive(Debug, Clone)]
pub enum Command {
    Settings {
        max_message_bytes: u32,
        statement_prefix: String,
        statement_cache_size: u32,
    },
    RequestTls,
    Start(Start),
    Prove(Vec<u8>),
    Describe {
        sql: String,
        shape: u32,
    },
    Execute(Execute),
    SimpleQuery {
        sql: String,
        copy: u32,
        rows: Rows,
    },
    CopyData(u32),
    CopyEnd(Option<String>),
    Batch {
        isolated: bool,
        rows: Rows,
    },
    /// Parameters and rows are not used.
    BatchStatement(Execute),
    BatchItems {
        items: Vec<u8>,
        end: u32,
    },
    FirstRun(FirstRun),
    Hold(usize),
    Release(u32),
    DropHeld(u32),
    Prelude(String),
    Fetch,
    ClosePortal,
    Forget(u32),
    Discard,
    CancelRequest,
    Terminate,
}

/// The arguments of `start`.
#[derive(Debug, Clone)]
pub struct Start {
    version: u32,
    parameters: String,
    password: Option<String>,
    nonce: String,
    options: u32,
    min_iterations: u32,
    max_iterations: u32,
    flush_bytes: u32,
    channel_binding: Vec<u8>,
}

/// The arguments of `execute`.
#[derive(Debug, Clone)]
pub struct Execute {
    pub shape: u32,
    /// What Bind and Parse end with, as the core takes it.
    pub statement: Vec<u8>,
    pub parameters: Vec<u8>,
    pub rows: Rows,
}

/// The arguments of `first_run`.
#[derive(Debug, Clone)]
pub struct FirstRun {
    shape: u32,
    sql: String,
    parameters: Vec<u8>,
    check: String,
    check_shape: u32,
    checks_types: bool,
    rows: Rows,
}

/// What is to become of the rows.
#[derive(Debug, Clone, Default)]
pub struct Rows {
    /// JavaScript's number of the format and its options.
    format: u32,
    caps: Caps,
}

impl Rows {
    fn form(&self) -> Option<RowForm> {
        RowForm::from_code(self.format)
    }

    /// As JavaScript hands them over.
    fn caps(&self) -> Value {
        let Caps {
            rows,
            bytes,
            field_bytes,
            truncate,
            fetch,
        } = self.caps;
        json!({ "f64": [rows, bytes, field_bytes, u8::from(truncate), fetch] })
    }
}

/// Reads what follows `> `.
pub fn parse(line: &str) -> Result<Command, String> {
    let mut tokens = Tokens::new(line);
    let command = command(&mut tokens)?;
    tokens.end()?;
    Ok(command)
}

fn command(tokens: &mut Tokens<'_>) -> Result<Command, String> {
    Ok(match tokens.word()?.as_str() {
        "settings" => Command::Settings {
            max_message_bytes: option(tokens, "max_message_bytes")?.number()?,
            statement_prefix: text(option(tokens, "statement_prefix")?)?,
            statement_cache_size: option(tokens, "statement_cache_size")?.number()?,
        },
        "request_tls" => Command::RequestTls,
        "start" => Command::Start(start(tokens)?),
        "prove" => Command::Prove(tokens.quoted('\'')?),
        "describe" => Command::Describe {
            sql: text(tokens)?,
            shape: match tokens.more() {
                true => tokens.number()?,
                false => 0,
            },
        },
        "execute" => Command::Execute(execute(tokens)?),
        "first_run" => Command::FirstRun(first_run(tokens)?),
        "hold" => Command::Hold(tokens.number()?),
        "release" => Command::Release(tokens.number()?),
        "drop_held" => Command::DropHeld(tokens.number()?),
        "simple_query" => {
            let sql = text(tokens)?;
            let mut copy = copy::NONE;
            let rows = rows(tokens, |word| {
                copy = match word {
                    "copy_in" => copy::IN,
                    "copy_out" => copy::OUT,
                    "copy_rows" => copy::ROWS,
                    _ => return false,
                };
                true
            })?;
            Command::SimpleQuery { sql, copy, rows }
        }
        "copy_data" => Command::CopyData(tokens.number()?),
        "copy_end" => Command::CopyEnd(match tokens.more() {
            true => Some(text(tokens)?),
            false => None,
        }),
        "batch" => {
            let mut isolated = false;
            let rows = rows(tokens, |word| {
                isolated |= word == "isolated";
                word == "isolated"
            })?;
            Command::Batch { isolated, rows }
        }
        "batch_statement" => Command::BatchStatement(execute(tokens)?),
        "batch_item" => {
            let number: u32 = tokens.number()?;
            let (mut codes, mut values) = (vec![], vec![]);
            while tokens.more() {
                let word = tokens.word()?;
                if !parameter(&word, tokens, &mut codes, &mut values)? {
                    return Err(format!("no option is named {word}"));
                }
            }
            let parameters = block(&codes, &values);
            let mut items = number.to_be_bytes().to_vec();
            items.extend((parameters.len() as u32).to_be_bytes());
            items.extend(parameters);
            Command::BatchItems {
                items,
                end: batch::CONTINUES,
            }
        }
        "batch_end" => Command::BatchItems {
            items: vec![],
            end: batch::ENDS,
        },
        "batch_undo" => Command::BatchItems {
            items: vec![],
            end: batch::IS_UNDONE,
        },
        "prelude" => Command::Prelude(text(tokens)?),
        "fetch" => Command::Fetch,
        "close_portal" => Command::ClosePortal,
        "forget" => Command::Forget(tokens.number()?),
        "discard" => Command::Discard,
        "cancel_request" => Command::CancelRequest,
        "terminate" => Command::Terminate,
        other => return Err(format!("no command is named {other}")),
    })
}

fn start(tokens: &mut Tokens<'_>) -> Result<Start, String> {
    let version = tokens.word()?;
    let minor: u32 = version
        .strip_prefix("3.")
        .and_then(|minor| minor.parse().ok())
        .ok_or("a version is 3.0 or 3.2")?;
    let mut start = Start {
        version: protocol::VERSION_3_0 + minor,
        parameters: String::new(),
        password: None,
        nonce: String::new(),
        options: login::AUTH_TRUST,
        min_iterations: 0,
        max_iterations: 100_000,
        flush_bytes: 1 << 16,
        channel_binding: vec![],
    };
    while tokens.peek() == Some('"') {
        start.parameters += &(text(tokens)? + "\0");
    }
    while tokens.more() {
        match tokens.word()?.as_str() {
            "password" => start.password = Some(text(tokens)?),
            "nonce" => start.nonce = text(tokens)?,
            "allowed" => start.options = tokens.number()?,
            "min_iterations" => start.min_iterations = tokens.number()?,
            "max_iterations" => start.max_iterations = tokens.number()?,
            "external_key_derivation" => start.options |= login::EXTERNAL_KEY_DERIVATION,
            "early_query" => start.options |= login::EARLY_QUERY,
            "scram_first" => start.options |= login::SCRAM_FIRST,
            "scram_plus_first" => start.options |= login::SCRAM_FIRST | login::SCRAM_PLUS_FIRST,
            "channel_binding_required" => start.options |= login::CHANNEL_BINDING_REQUIRED,
            "channel_binding" => start.channel_binding = text(tokens)?.into_bytes(),
            "cleartext_first" => start.options |= login::CLEARTEXT_FIRST,
            other => return Err(format!("no option is named {other}")),
        }
    }
    Ok(start)
}

fn execute(tokens: &mut Tokens<'_>) -> Result<Execute, String> {
    let (shape, sql) = (tokens.number()?, text(tokens)?);
    let (mut types, mut formats, mut codes) = (vec![], vec![], vec![]);
    let mut values = vec![];
    let mut rows = Rows {
        format: row_format::NDJSON,
        ..Rows::default()
    };
    while tokens.more() {
        match tokens.word()?.as_str() {
            "types" => types = numbers(tokens)?,
            "formats" => formats = numbers(tokens)?,
            word if parameter(word, tokens, &mut codes, &mut values)? => {}
            word => row_option(word, tokens, &mut rows)?,
        }
    }
    Ok(Execute {
        shape,
        statement: statement(&sql, &types, &formats),
        parameters: block(&codes, &values),
        rows,
    })
}

fn first_run(tokens: &mut Tokens<'_>) -> Result<FirstRun, String> {
    let (shape, sql, check) = (tokens.number()?, text(tokens)?, text(tokens)?);
    let (mut check_shape, mut checks_types) = (0, false);
    let (mut codes, mut values) = (vec![], vec![]);
    let mut rows = Rows {
        format: row_format::NDJSON,
        ..Rows::default()
    };
    while tokens.more() {
        match tokens.word()?.as_str() {
            "check_shape" => check_shape = tokens.number()?,
            "checks_types" => checks_types = true,
            word if parameter(word, tokens, &mut codes, &mut values)? => {}
            word => row_option(word, tokens, &mut rows)?,
        }
    }
    Ok(FirstRun {
        shape,
        sql,
        parameters: block(&codes, &values),
        check,
        check_shape,
        checks_types,
        rows,
    })
}

/// Takes an option that is about parameters.
fn parameter(
    word: &str,
    tokens: &mut Tokens<'_>,
    codes: &mut Vec<u16>,
    values: &mut Vec<Option<Vec<u8>>>,
) -> Result<bool, String> {
    match word {
        "parameter_formats" => *codes = numbers(tokens)?,
        "null" => values.push(None),
        "value" => values.push(Some(tokens.quoted('\'')?)),
        _ => return Ok(false),
    }
    Ok(true)
}

/// The middle of Bind.
fn block(codes: &[u16], values: &[Option<Vec<u8>>]) -> Vec<u8> {
    let mut parameters = (codes.len() as u16).to_be_bytes().to_vec();
    parameters.extend(codes.iter().flat_map(|code| code.to_be_bytes()));
    parameters.extend((values.len() as u16).to_be_bytes());
    for value in values {
        let length = value.as_ref().map_or(-1, |value| value.len() as i32);
        parameters.extend(length.to_be_bytes().iter().chain(value.iter().flatten()));
    }
    parameters
}

/// What Bind and Parse of a statement end with.
fn statement(sql: &str, types: &[u32], formats: &[u8]) -> Vec<u8> {
    let mut bytes = (formats.len() as u16).to_be_bytes().to_vec();
    bytes.extend(formats.iter().flat_map(|code| [0, *code]));
    bytes.extend(sql.bytes().chain([0]));
    bytes.extend((types.len() as u16).to_be_bytes());
    bytes.extend(types.iter().flat_map(|oid| oid.to_be_bytes()));
    bytes
}

/// Options of rows, and those that `other` takes.
fn rows(tokens: &mut Tokens<'_>, mut other: impl FnMut(&str) -> bool) -> Result<Rows, String> {
    let mut rows = Rows {
        format: row_format::NDJSON,
        ..Rows::default()
    };
    while tokens.more() {
        let word = tokens.word()?;
        if !other(&word) {
            row_option(&word, tokens, &mut rows)?;
        }
    }
    Ok(rows)
}

fn row_option(word: &str, tokens: &mut Tokens<'_>, rows: &mut Rows) -> Result<(), String> {
    match word {
        "none" => rows.format = row_format::NONE,
        "arrays" => {
            rows.format = row_format::ARRAYS | form::INT8_AS_STRING | form::NUMERIC_AS_STRING
        }
        "rename" => rows.format |= form::RENAME_DUPLICATES,
        "header" => rows.format |= form::CSV_HEADER,
        "escape_formulas" => rows.format |= form::ESCAPE_FORMULAS,
        "columns_known" => rows.format |= form::COLUMNS_KNOWN,
        "field_bytes" => rows.caps.field_bytes = tokens.number()?,
        "truncate" => rows.caps.truncate = true,
        "fetch" => rows.caps.fetch = tokens.number()?,
        "rows" => rows.caps.rows = tokens.number()?,
        "bytes" => rows.caps.bytes = tokens.number()?,
        other => {
            let format = public_format(other);
            rows.format = format.ok_or_else(|| format!("no option is named {other}"))?;
        }
    }
    Ok(())
}

/// The number of a format that callers can ask for.
fn public_format(name: &str) -> Option<u32> {
    let mut all = RowFormat::ALL.iter().map(|format| format.facts());
    let format = all.find(|facts| facts.public.is_some_and(|public| public.name == name))?;
    Some(format.code)
}

fn numbers<T: std::str::FromStr>(tokens: &mut Tokens<'_>) -> Result<Vec<T>, String> {
    let mut numbers = vec![];
    while tokens.peek().is_some_and(|first| first.is_ascii_digit()) {
        numbers.push(tokens.number()?);
    }
    Ok(numbers)
}

fn option<'a, 'b>(tokens: &'a mut Tokens<'b>, name: &str) -> Result<&'a mut Tokens<'b>, String> {
    let word = tokens.word()?;
    if word == name {
        Ok(tokens)
    } else {
        Err(format!("{name} must come here, not {word}"))
    }
}

fn text(tokens: &mut Tokens<'_>) -> Result<String, String> {
    String::from_utf8(tokens.quoted('"')?).map_err(|_| "text is no UTF-8".into())
}

impl Command {
    /// Makes the call; what it returns besides the connection's output counts as output.
    pub fn run(&self, connection: &mut Connection) -> Vec<u8> {
        match self {
            Command::Settings {
                max_message_bytes,
                statement_prefix,
                statement_cache_size,
            } => {
                *connection = Connection::new(Settings {
                    max_message_bytes: *max_message_bytes as usize,
                    statement_prefix: statement_prefix.clone(),
                    statement_cache_size: *statement_cache_size as usize,
                });
            }
            Command::RequestTls => connection.request_tls(),
            Command::Start(start) => connection.start(&Login {
                protocol_version: start.version,
                parameters: &start.parameters,
                password: start.password.as_deref(),
                nonce: &start.nonce,
                options: start.options,
                min_iterations: start.min_iterations,
                max_iterations: start.max_iterations,
                flush_bytes: start.flush_bytes as usize,
                channel_binding: &start.channel_binding,
            }),
            Command::Prove(answer) => connection.prove(answer),
            Command::Describe { sql, shape } => connection.describe(sql, *shape),
            Command::Execute(Execute {
                shape,
                statement,
                parameters,
                rows,
            }) => {
                connection.execute(
                    *shape,
                    statement,
                    parameters,
                    rows.form(),
                    rows.format & form::COLUMNS_KNOWN != 0,
                    rows.caps,
                );
            }
            Command::FirstRun(FirstRun {
                shape,
                sql,
                parameters,
                check,
                check_shape,
                checks_types,
                rows,
            }) => {
                let request = FirstRequest {
                    shape: *shape,
                    query: sql,
                    parameters,
                    check,
                    check_shape: *check_shape,
                    checks_types: *checks_types,
                };
                connection.first_run(&request, rows.form(), rows.caps);
            }
            Command::Hold(most) => connection.hold(*most),
            Command::Release(shape) => connection.release(*shape),
            Command::DropHeld(shape) => connection.drop_held(*shape),
            Command::SimpleQuery { sql, copy, rows } => {
                connection.simple_query(sql, Copy::from_code(*copy), rows.form(), rows.caps);
            }
            Command::CopyData(length) => connection.copy_data(*length),
            Command::CopyEnd(reason) => connection.copy_end(reason.as_deref()),
            Command::Batch { isolated, rows } => {
                connection.batch(*isolated, rows.form(), rows.caps);
            }
            Command::BatchStatement(Execute {
                shape, statement, ..
            }) => {
                connection.batch_statement(*shape, statement);
            }
            Command::BatchItems { items, end } => {
                connection.batch_items(items, BatchEnd::from_code(*end));
            }
            Command::Prelude(sql) => connection.prelude(sql),
            Command::Fetch => connection.fetch(),
            Command::ClosePortal => connection.close_portal(),
            Command::Forget(shape) => connection.forget(*shape),
            Command::Discard => connection.discard(),
            Command::CancelRequest => return connection.cancel_request(),
            Command::Terminate => connection.terminate(),
        }
        vec![]
    }

    /// The method of `CoreConnection` and its arguments.
    pub fn to_json(&self) -> Value {
        let (method, arguments) = match self {
            Command::Settings {
                max_message_bytes,
                statement_prefix,
                statement_cache_size,
            } => (
                "constructor",
                json!([max_message_bytes, statement_prefix, statement_cache_size]),
            ),
            Command::RequestTls => ("request_tls", json!([])),
            Command::Start(Start {
                version,
                parameters,
                password,
                nonce,
                options,
                min_iterations,
                max_iterations,
                flush_bytes,
                channel_binding,
            }) => (
                "start",
                json!([
                    version,
                    parameters,
                    password,
                    nonce,
                    options,
                    min_iterations,
                    max_iterations,
                    flush_bytes,
                    channel_binding
                ]),
            ),
            Command::Prove(answer) => ("prove", json!([answer])),
            Command::Describe { sql, shape } => ("describe", json!([sql, shape])),
            Command::Execute(Execute {
                shape,
                statement,
                parameters,
                rows,
            }) => (
                "execute",
                json!([shape, statement, parameters, rows.format, rows.caps()]),
            ),
            Command::FirstRun(FirstRun {
                shape,
                sql,
                parameters,
                check,
                check_shape,
                checks_types,
                rows,
            }) => {
                let caps = rows.caps();
                let arguments = json!([
                    shape,
                    sql,
                    parameters,
                    check,
                    check_shape,
                    checks_types,
                    rows.format,
                    caps
                ]);
                ("first_run", arguments)
            }
            Command::Hold(most) => ("hold", json!([most])),
            Command::Release(shape) => ("release", json!([shape])),
            Command::DropHeld(shape) => ("drop_held", json!([shape])),
            Command::SimpleQuery { sql, copy, rows } => {
                ("simple_query", json!([sql, copy, rows.format, rows.caps()]))
            }
            Command::CopyData(length) => ("copy_data", json!([length])),
            Command::CopyEnd(reason) => ("copy_end", json!([reason])),
            Command::Batch { isolated, rows } => {
                ("batch", json!([isolated, rows.format, rows.caps()]))
            }
            Command::BatchStatement(Execute {
                shape, statement, ..
            }) => ("batch_statement", json!([shape, statement])),
            Command::BatchItems { items, end } => ("batch_items", json!([items, end])),
            Command::Prelude(sql) => ("prelude", json!([sql])),
            Command::Fetch => ("fetch", json!([])),
            Command::ClosePortal => ("close_portal", json!([])),
            Command::Forget(shape) => ("forget", json!([shape])),
            Command::Discard => ("discard", json!([])),
            Command::CancelRequest => ("cancel_request", json!([])),
            Command::Terminate => ("terminate", json!([])),
        };
        json!({ "call": method, "arguments": arguments })
    }
}
