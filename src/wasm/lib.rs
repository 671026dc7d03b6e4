//! The boundary: beside src/wasm-changes/lib.rs the only file that knows wasm-bindgen. tests/boundary.rs makes
//! docs/boundary.md from the comments here.
//!
//! Bytes, numbers and rare strings cross; a row never does by itself. Chunks and rows stand in wasm memory and
//! JavaScript looks at them there, so a chunk costs one copy in and at most one out. The status of
//! [`Connection::status`] is what every call that can change it returns.

// Elsewhere there is nothing to build.
#![cfg(target_arch = "wasm32")]
#![no_std]

extern crate alloc;

use alloc::string::String;
use alloc::vec::Vec;
use pgz_edge::boundary::{form, limits};
use pgz_edge::connection::limits::Caps;
use pgz_edge::connection::simple_query::Copy;
use pgz_edge::connection::{BatchEnd, Connection, FirstRequest, Login, Settings};
use pgz_edge::encode::{RowForm, Types};
use wasm_bindgen::prelude::*;

/// std would bring one, and with it the texts of all panics.
#[global_allocator]
static ALLOCATOR: talc::wasm::WasmDynamicTalc = talc::wasm::new_wasm_dynamic_allocator();

/// A panic is a bug of ours; JavaScript sees the trap and drops the instance, and nobody reads a message.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}

/// One connection's core.
#[wasm_bindgen]
pub struct CoreConnection {
    inner: Connection,
}

/// Asks for a fresh instance, which the next call finds: [`restarted`], since of other calls the arguments would be
/// written into the memory of the old one. Works after a trap: it needs neither the stack nor the memory, whatever
/// state they are in.
#[wasm_bindgen]
pub fn restart() {
    wasm_bindgen::handler::schedule_reinit();
}

/// Does nothing by itself: as the first call after [`restart`] it makes the fresh instance.
#[wasm_bindgen]
pub fn restarted() {}

