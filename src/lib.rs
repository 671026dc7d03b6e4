//! The core of pgz-edge: PostgreSQL's wire protocol, SCRAM, and binary rows to JSON, without input or output.
//!
//! Bytes from a socket go in; bytes for the socket and finished rows come out. The clock, the random source and the
//! socket itself live in JavaScript, so every session is a reproducible transcript. The layers, each of which uses
//! only those below it:
//!
//! | module | knows |
//! |---|---|
//! | [`connection`] | when a message may arrive, and what it means for the current operation |
//! | [`auth`] | SCRAM-SHA-256 |
//! | [`encode`] | rows to JSON bytes |
//! | [`types`] | one binary value to JSON bytes |
//! | [`protocol`] | frames and messages as bytes |
//! | `memory` | allocations whose size the server decides |
//! | `replication` | changes of tables, from logical replication (feature `replication`) |
//! | [`boundary`] | names of the numbers that JavaScript uses too |
//!
//! ```
//! use pgz_edge::connection::{Connection, Login, Settings};
//!
//! let mut connection = Connection::new(Settings::default());
//! connection.start(&Login { parameters: "user\0alice\0", ..Login::default() });
//! let startup_message = connection.take_output();
//! assert_eq!(startup_message[4..8], [0, 3, 0, 0]);
//! // The server's answer goes in with `input` and `received`; see docs/architecture.md, "The drain rule".
//! ```

#![no_std]
#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic
    )
)]

extern crate alloc;
// Links an allocator and a panic handler without naming std, so that a stray `std::time::Instant` stays an error.
#[cfg(test)]
extern crate std;
#[cfg(not(any(test, target_arch = "wasm32")))]
extern crate std as _;

pub mod auth;
pub mod boundary;
pub mod connection;
pub mod encode;
pub mod error;
mod memory;
pub mod protocol;
#[cfg(feature = "replication")]
pub mod replication;
pub mod types;
