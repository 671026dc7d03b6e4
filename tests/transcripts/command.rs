//! The caller's commands to the core, as lines of a transcript (tests/transcripts/README.md lists them).
//!
//! A command is a method of `CoreConnection` with its arguments as JSON, which the wasm runner takes as it is.
//! [`Command::run`] makes the same call of `Connection`.

#![allow(
    dead_code,
    reason = "the tests transcripts and properties each use a part"
)]

use crate::file::{Call, text};
use crate::trace::{Printer, Tokens};
use pgz_edge::boundary::{batch, copy, form, limits, login, protocol, rows as row_format};
use pgz_edge::connection::caps::Caps;
use pgz_edge::connection::simple_query::Copy;
use pgz_edge::connection::{BatchEnd, Connection, ExecuteRequest, FirstRequest, Login, Settings};
use pgz_edge::encode::{RowForm, RowFormat};
use serde::Deserialize;
use serde_json::{Value, json};

/// One call.
#[derive(Debug, Clone)]
pub struct Command {
    pub method: String,
    arguments: Value,
}

/// The format and the caps of rows, while their options are read.
struct Rows {
    /// The number by which JavaScript passes the format and its options.
    format: u32,
    limits: [u64; 5],
}

impl Rows {
    fn new() -> Self {
        Rows {
            format: row_format::NDJSON,
            limits: [0; 5],
        }
    }

    /// Returns the caps as JavaScript passes them.
    fn limits(&self) -> Value {
        json!({ "f64": self.limits })
    }
}

/// The caps as an argument.
#[derive(Deserialize)]
struct Limits {
    f64: [u64; 5],
}

impl Limits {
    fn caps(&self) -> Caps {
        Caps {
            rows: self.f64[limits::ROWS],
            bytes: self.f64[limits::BYTES],
            field_bytes: self.f64[limits::FIELD_BYTES],
            truncate: self.f64[limits::TRUNCATE] != 0,
            fetch: self.f64[limits::FETCH] as u32,
        }
    }
}

/// The arguments of `start`, in order.
#[derive(Deserialize)]
struct Start {
    version: u32,
    parameters: String,
    password: Option<String>,
    nonce: String,
    options: u32,
    min_iterations: u32,
    max_iterations: u32,
    flush_bytes: usize,
    channel_binding: Vec<u8>,
}

/// The arguments of `execute`, in order.
#[derive(Deserialize)]
struct Execute {
    shape: u32,
    statement: Vec<u8>,
    parameters: Vec<u8>,
    format: u32,
    limits: Limits,
}

/// The arguments of `first_run`, in order.
#[derive(Deserialize)]
struct FirstRun {
    shape: u32,
    query: String,
    parameters: Vec<u8>,
    check: String,
    check_shape: u32,
    format: u32,
    limits: Limits,
}

impl Call for Command {
    fn parse(line: &str) -> Result<Command, String> {
        let mut tokens = Tokens::new(line);
        let word = tokens.word()?;
        let (method, arguments) = call(&word, &mut tokens)?;
        tokens.end()?;
        Ok(Command {
            method: method.to_owned(),
            arguments,
        })
    }

    /// A CancelRequest is the first message of another connection.
    fn printer(&self) -> Option<Printer> {
        (self.method == "cancel_request").then(Printer::default)
    }
}