/// JavaScript's numbers are doubles; whole ones up to 2^53 arrive exactly.
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
    /// Nothing is on the wire yet.
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

    /// StartupMessage, and what the connection needs to know from then on.
    /// - `protocol_version`: one of `VERSION_…`.
    /// - `parameters`: each name and each value with a NUL behind it, `user` too.
    /// - `password`: after SASLprep.
    /// - `nonce`: base64 of 18 random bytes.
    /// - `options`: bits, see below.
    /// - `min_iterations`: the fewest rounds of PBKDF2 that a server may ask for; 0 or 1: any number.
    /// - `max_iterations`: the most rounds of PBKDF2 that a server may ask for.
    /// - `flush_bytes`: from this many waiting row bytes on the status says ROWS_FULL.
    /// - `channel_binding`: the hash of the server's certificate (tls-server-end-point); empty without one.
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

    /// Answers a `keyDerivation` event (32 bytes) or an `md5` event (35 characters). At another time, or in another
    /// length, it is dropped.
    pub fn prove(&mut self, answer: &[u8]) -> u32 {
        self.inner.prove(answer);
        self.inner.status()
    }

    /// Room for `count` bytes in wasm memory, where JavaScript copies the socket's chunk. The call may grow the memory,
    /// which detaches older views of it. 0: there is no memory for them, and the connection has failed.
    pub fn input(&mut self, count: usize) -> *const u8 {
        match self.inner.input(count) {
            room if room.len() == count => room.as_ptr(),
            _ => core::ptr::null(),
        }
    }

    /// `count` bytes now stand in the room that `input` gave. 0: go on with input that waits. Also returns what has
    /// ended with it: see below.
    pub fn receive(&mut self, count: usize) -> u32 {
        let ended = self.inner.received(count);
        ended | self.inner.status()
    }

    /// How many rows the command that is complete counted: as they were inserted, selected and so on. -1: it counts
    /// none.
    pub fn row_count(&self) -> f64 {
        self.inner.row_count().map_or(-1.0, |count| count as f64)
    }

    /// The words of its tag, such as `SELECT` or `CREATE TABLE`; empty for an empty query.
    pub fn command(&mut self) -> String {
        self.inner.command()
    }

    /// What must be written to the socket, in one write.
    pub fn take_output(&mut self) -> Vec<u8> {
        self.inner.take_output()
    }

    /// Where the finished rows stand in wasm memory: whole rows only, valid until the next call other than these
    /// three.
    pub fn rows_pointer(&mut self) -> *const u8 {
        self.inner.rows().as_ptr()
    }

    /// How many bytes they are.
    pub fn rows_length(&mut self) -> usize {
        self.inner.rows().len()
    }

    /// The rows have been taken, or nobody wants them.
    pub fn rows_taken(&mut self) {
        self.inner.rows_taken();
    }

    /// All events that wait, oldest first: a JSON object per line.
    pub fn take_events(&mut self) -> String {
        self.inner.take_events()
    }

    /// Operation: Parse, Describe, Sync. A `shape` event tells the result.
    /// - `shape`: where it is not 0, the statement stays prepared for this shape.
    pub fn describe(&mut self, sql: &str, shape: u32) -> u32 {
        self.inner.describe(sql, shape);
        self.inner.status()
    }

    /// Describes the database's own types: all that the core is to know from now on. No operation.
    /// - `types`, `attributes`, `names`: the layout is in `src/types/catalog.rs`.
    pub fn define_types(&mut self, types: &[u32], attributes: &[u32], names: &str) {
        self.inner
            .define_types(Types::new(types, attributes, names));
    }

    /// The server has not reported `integer_datetimes` as `on`: text is asked for instead of binary where that may
    /// show. No operation.
    pub fn float_times(&mut self) {
        self.inner.float_times();
    }

    /// 1 where the core can read the type in binary, as described. For shapes with types of the database; the `shape`
    /// event answers for the built-in ones.
    pub fn result_format(&self, type_oid: u32) -> u32 {
        self.inner.result_format(type_oid)
    }

    /// Operation: [Close …] [Parse] Bind, Describe, Execute, Sync.
    /// - `shape`: JavaScript's number for the statement, equal only for equal SQL and types.
    /// - `statement`: what Bind ends with (int16 number of columns, an int16 format code for each, as the `shape` event
    ///   gave them), then what Parse
    ///   ends with (query, NUL, int16 number of parameters, an int32 type OID for each).
    /// - `parameters`: the middle of Bind (int16 number of format codes, an int16 for each, int16 number of values, for
    ///   each an int32 length, -1 for
    ///   NULL, and its bytes).
    /// - `row_form`: a row format and bits, see below. What stands before the first row comes with it or with
    ///   ReadyForQuery, what stands behind the
    ///   last row with ReadyForQuery: a query that fails writes nothing, and one that is cut off has no clean end.
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
        let columns_known = row_form & form::COLUMNS_KNOWN != 0;
        self.inner.execute(
            shape,
            statement,
            parameters,
            RowForm::from_code(row_form),
            columns_known,
            caps(limits),
        );
        self.inner.status()
    }

    /// Operation: Close, [Close …] Parse, the check ([Parse] Bind, Execute), Describe, Bind, Execute, Sync: the first run
    /// of a statement that has not been described, with values and rows as text. The first Close removes the statement
    /// of the first run before, which has the same name. Its `shape` event comes before its rows.
    /// - `shape`: JavaScript's number for it, for `release`.
    /// - `parameters`: as of `execute`, without format codes.
    /// - `check`: a statement that fails where text would not mean what binary does; nothing has run then. Where
    ///   `checks_types` says so, it has one parameter: the text of `sql`.
    /// - `check_shape`: JavaScript's number for the check, equal only for equal text, by which it gets a name at its
    ///   second use; 0: never.
    /// - `row_form`, `limits`: as of `execute`.
    #[allow(clippy::too_many_arguments)]
    pub fn first_run(
        &mut self,
        shape: u32,
        sql: &str,
        parameters: &[u8],
        check: &str,
        check_shape: u32,
        checks_types: bool,
        row_form: u32,
        limits: &[f64],
    ) -> u32 {
        let request = FirstRequest {
            shape,
            query: sql,
            parameters,
            check,
            check_shape,
            checks_types,
        };
        self.inner
            .first_run(&request, RowForm::from_code(row_form), caps(limits));
        self.inner.status()
    }

    /// At the `shape` event of a first run: its rows wait in the core for `release`. When they have more than `most`
    /// bytes they are dropped, as a `tooManyHeld` event says.
    pub fn hold(&mut self, most: usize) {
        self.inner.hold(most);
    }

    /// The types of these rows, whose run is over, are described as far as they can be: an operation of its own,
    /// without a flight.
    pub fn release(&mut self, shape: u32) -> u32 {
        self.inner.release(shape);
        self.inner.status()
    }

    /// Nobody wants the rows that wait for `release`.
    pub fn drop_held(&mut self, shape: u32) {
        self.inner.drop_held(shape);
    }

    /// Puts Parse, Bind, Execute of `sql`, a statement without parameters or rows, in front of the next `describe`,
    /// `execute`, `first_run` or `batch`, in its flight and behind earlier preludes. Where `sql` fails, the server
    /// skips the rest. In a batch of isolated items it stands in front of each.
    pub fn prelude(&mut self, sql: &str) {
        self.inner.prelude(sql);
    }

    /// Operation: Execute, Sync. More rows of the portal that an `execute` with LIMIT_FETCH left `suspended`. Plan
    /// and caps go on.
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
    /// - `row_form`, `limits`: as of `execute`.
    pub fn simple_query(&mut self, sql: &str, copy: u32, row_form: u32, limits: &[f64]) -> u32 {
        let (copy, form) = (Copy::from_code(copy), RowForm::from_code(row_form));
        self.inner.simple_query(sql, copy, form, caps(limits));
        self.inner.status()
    }

    /// The header of a CopyData message. JavaScript writes the `length` bytes of data behind it; through wasm they
    /// would be copied twice more. Nothing when the server waits for no data any more.
    pub fn copy_data(&mut self, length: u32) {
        self.inner.copy_data(length);
    }

    /// CopyDone; with a reason CopyFail. Dropped when the server waits for no data any more.
    pub fn copy_end(&mut self, reason: Option<String>) -> u32 {
        self.inner.copy_end(reason.as_deref());
        self.inner.status()
    }

    /// Operation: a batch, whose statements and items follow.
    /// - `isolated`: a Sync behind each item.
    /// - `row_form`, `limits`: as of `execute`.
    pub fn batch(&mut self, isolated: bool, row_form: u32, limits: &[f64]) -> u32 {
        self.inner
            .batch(isolated, RowForm::from_code(row_form), caps(limits));
        self.inner.status()
    }

    /// A statement of the batch, given as to `execute`; returns its number in the batch. As many are named as the
    /// cache holds.
    pub fn batch_statement(&mut self, shape: u32, statement: &[u8]) -> u32 {
        self.inner.batch_statement(shape, statement) as u32
    }

    /// Parse (where needed), Bind, Describe (the first time), Execute for each item.
    /// - `items`: int32 statement, int32 length, the middle of Bind, for each; all big-endian.
    /// - `end`: one of `BATCH_…`.
    pub fn batch_items(&mut self, items: &[u8], end: u32) -> u32 {
        self.inner.batch_items(items, BatchEnd::from_code(end));
        self.inner.status()
    }

    /// Drops the shape's named statement. Its Close goes out with the next flight.
    pub fn forget(&mut self, shape: u32) {
        self.inner.forget(shape);
    }

    /// Rows of the current operation are not wanted any more: they are read and dropped.
    pub fn discard(&mut self) -> u32 {
        self.inner.discard();
        self.inner.status()
    }

    /// CancelRequest, for a second socket. Empty before BackendKeyData has come.
    pub fn cancel_request(&self) -> Vec<u8> {
        self.inner.cancel_request()
    }

    /// Whether operations wait for the server to let us in, so that nothing of them has left.
    pub fn holds_back(&self) -> bool {
        self.inner.holds_back()
    }

    /// Terminate.
    pub fn terminate(&mut self) -> u32 {
        self.inner.terminate();
        self.inner.status()
    }
}
