//! What a connection is told at its beginning.

use crate::boundary::{login, protocol};
use alloc::string::String;

/// What a connection is made with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The longest message accepted from the server, in bytes.
    pub max_message_bytes: usize,
    /// Random start of every statement name of this connection.
    pub statement_prefix: String,
    /// How many named statements to keep; 0 keeps every statement unnamed.
    pub statement_cache_size: usize,
}

impl Default for Settings {
    /// PostgreSQL's own message limit of 1 GiB, 64 statements as in pgz.
    fn default() -> Self {
        Settings {
            max_message_bytes: 1 << 30,
            statement_prefix: "s".into(),
            statement_cache_size: 64,
        }
    }
}

/// Who logs in, how, and what holds from then on: the arguments of [`Connection::start`](super::Connection::start).
#[derive(Debug, Clone, Copy)]
pub struct Login<'a> {
    /// One of [`protocol`].
    pub protocol_version: u32,
    /// Of StartupMessage, as they stand there: each name and each value with a NUL behind it. `user` too.
    pub parameters: &'a str,
    /// SASLprep'd.
    pub password: Option<&'a str>,
    /// Base64 of 18 random bytes.
    pub nonce: &'a str,
    /// Bits of [`login`].
    pub options: u32,
    /// The fewest PBKDF2 rounds a server may ask for. 0 or 1: any number.
    pub min_iterations: u32,
    /// The most PBKDF2 rounds a server may ask for.
    pub max_iterations: u32,
    /// From how many waiting row bytes on the status says ROWS_FULL.
    pub flush_bytes: usize,
    /// The hash of the server's certificate for SCRAM-SHA-256-PLUS; empty where there is none.
    pub channel_binding: &'a [u8],
}

impl Default for Login<'_> {
    /// Protocol 3.0, whoever is trusted.
    fn default() -> Self {
        Login {
            protocol_version: protocol::VERSION_3_0,
            parameters: "",
            password: None,
            nonce: "",
            options: login::AUTH_TRUST,
            min_iterations: 0,
            max_iterations: 100_000,
            flush_bytes: 1 << 16,
            channel_binding: &[],
        }
    }
}
