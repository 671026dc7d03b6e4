//! Logical replication: reads the messages of the output plugin pgoutput and writes a line of NDJSON for each of them,
//! or what JavaScript makes objects of.
//!
//! ```text
//! message.rs    the bytes of one message, as data
//! position.rs   a position in JSON
//! relation.rs   a table as the server has described it, and its rows as JSON objects
//! line.rs       one message as one line
//! batch.rs      changes in slots, of which JavaScript makes objects
//! changes.rs    XLogData, keepalives and status updates, and the transaction to which a message belongs
//!   snapshot.rs the rows of tables in front of the changes
//! connection.rs commands and their answers, and the stream
//! ```
//!
//! Source: protocol chapter, sections "Streaming Replication Protocol" and "Logical Replication Message Formats".
//! Compiled only with feature `replication`, into a wasm module of its own: a program that reads no changes does not
//! pay for it.

mod batch;
mod changes;
mod connection;
mod line;
mod message;
mod position;
mod relation;

pub use changes::{Changes, Keepalive, Options, Table, status_update};
pub use connection::Replication;
pub use message::{Message, Position, Tuple, Value};
