//! The boundary: the only file that knows wasm-bindgen. docs/architecture.md, "The boundary", documents every call.
//!
//! Bytes, numbers and rare strings cross; a row never does by itself. Chunks and rows stand in wasm memory and JavaScript
//! looks at them there, so a chunk costs one copy in and at most one out. The status of [`Connection::status`] is what every
//! call that can change it returns.

// Elsewhere there is nothing to build.
#![cfg(target_arch = "wasm32")]
#![no_std]

extern crate alloc;

use alloc::string::String;
use alloc::vec::Vec;
use pgz_edge::connection::limits::Caps;
use pgz_edge::connection::simple_query::Copy;
use pgz_edge::connection::{BatchEnd, Connection, Login, Settings};
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

/// Asks for a fresh instance, which the next call finds: [`restarted`], since of other calls the arguments would be written into
/// the memory of the old one. Works after a trap: it needs neither the stack nor the memory, whatever state they are in.
#[wasm_bindgen]
pub fn restart() {
    wasm_bindgen::handler::schedule_reinit();
}

/// Does nothing by itself: as the first call after [`restart`] it makes the fresh instance.
#[wasm_bindgen]
pub fn restarted() {}

/// A bit of `execute`'s form beyond those of [`RowForm::from_code`].
const COLUMNS_KNOWN: u32 = 0x2000;

/// [rows, bytes, bytes of a field, 1 to truncate], and perhaps rows of one Execute. JavaScript's numbers are doubles; whole ones up to 2^53 arrive exactly.
#[inline(never)]
fn caps(caps: &[f64]) -> Caps {
    match *caps {
        [rows, bytes, field_bytes, truncate, ref fetch @ ..] => Caps {
            rows: rows as u64,
            bytes: bytes as u64,
            field_bytes: field_bytes as u64,
            truncate: truncate != 0.0,
            fetch: fetch.first().map_or(0, |rows| *rows as u32),
        },
        _ => Caps::default(),
    }
}

#[wasm_bindgen]
impl CoreConnection {
    /// Nothing is on the wire yet. Statement cache size 0: every statement is unnamed.
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

    /// SSLRequest.
    pub fn request_tls(&mut self) -> u32 {
        self.inner.request_tls();
        self.inner.status()
    }

    /// StartupMessage, and all that is to be known for the rest of it.
    #[allow(clippy::too_many_arguments)]
    pub fn start(
        &mut self,
        protocol_version: u32,
        parameters: &str,
        password: Option<String>,
        nonce: &str,
        options: u32,
        max_iterations: u32,
        flush_bytes: u32,
    ) -> u32 {
        self.inner.start(&Login {
            protocol_version,
            parameters,
            password: password.as_deref(),
            nonce,
            options,
            max_iterations,
            flush_bytes: flush_bytes as usize,
        });
        self.inner.status()
    }

    /// The answer to a `keyDerivation` or `md5` event.
    pub fn prove(&mut self, answer: &[u8]) -> u32 {
        self.inner.prove(answer);
        self.inner.status()
    }

    /// Room for `count` bytes, for JavaScript to copy the socket's chunk to.
    pub fn input(&mut self, count: usize) -> *const u8 {
        match self.inner.input(count) {
            room if room.len() == count => room.as_ptr(),
            _ => core::ptr::null(),
        }
    }

    /// `count` bytes stand there now; 0: go on with parked input.
    pub fn receive(&mut self, count: usize) -> u32 {
        self.inner.received(count);
        self.inner.status()
    }

    /// What must be written to the socket.
    pub fn take_output(&mut self) -> Vec<u8> {
        self.inner.take_output()
    }

    /// Finished rows; valid until the next call that is not one of these three.
    pub fn rows_pointer(&mut self) -> *const u8 {
        self.inner.rows().as_ptr()
    }

    /// How many bytes of rows there are.
    pub fn rows_length(&mut self) -> usize {
        self.inner.rows().len()
    }

