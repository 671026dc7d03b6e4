//! The boundary: besides src/wasm-changes/lib.rs the only file that knows wasm-bindgen. tests/boundary.rs makes
//! docs/boundary.md from the comments here.
//!
//! Bytes, numbers and rare strings cross; a single row never does. Chunks and rows are in wasm memory and JavaScript
//! accesses them there, so a chunk costs one copy in and at most one out. Every call that can change the status of
//! [`Connection::status`] returns it.

// On other targets there is nothing to build.
#![cfg(target_arch = "wasm32")]
#![no_std]

extern crate alloc;

use alloc::string::String;
use alloc::vec::Vec;
use pgz_edge::boundary::{form, limits};
use pgz_edge::connection::caps::Caps;
use pgz_edge::connection::simple_query::Copy;
use pgz_edge::connection::{BatchEnd, Connection, ExecuteRequest, FirstRequest, Login, Settings};
use pgz_edge::encode::{RowForm, Types};
use wasm_bindgen::prelude::*;

/// std would bring its own allocator, and with it the texts of all panics.
#[global_allocator]
static ALLOCATOR: talc::wasm::WasmDynamicTalc = talc::wasm::new_wasm_dynamic_allocator();

/// A panic is a bug of ours. JavaScript sees the trap and drops the instance, so no message is needed.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}

/// The core of one connection.
#[wasm_bindgen]
pub struct CoreConnection {
    inner: Connection,
}

/// Requests a fresh instance, which the next call will use. That call must be [`restarted`]: the arguments of any other
/// call would be written into the memory of the old instance. Works after a trap, because it needs neither the stack
/// nor the memory, whatever state they are in.
#[wasm_bindgen]
pub fn restart() {
    wasm_bindgen::handler::schedule_reinit();
}

/// Does nothing itself. As the first call after [`restart`] it creates the fresh instance.
#[wasm_bindgen]
pub fn restarted() {}

/// JavaScript's numbers are doubles; integers up to 2^53 arrive exactly.
#[inline(never)]
fn caps(given: &[f64]) -> Caps {
    let at = |place: usize| given.get(place).copied().unwrap_or_default();
    Caps {
        rows: at(limits::ROWS) as u64,
        bytes: at(limits::BYTES) as u64,
        field_bytes: at(limits::FIELD_BYTES) as u64,
        truncate: at(limits::TRUNCATE) != 0.0,
        fetch: at(limits::FETCH) as u32,
    }
}

#[wasm_bindgen]
impl CoreConnection {
    /// A new connection; nothing is sent yet.
    /// - `max_message_bytes`: the longest message accepted from the server.
    /// - `statement_prefix`: random, so that two clients behind one pooler never share a name.
    /// - `statement_cache_size`: how many statements stay prepared. 0: every statement is unnamed.
    #[wasm_bindgen(constructor)]
    pub fn new(
        max_message_bytes: u32,
        statement_prefix: &str,
        statement_cache_size: u32,
    ) -> CoreConnection {
        CoreConnection {
            inner: Connection::new(Settings {
                max_message_bytes: max_message_bytes as usize,
                statement_prefix: statement_prefix.into(),
                statement_cache_size: statement_cache_size as usize,
            }),
        }
    }

    /// SSLRequest. The answer is a `tls` event.
    pub fn request_tls(&mut self) -> u32 {
        self.inner.request_tls();
        self.inner.status()
    }

    /// StartupMessage, and the settings that apply from then on.
    /// - `protocol_version`: one of `VERSION_…`.
    /// - `parameters`: each name and each value, followed by a NUL; includes `user`.
    /// - `password`: after SASLprep.
    /// - `nonce`: base64 of 18 random bytes.
    /// - `options`: bits, see below.
    /// - `min_iterations`: minimum number of PBKDF2 iterations that the server must ask for; 0 or 1: any number.
    /// - `max_iterations`: maximum number of PBKDF2 iterations that the server may ask for.
    /// - `flush_bytes`: the number of waiting row bytes from which the status says ROWS_FULL.
    /// - `channel_binding`: the hash of the server's certificate (tls-server-end-point); empty if there is none.
    #[allow(clippy::too_many_arguments)]
    pub fn start(
        &mut self,
        protocol_version: u32,
        parameters: &str,
        password: Option<String>,
        nonce: &str,
        options: u32,
        min_iterations: u32,
        max_iterations: u32,
        flush_bytes: u32,
        channel_binding: &[u8],
    ) -> u32 {
        self.inner.start(&Login {
            protocol_version,
            parameters,
            password: password.as_deref(),
            nonce,
            options,
            min_iterations,
            max_iterations,
            flush_bytes: flush_bytes as usize,
            channel_binding,
        });
        self.inner.status()
    }