/// Returns the method of `CoreConnection` and its arguments.
fn call<'a>(word: &'a str, tokens: &mut Tokens<'_>) -> Result<(&'a str, Value), String> {
    let arguments = match word {
        "settings" => {
            let max_message_bytes: u32 = option(tokens, "max_message_bytes")?.number()?;
            let statement_prefix = text(option(tokens, "statement_prefix")?)?;
            let statement_cache_size: u32 = option(tokens, "statement_cache_size")?.number()?;
            let arguments = json!([max_message_bytes, statement_prefix, statement_cache_size]);
            return Ok(("constructor", arguments));
        }
        "start" => start(tokens)?,
        "prove" => json!([tokens.quoted('\'')?]),
        "describe" => {
            let sql = text(tokens)?;
            let shape: u32 = if tokens.more() { tokens.number()? } else { 0 };
            json!([sql, shape])
        }
        "execute" => {
            let (shape, statement, parameters, rows) = execute(tokens)?;
            json!([shape, statement, parameters, rows.format, rows.limits()])
        }
        "batch_statement" => {
            let (shape, statement, ..) = execute(tokens)?;
            json!([shape, statement])
        }
        "first_run" => first_run(tokens)?,
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
            json!([sql, copy, rows.format, rows.limits()])
        }
        "copy_end" => match tokens.more() {
            true => json!([text(tokens)?]),
            false => json!([null]),
        },
        "batch" => {
            let mut isolated = false;
            let rows = rows(tokens, |word| {
                isolated |= word == "isolated";
                word == "isolated"
            })?;
            json!([isolated, rows.format, rows.limits()])
        }
        "batch_item" => return Ok(("batch_items", json!([item(tokens)?, batch::CONTINUES]))),
        "batch_end" => return Ok(("batch_items", json!([[], batch::ENDS]))),
        "batch_undo" => return Ok(("batch_items", json!([[], batch::IS_UNDONE]))),
        "prelude" => json!([text(tokens)?]),
        "copy_data" | "forget" => {
            json!([tokens.number::<u32>()?])
        }
        "request_tls" | "fetch" | "close_portal" | "discard" | "cancel_request" | "terminate"
        | "want_notices" => json!([]),
        other => return Err(format!("no command is named {other}")),
    };
    Ok((word, arguments))
}

fn start(tokens: &mut Tokens<'_>) -> Result<Value, String> {
    let version = tokens.word()?;
    let minor: u32 = version
        .strip_prefix("3.")
        .and_then(|minor| minor.parse().ok())
        .ok_or("a version is 3.0 or 3.2")?;
    let mut parameters = String::new();
    while tokens.peek() == Some('"') {
        parameters += &(text(tokens)? + "\0");
    }
    let (mut password, mut nonce, mut channel_binding) = (None, String::new(), vec![]);
    let mut options = login::AUTH_TRUST;
    let (mut min_iterations, mut max_iterations) = (0, 100_000);
    while tokens.more() {
        match tokens.word()?.as_str() {
            "password" => password = Some(text(tokens)?),
            "nonce" => nonce = text(tokens)?,
            "allowed" => options = tokens.number()?,
            "min_iterations" => min_iterations = tokens.number()?,
            "max_iterations" => max_iterations = tokens.number()?,
            "external_key_derivation" => options |= login::EXTERNAL_KEY_DERIVATION,
            "early_query" => options |= login::EARLY_QUERY,
            "scram_first" => options |= login::SCRAM_FIRST,
            "scram_plus_first" => options |= login::SCRAM_FIRST | login::SCRAM_PLUS_FIRST,
            "channel_binding_required" => options |= login::CHANNEL_BINDING_REQUIRED,
            "channel_binding" => channel_binding = text(tokens)?.into_bytes(),
            "cleartext_first" => options |= login::CLEARTEXT_FIRST,
            other => return Err(format!("no option is named {other}")),
        }
    }
    let version = protocol::VERSION_3_0 + minor;
    let flush_bytes = 1 << 16;
    Ok(json!([
        version,
        parameters,
        password,
        nonce,
        options,
        min_iterations,
        max_iterations,
        flush_bytes,
        channel_binding
    ]))
}

/// Returns the shape, the last parts of Bind and Parse, the middle part of Bind, and the rows.
fn execute(tokens: &mut Tokens<'_>) -> Result<(u32, Vec<u8>, Vec<u8>, Rows), String> {
    let (shape, sql) = (tokens.number()?, text(tokens)?);
    let (mut types, mut formats) = (vec![], vec![]);
    let mut parameters = Parameters::default();
    let rows = rows_with(tokens, |word, tokens| {
        match word {
            "types" => types = numbers(tokens)?,
            "formats" => formats = numbers(tokens)?,
            word => return parameters.option(word, tokens),
        }
        Ok(true)
    })?;
    let statement = statement(&sql, &types, &formats);
    Ok((shape, statement, parameters.block(), rows))
}

