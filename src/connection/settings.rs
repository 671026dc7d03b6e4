//! The settings of a connection, and the arguments of its login.

use crate::boundary::{login, protocol};
use alloc::string::String;

/// The settings that a connection is created with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The longest message accepted from the server, in bytes.
    pub max_message_bytes: usize,
    /// Random prefix of every statement name of this connection.
    pub statement_prefix: String,
    /// Maximum number of named statements; with 0 every statement stays unnamed.
    pub statement_cache_size: usize,
}

impl Default for Settings {
    /// PostgreSQL's own message limit of 1 GiB, and 64 statements as in pgz.
    fn default() -> Self {
        Settings {
            max_message_bytes: 1 << 30,
            statement_prefix: "s".into(),
            statement_cache_size: 64,
        }
    }
}

/// The user, the allowed ways to log in, and what applies from then on: the arguments of
/// [`Connection::start`](super::Connection::start).
#[derive(Debug, Clone, Copy)]
pub struct Login<'a> {
    /// One of [`protocol`].
    pub protocol_version: u32,
    /// The parameters of StartupMessage in wire form: each name and each value, followed by a NUL. Includes `user`.
    pub parameters: &'a str,
    /// The password after SASLprep.
    pub password: Option<&'a str>,
    /// Base64 of 18 random bytes.
    pub nonce: &'a str,
    /// Bits of [`login`].
    pub options: u32,
    /// Minimum number of PBKDF2 iterations that the server must ask for. 0 or 1: any number.
    pub min_iterations: u32,
    /// Maximum number of PBKDF2 iterations that the server may ask for.
    pub max_iterations: u32,
    /// Number of waiting row bytes from which the status says ROWS_FULL.
    pub flush_bytes: usize,
    /// The hash of the server's certificate for SCRAM-SHA-256-PLUS; empty if there is none.
    pub channel_binding: &'a [u8],
}

impl Default for Login<'_> {
    /// Protocol 3.0 and trust authentication only.
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