    /// Answers a `keyDerivation` event (32 bytes) or an `md5` event (35 characters). At any other time, or with another
    /// length, the answer is dropped.
    pub fn prove(&mut self, answer: &[u8]) -> u32 {
        self.inner.prove(answer);
        self.inner.status()
    }

    /// A buffer for `count` bytes in wasm memory, into which JavaScript copies the socket's chunk. The call may grow
    /// the memory, which detaches older views of it. 0: there is no memory, and the connection has failed.
    pub fn input(&mut self, count: usize) -> *const u8 {
        match self.inner.input(count) {
            room if room.len() == count => room.as_ptr(),
            _ => core::ptr::null(),
        }
    }

    /// Reads `count` bytes from the buffer that `input` returned; 0 continues with waiting input. Besides the status,
    /// returns what the last message ended: see below.
    pub fn receive(&mut self, count: usize) -> u32 {
        let ended = self.inner.received(count);
        ended | self.inner.status()
    }

    /// How many rows the completed command counted: rows that were inserted, selected and so on. -1: it counts no rows.
    pub fn row_count(&self) -> f64 {
        self.inner.row_count().map_or(-1.0, |count| count as f64)
    }

    /// The words of the completed command's tag, such as `SELECT` or `CREATE TABLE`; empty for an empty query.
    pub fn command(&mut self) -> String {
        self.inner.command()
    }

    /// The bytes that must be written to the socket, in one write.
    pub fn take_output(&mut self) -> Vec<u8> {
        self.inner.take_output()
    }

    /// Address of the finished rows in wasm memory: whole rows only, valid until the next call other than these three.
    pub fn rows_pointer(&mut self) -> *const u8 {
        self.inner.rows().as_ptr()
    }

    /// Number of bytes of the finished rows.
    pub fn rows_length(&mut self) -> usize {
        self.inner.rows().len()
    }

    /// Clears the rows, after they were taken or because they are not wanted.
    pub fn rows_taken(&mut self) {
        self.inner.rows_taken();
    }

    /// All waiting events, oldest first: one JSON object per line.
    pub fn take_events(&mut self) -> String {
        self.inner.take_events()
    }

    /// Operation: Parse, Describe, Sync. A `shape` event reports the result.
    /// - `shape`: if it is not 0, the statement stays prepared for this shape.
    pub fn describe(&mut self, sql: &str, shape: u32) -> u32 {
        self.inner.describe(sql, shape);
        self.inner.status()
    }

    /// Describes the database's own types, and replaces all earlier descriptions. No operation.
    /// - `types`, `attributes`, `names`: the layout is in `src/types/catalog.rs`.
    pub fn define_types(&mut self, types: &[u32], attributes: &[u32], names: &str) {
        self.inner
            .define_types(Types::new(types, attributes, names));
    }

    /// Called if the server has not reported `integer_datetimes` as `on`: text format is then requested instead of
    /// binary where that would matter. No operation.
    pub fn float_times(&mut self) {
        self.inner.float_times();
    }

    /// Called when an observer listens for notices. No operation.
    pub fn want_notices(&mut self) {
        self.inner.want_notices();
    }

    /// 1 if the core can read the type in binary, as it is described. Needed for shapes with types of the database; the
    /// `shape` event answers for the built-in types.
    pub fn result_format(&self, type_oid: u32) -> u32 {
        self.inner.result_format(type_oid)
    }

    /// Operation: [Close …] [Parse] Bind, Describe, Execute, Sync.
    /// - `shape`: JavaScript's number for the statement, equal only for equal SQL and types.
    /// - `statement`: the end of Bind (int16 number of columns, an int16 format code for each, as the `shape` event
    ///   gave them), then the end of Parse (query, NUL, int16 number of parameters, an int32 type OID for each).
    /// - `parameters`: the middle of Bind (int16 number of format codes, an int16 for each, int16 number of values, for
    ///   each an int32 length, -1 for NULL, and its bytes).
    /// - `row_form`: a row format and bits, see below. The text before the first row comes with that row or with
    ///   ReadyForQuery; the text after the last row comes with ReadyForQuery. So a query that fails writes nothing, and
    ///   a result that is cut off has no clean end.
    /// - `limits`: see below.
    #[allow(clippy::too_many_arguments)]
    pub fn execute(
        &mut self,
        shape: u32,
        statement: &[u8],
        parameters: &[u8],
        row_form: u32,
        limits: &[f64],
    ) -> u32 {
        let request = ExecuteRequest {
            shape,
            statement,
            parameters,
            columns_known: row_form & form::COLUMNS_KNOWN != 0,
            parse_anew: row_form & form::PARSE_ANEW != 0,
        };
        self.inner
            .execute(&request, RowForm::from_code(row_form), caps(limits));
        self.inner.status()
    }

