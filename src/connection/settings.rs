//! What a connection is told at its beginning, and the bits of what it says of itself.

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
    /// 0x0003_0000 is 3.0, 0x0003_0002 is 3.2.
    pub protocol_version: u32,
    /// Of StartupMessage, as they stand there: each name and each value with a NUL behind it. `user` too.
    pub parameters: &'a str,
    /// SASLprep'd.
    pub password: Option<&'a str>,
    /// Base64 of 18 random bytes.
    pub nonce: &'a str,
    /// The bits below.
    pub options: u32,
    /// The most PBKDF2 rounds a server may ask for.
    pub max_iterations: u32,
    /// From how many waiting row bytes on the status says ROWS_FULL.
    pub flush_bytes: usize,
}

impl Default for Login<'_> {
    /// Protocol 3.0, whoever is trusted.
    fn default() -> Self {
        Login {
            protocol_version: 3 << 16,
            parameters: "",
            password: None,
            nonce: "",
            options: Login::TRUST,
            max_iterations: 100_000,
            flush_bytes: 1 << 16,
        }
    }
}

/// Bits of [`Login::options`]: methods that are allowed, then what else is wanted.
impl Login<'_> {
    /// AuthenticationOk without any challenge.
    pub const TRUST: u32 = 1;
    /// AuthenticationCleartextPassword.
    pub const CLEARTEXT: u32 = 2;
    /// AuthenticationMD5Password.
    pub const MD5: u32 = 4;
    /// AuthenticationSASL with SCRAM-SHA-256.
    pub const SCRAM_SHA_256: u32 = 8;
    /// Cleartext is missing only because the link is not encrypted: the error then says so.
    pub const CLEARTEXT_WANTS_TLS: u32 = 16;
    /// Cleartext is missing only because the server's certificate was not verified: the error then says so.
    pub const CLEARTEXT_WANTS_VERIFIED_TLS: u32 = 256;
    /// SCRAM stops at a `keyDerivation` event and waits for [`Connection::prove`](super::Connection::prove).
    pub const EXTERNAL_KEY_DERIVATION: u32 = 32;
    /// Operations asked for before authentication is over go out behind the last password message.
    pub const EARLY_QUERY: u32 = 64;
    /// Statements are named from their first use on, not from the second.
    pub const NAME_FIRST_USE: u32 = 128;
}

/// Bits of [`Connection::status`](super::Connection::status); docs/architecture.md lists them.
pub struct Status;

impl Status {
    /// [`Connection::take_output`](super::Connection::take_output) has bytes.
    pub const OUTPUT: u32 = 1;
    /// Whole rows wait.
    pub const ROWS: u32 = 2;
    /// [`Connection::take_events`](super::Connection::take_events) has one.
    pub const EVENT: u32 = 4;
    /// Input is parked: call `received(0)` when drained.
    pub const MORE: u32 = 8;
    /// Startup or an operation wants input.
    pub const BUSY: u32 = 16;
    /// Nothing more will come.
    pub const CLOSED: u32 = 32;
    /// At least `flush_bytes` of rows wait.
    pub const ROWS_FULL: u32 = 64;
}
