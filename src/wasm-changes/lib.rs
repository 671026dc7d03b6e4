//! The boundary of the second wasm: a replication connection, for `pgz-edge/changes`. The only other file that knows
//! wasm-bindgen is src/wasm/lib.rs, which gives the reasons for the allocator and the panic handler.

// On other targets there is nothing to build.
#![cfg(target_arch = "wasm32")]
#![no_std]

extern crate alloc;

use alloc::string::String;
use alloc::vec::Vec;
use pgz_edge::boundary::{form, rows};
use pgz_edge::encode::{AsStrings, Types};
use pgz_edge::replication::{Options, Replication, Table};
use wasm_bindgen::prelude::*;

#[global_allocator]
static ALLOCATOR: talc::wasm::WasmDynamicTalc = talc::wasm::new_wasm_dynamic_allocator();

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}

/// One stream of changes, over all its connections.
#[wasm_bindgen]
pub struct ChangesCore {
    inner: Replication,
}

/// Requests a fresh instance, which the next call will use.
#[wasm_bindgen]
pub fn restart_changes() {
    wasm_bindgen::handler::schedule_reinit();
}

#[wasm_bindgen]
impl ChangesCore {
    /// A stream before its first connection.
    /// - `max_message_bytes`: the longest message accepted from the server.
    /// - `row_form`: ROWS_COLUMNS for objects, ROWS_NDJSON for lines, and the bits INT8_AS_STRING, NUMERIC_AS_STRING,
    ///   JSON_AS_STRING, CAMEL_CASE.
    /// - `streams`: START_REPLICATION will ask for parts of open transactions.
    #[wasm_bindgen(constructor)]
    pub fn new(max_message_bytes: u32, row_form: u32, streams: bool) -> ChangesCore {
        let has = |bit| row_form & bit != 0;
        let options = Options {
            objects: row_form & form::ROWS_FORMAT == rows::COLUMNS,
            strings: AsStrings {
                int8: has(form::INT8_AS_STRING),
                numeric: has(form::NUMERIC_AS_STRING),
                json: has(form::JSON_AS_STRING),
            },
            camel_case: has(form::CAMEL_CASE),
            streams,
        };
        ChangesCore {
            inner: Replication::new(max_message_bytes as usize, options),
        }
    }

    /// Starts the next connection of the stream. Transactions that were yielded are dropped: those whose commit ends at
    /// or before `yielded`, and those that are recognised by their id.
    pub fn restart(&mut self, yielded: u64) {
        self.inner.restart(yielded);
    }

    /// Describes the database's own types. Same arguments as `define_types` of the driver's core (src/wasm/lib.rs).
    pub fn define_types(&mut self, types: &[u32], attributes: &[u32], names: &str) {
        self.inner
            .define_types(Types::new(types, attributes, names));
    }

    /// Takes the OIDs of types that a table has and that are not described yet. After that, call `receive(0)` to
    /// continue.
    pub fn take_wanted_types(&mut self) -> Vec<u32> {
        self.inner.take_wanted_types()
    }

    /// Query: a command of the replication protocol.
    pub fn command(&mut self, text: &str) {
        self.inner.command(text);
    }

    /// Describes a table whose rows `copy` requests next. `take_wanted_types` may return types to describe before
    /// that.
    /// - `names`: of its schema, of the table and of its columns, each followed by a NUL.
    /// - `columns`: three numbers each: 1 if the column belongs to the replica identity, else 0; type OID; type
    ///   modifier.
    /// - `at`: the WAL position at which the slot starts.
    pub fn snapshot_table(
        &mut self,
        oid: u32,
        replica_identity: u8,
        names: &str,
        columns: &[u32],
        at: u64,
    ) {
        let (columns, _) = columns.as_chunks();
        let table = Table {
            oid,
            replica_identity,
            names,
            columns,
        };
        self.inner.snapshot_table(table, at);
    }

    /// Query: a COPY TO STDOUT in text format. The rows are those of table `oid`, and become lines.
    pub fn copy(&mut self, text: &str, oid: u32) {
        self.inner.copy(text, oid);
    }

    /// Ends the snapshot: all tables have been read. Writes the line that says so; commits up to `at` count as read.
    pub fn snapshot_over(&mut self, at: u64) {
        self.inner.snapshot_over(at);
    }

    /// A status update: the server may discard WAL before `flushed`.
    /// - `clock`: microseconds since 2000-01-01.
    pub fn update_status(&mut self, flushed: u64, clock: i64, wants_answer: bool) {
        self.inner.update_status(flushed, clock, wants_answer);
    }

    /// Terminate.
    pub fn terminate(&mut self) {
        self.inner.terminate();
    }

    /// The bytes that must be written to the socket, in one write.
    pub fn take_output(&mut self) -> Vec<u8> {
        self.inner.take_output()
    }

    /// A buffer for `count` bytes in wasm memory. 0: there is no memory, and the connection has failed.
    pub fn input(&mut self, count: usize) -> *const u8 {
        if self.inner.input(count).len() < count {
            self.inner.has_no_memory();
            return core::ptr::null();
        }
        self.inner.input(count).as_ptr()
    }

    /// Reads `count` bytes from that buffer. Returns what has happened: bits `CHANGES_…`.
    pub fn receive(&mut self, count: usize) -> u32 {
        self.inner.received(count)
    }

    /// Completes the output for the changes read so far: lines, or a batch for objects (src/replication/batch.rs).
    /// Returns its length.
    pub fn seal(&mut self) -> usize {
        self.inner.seal()
    }

    /// Address of that output in wasm memory, valid until the next call.
    pub fn changes_pointer(&self) -> *const u8 {
        self.inner.changes().as_ptr()
    }

    /// Drops that output after it has been taken.
    pub fn changes_taken(&mut self) {
        self.inner.changes_taken();
    }

    /// Takes the NoticeResponses that have arrived, as a JSON array: each by the names of its fields.
    pub fn take_notices(&mut self) -> String {
        self.inner.take_notices()
    }

    /// Takes the answer to the last command, as JSON: its rows, or its error. Commands that were sent together have one
    /// answer.
    pub fn take_answer(&mut self) -> String {
        self.inner.take_answer()
    }

    /// Why the connection has failed, as JSON; empty if it has not.
    pub fn failure(&self) -> String {
        self.inner.failure()
    }

    /// The end of the server's WAL, as last reported.
    pub fn end(&self) -> u64 {
        self.inner.end()
    }

    /// Position after the last commit that was read.
    pub fn committed(&self) -> u64 {
        self.inner.committed()
    }

    /// Whether the stream is between two transactions.
    pub fn is_outside(&self) -> bool {
        self.inner.is_outside()
    }
}