    /// Operation: Close, [Close …] Parse, Describe, the check ([Parse] Bind, Execute), Bind, Execute, Sync: the first
    /// run of a statement that has not been described, with values and rows as text. The first Close removes the
    /// statement of the previous first run, which has the same name. The `shape` event comes before the check runs.
    /// - `shape`: JavaScript's number for the statement.
    /// - `parameters`: as for `execute`, without format codes.
    /// - `check`: a guard statement that fails if the text format could mean something else than the binary format, or
    ///   if types of the columns must be looked up. Nothing has run then.
    /// - `check_shape`: JavaScript's number for the check, equal only for equal text. The check gets a name at its
    ///   second use; 0: never.
    /// - `row_form`, `limits`: as for `execute`.
    #[allow(clippy::too_many_arguments)]
    pub fn first_run(
        &mut self,
        shape: u32,
        sql: &str,
        parameters: &[u8],
        check: &str,
        check_shape: u32,
        row_form: u32,
        limits: &[f64],
    ) -> u32 {
        let request = FirstRequest {
            shape,
            query: sql,
            parameters,
            check,
            check_shape,
        };
        self.inner
            .first_run(&request, RowForm::from_code(row_form), caps(limits));
        self.inner.status()
    }

    /// Puts Parse, Bind, Execute of `sql`, a statement without parameters or rows, in front of the next `describe`,
    /// `execute`, `first_run` or `batch`, in the same flight and after earlier preludes. If `sql` fails, the server
    /// skips the rest. In a batch of isolated items, `sql` runs in front of each item.
    pub fn prelude(&mut self, sql: &str) {
        self.inner.prelude(sql);
    }

    /// Operation: Execute, Sync. Fetches more rows of the portal that an `execute` with LIMIT_FETCH left `suspended`.
    /// Plan and caps continue.
    pub fn fetch(&mut self) -> u32 {
        self.inner.fetch();
        self.inner.status()
    }

    /// Operation: Close of that portal, Sync.
    pub fn close_portal(&mut self) -> u32 {
        self.inner.close_portal();
        self.inner.status()
    }

    /// Operation: Query.
    /// - `copy`: one of `COPY_…`. Any other COPY in the text is refused.
    /// - `row_form`, `limits`: as for `execute`.
    pub fn simple_query(&mut self, sql: &str, copy: u32, row_form: u32, limits: &[f64]) -> u32 {
        let (copy, form) = (Copy::from_code(copy), RowForm::from_code(row_form));
        self.inner.simple_query(sql, copy, form, caps(limits));
        self.inner.status()
    }

    /// The header of a CopyData message. JavaScript writes the `length` bytes of data after it; passing them through
    /// wasm would copy them twice more. Writes nothing if the server no longer waits for data.
    pub fn copy_data(&mut self, length: u32) {
        self.inner.copy_data(length);
    }

    /// CopyDone, or CopyFail if there is a reason. Dropped if the server no longer waits for data.
    pub fn copy_end(&mut self, reason: Option<String>) -> u32 {
        self.inner.copy_end(reason.as_deref());
        self.inner.status()
    }

    /// Operation: a batch, whose statements and items follow.
    /// - `isolated`: a Sync follows each item.
    /// - `row_form`, `limits`: as for `execute`.
    pub fn batch(&mut self, isolated: bool, row_form: u32, limits: &[f64]) -> u32 {
        self.inner
            .batch(isolated, RowForm::from_code(row_form), caps(limits));
        self.inner.status()
    }

    /// Adds a statement to the batch, in the form that `execute` takes, and returns its number in the batch. At most as
    /// many statements get a name as the cache holds.
    pub fn batch_statement(&mut self, shape: u32, statement: &[u8]) -> u32 {
        self.inner.batch_statement(shape, statement) as u32
    }

    /// Parse (if needed), Bind, Describe (the first time), Execute for each item.
    /// - `items`: int32 statement, int32 length, the middle of Bind, for each; all big-endian.
    /// - `end`: one of `BATCH_…`.
    pub fn batch_items(&mut self, items: &[u8], end: u32) -> u32 {
        self.inner.batch_items(items, BatchEnd::from_code(end));
        self.inner.status()
    }

    /// Drops the shape's named statement. Its Close is sent with the next flight.
    pub fn forget(&mut self, shape: u32) {
        self.inner.forget(shape);
    }

    /// Discards rows of the current operation: they are read and dropped.
    pub fn discard(&mut self) -> u32 {
        self.inner.discard();
        self.inner.status()
    }

    /// CancelRequest, for a second socket. Empty until BackendKeyData arrives.
    pub fn cancel_request(&self) -> Vec<u8> {
        self.inner.cancel_request()
    }

    /// Whether operations are waiting for the login, so that no part of them has been sent.
    pub fn holds_back(&self) -> bool {
        self.inner.holds_back()
    }

    /// Terminate.
    pub fn terminate(&mut self) -> u32 {
        self.inner.terminate();
        self.inner.status()
    }
}