fn first_run(tokens: &mut Tokens<'_>) -> Result<Value, String> {
    let (shape, sql, check) = (tokens.number::<u32>()?, text(tokens)?, text(tokens)?);
    let mut check_shape = 0_u32;
    let mut parameters = Parameters::default();
    let rows = rows_with(tokens, |word, tokens| {
        match word {
            "check_shape" => check_shape = tokens.number()?,
            word => return parameters.option(word, tokens),
        }
        Ok(true)
    })?;
    let (block, limits) = (parameters.block(), rows.limits());
    Ok(json!([
        shape,
        sql,
        block,
        check,
        check_shape,
        rows.format,
        limits
    ]))
}

/// Returns the bytes of one item of a batch.
fn item(tokens: &mut Tokens<'_>) -> Result<Vec<u8>, String> {
    let number: u32 = tokens.number()?;
    let mut parameters = Parameters::default();
    while tokens.more() {
        let word = tokens.word()?;
        if !parameters.option(&word, tokens)? {
            return Err(format!("no option is named {word}"));
        }
    }
    let block = parameters.block();
    let length = block.len() as u32;
    Ok([&number.to_be_bytes()[..], &length.to_be_bytes(), &block].concat())
}

/// The formats and values of parameters.
#[derive(Default)]
struct Parameters {
    codes: Vec<u16>,
    values: Vec<Option<Vec<u8>>>,
}