    /// The rows are not needed any more.
    pub fn rows_taken(&mut self) {
        self.inner.rows_taken();
    }

    /// All events that wait, one per line.
    pub fn take_events(&mut self) -> Vec<u8> {
        self.inner.take_events()
    }

    /// Learns the shape of a statement, which stays prepared for a shape other than 0.
    pub fn describe(&mut self, sql: &str, shape: u32) -> u32 {
        self.inner.describe(sql, shape);
        self.inner.status()
    }

    /// The database's own types, all that are to be known from now on.
    pub fn define_types(&mut self, types: &[u32], attributes: &[u32], names: &str) {
        self.inner
            .define_types(Types::new(types, attributes, names));
    }

    /// 1: the type can be read in binary.
    pub fn result_format(&self, type_oid: u32) -> u32 {
        self.inner.result_format(type_oid)
    }

    /// Runs a statement.
    #[allow(clippy::too_many_arguments)]
    pub fn execute(
        &mut self,
        shape: u32,
        statement: &[u8],
        parameters: &[u8],
        form: u32,
        limits: &[f64],
    ) -> u32 {
        let columns_known = form & COLUMNS_KNOWN != 0;
        let form = RowForm::from_code(form);
        self.inner.execute(
            shape,
            statement,
            parameters,
            form,
            columns_known,
            caps(limits),
        );
        self.inner.status()
    }

    /// Runs `sql` in front of the next `execute`, in its flight.
    pub fn prelude(&mut self, sql: &str) {
        self.inner.prelude(sql);
    }

    /// More rows of the portal that the last `execute` left suspended.
    pub fn fetch(&mut self) -> u32 {
        self.inner.fetch();
        self.inner.status()
    }

    /// Closes that portal.
    pub fn close_portal(&mut self) -> u32 {
        self.inner.close_portal();
        self.inner.status()
    }

    /// Query. `copy`: which COPY it may be.
    pub fn simple_query(&mut self, sql: &str, copy: u32, form: u32, limits: &[f64]) -> u32 {
        let (copy, form) = (Copy::from_code(copy), RowForm::from_code(form));
        self.inner.simple_query(sql, copy, form, caps(limits));
        self.inner.status()
    }

    /// The header of CopyData; JavaScript puts `length` bytes behind it.
    pub fn copy_data(&mut self, length: u32) {
        self.inner.copy_data(length);
    }

    /// CopyDone, or CopyFail for a reason.
    pub fn copy_end(&mut self, reason: Option<String>) -> u32 {
        self.inner.copy_end(reason.as_deref());
        self.inner.status()
    }

    /// Begins a batch.
    pub fn batch(&mut self, isolated: bool, form: u32, limits: &[f64]) -> u32 {
        self.inner
            .batch(isolated, RowForm::from_code(form), caps(limits));
        self.inner.status()
    }

    /// Adds a statement to the batch and returns its number there.
    pub fn batch_statement(&mut self, shape: u32, statement: &[u8]) -> u32 {
        self.inner.batch_statement(shape, statement) as u32
    }

    /// Adds items to the batch. `end`: whether more follow.
    pub fn batch_items(&mut self, items: &[u8], end: u32) -> u32 {
        self.inner.batch_items(items, BatchEnd::from_code(end));
        self.inner.status()
    }

    /// Drops the shape's named statement.
    pub fn forget(&mut self, shape: u32) {
        self.inner.forget(shape);
    }

    /// Rows of the current operation are no longer wanted.
    pub fn discard(&mut self) -> u32 {
        self.inner.discard();
        self.inner.status()
    }

    /// CancelRequest for a second socket; empty before BackendKeyData.
    pub fn cancel_request(&self) -> Vec<u8> {
        self.inner.cancel_request()
    }

    /// Terminate.
    pub fn terminate(&mut self) -> u32 {
        self.inner.terminate();
        self.inner.status()
    }
}