impl Parameters {
    /// Parses an option about parameters. Returns false for any other option.
    fn option(&mut self, word: &str, tokens: &mut Tokens<'_>) -> Result<bool, String> {
        match word {
            "parameter_formats" => self.codes = numbers(tokens)?,
            "null" => self.values.push(None),
            "value" => self.values.push(Some(tokens.quoted('\'')?)),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns the middle part of Bind: parameter formats and values.
    fn block(&self) -> Vec<u8> {
        let mut block = (self.codes.len() as u16).to_be_bytes().to_vec();
        block.extend(self.codes.iter().flat_map(|code| code.to_be_bytes()));
        block.extend((self.values.len() as u16).to_be_bytes());
        for value in &self.values {
            let length = value.as_ref().map_or(-1, |value| value.len() as i32);
            block.extend(length.to_be_bytes().iter().chain(value.iter().flatten()));
        }
        block
    }
}

/// Returns the last parts of Bind and Parse of a statement.
fn statement(sql: &str, types: &[u32], formats: &[u8]) -> Vec<u8> {
    let mut bytes = (formats.len() as u16).to_be_bytes().to_vec();
    bytes.extend(formats.iter().flat_map(|code| [0, *code]));
    bytes.extend(sql.bytes().chain([0]));
    bytes.extend((types.len() as u16).to_be_bytes());
    bytes.extend(types.iter().flat_map(|oid| oid.to_be_bytes()));
    bytes
}

/// Parses the options of rows, except those that `other` takes.
fn rows(tokens: &mut Tokens<'_>, mut other: impl FnMut(&str) -> bool) -> Result<Rows, String> {
    rows_with(tokens, |word, _| Ok(other(word)))
}

/// The same for options that read more tokens.
fn rows_with<'a>(
    tokens: &mut Tokens<'a>,
    mut other: impl FnMut(&str, &mut Tokens<'a>) -> Result<bool, String>,
) -> Result<Rows, String> {
    let mut rows = Rows::new();
    while tokens.more() {
        let word = tokens.word()?;
        if !other(&word, tokens)? {
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
        "parse_anew" => rows.format |= form::PARSE_ANEW,
        "field_bytes" => rows.limits[limits::FIELD_BYTES] = tokens.number()?,
        "truncate" => rows.limits[limits::TRUNCATE] = 1,
        "fetch" => rows.limits[limits::FETCH] = tokens.number()?,
        "rows" => rows.limits[limits::ROWS] = tokens.number()?,
        "bytes" => rows.limits[limits::BYTES] = tokens.number()?,
        other => {
            let format = public_format(other);
            rows.format = format.ok_or_else(|| format!("no option is named {other}"))?;
        }
    }
    Ok(())
}

/// Returns the number of a format that callers can request.
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

impl Command {
    fn arguments<'a, T: Deserialize<'a>>(&'a self) -> T {
        T::deserialize(&self.arguments).expect("the arguments are those of the method")
    }

    /// Makes the call. Bytes that it returns besides the connection's output count as output.
    pub fn run(&self, connection: &mut Connection) -> Vec<u8> {
        match self.method.as_str() {
            "constructor" => {
                let (max_message_bytes, statement_prefix, statement_cache_size) = self.arguments();
                *connection = Connection::new(Settings {
                    max_message_bytes,
                    statement_prefix,
                    statement_cache_size,
                });
            }
            "request_tls" => connection.request_tls(),
            "start" => {
                let start: Start = self.arguments();
                connection.start(&Login {
                    protocol_version: start.version,
                    parameters: &start.parameters,
                    password: start.password.as_deref(),
                    nonce: &start.nonce,
                    options: start.options,
                    min_iterations: start.min_iterations,
                    max_iterations: start.max_iterations,
                    flush_bytes: start.flush_bytes,
                    channel_binding: &start.channel_binding,
                });
            }
            "prove" => connection.prove(&self.arguments::<(Vec<u8>,)>().0),
            "describe" => {
                let (sql, shape): (String, _) = self.arguments();
                connection.describe(&sql, shape);
            }
            "execute" => {
                let run: Execute = self.arguments();
                let request = ExecuteRequest {
                    shape: run.shape,
                    statement: &run.statement,
                    parameters: &run.parameters,
                    columns_known: run.format & form::COLUMNS_KNOWN != 0,
                    parse_anew: run.format & form::PARSE_ANEW != 0,
                };
                connection.execute(&request, RowForm::from_code(run.format), run.limits.caps());
            }
            "first_run" => {
                let run: FirstRun = self.arguments();
                let request = FirstRequest {
                    shape: run.shape,
                    query: &run.query,
                    parameters: &run.parameters,
                    check: &run.check,
                    check_shape: run.check_shape,
                };
                connection.first_run(&request, RowForm::from_code(run.format), run.limits.caps());
            }
            "simple_query" => {
                let (sql, copy, format, limits): (String, _, _, Limits) = self.arguments();
                let (copy, form) = (Copy::from_code(copy), RowForm::from_code(format));
                connection.simple_query(&sql, copy, form, limits.caps());
            }
            "copy_data" => connection.copy_data(self.arguments::<(_,)>().0),
            "copy_end" => {
                let (reason,): (Option<String>,) = self.arguments();
                connection.copy_end(reason.as_deref());
            }
            "batch" => {
                let (isolated, format, limits): (_, _, Limits) = self.arguments();
                connection.batch(isolated, RowForm::from_code(format), limits.caps());
            }
            "batch_statement" => {
                let (shape, statement): (_, Vec<u8>) = self.arguments();
                connection.batch_statement(shape, &statement);
            }
            "batch_items" => {
                let (items, end): (Vec<u8>, _) = self.arguments();
                connection.batch_items(&items, BatchEnd::from_code(end));
            }
            "prelude" => connection.prelude(&self.arguments::<(String,)>().0),
            "fetch" => connection.fetch(),
            "close_portal" => connection.close_portal(),
            "forget" => connection.forget(self.arguments::<(_,)>().0),
            "discard" => connection.discard(),
            "cancel_request" => return connection.cancel_request(),
            "terminate" => connection.terminate(),
            "want_notices" => connection.want_notices(),
            other => panic!("no method is named {other}"),
        }
        vec![]
    }

    /// Returns the method of `CoreConnection` and its arguments.
    pub fn to_json(&self) -> Value {
        json!({ "call": self.method, "arguments": self.arguments })
    }
}
