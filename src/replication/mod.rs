//! Logical replication: reads the messages of the output plugin pgoutput. Writes each as a line of NDJSON, or in
//! batches from which JavaScript makes objects.
//!
//! ```text
//! message.rs    the bytes of one message, as data
//! position.rs   a position in JSON
//! relation.rs   a table as the server has described it, and its rows as JSON objects
//! line.rs       one message as one line
//! batch.rs      changes in slots, from which JavaScript makes objects
//! place.rs      which message may come where
//! yielded.rs    transactions that a server sends again on the next connection
//! changes.rs    XLogData, keepalives and status updates, and the transaction to which a message belongs
//!   snapshot.rs the rows of tables that come before the changes
//! copy_row.rs   such a row as COPY sends it
//! connection.rs commands and their answers, and the stream
//! ```
//!
//! Source: protocol chapter, sections "Streaming Replication Protocol" and "Logical Replication Message Formats".
//! Compiled only with the feature `replication`, into a separate wasm module: a program that reads no changes does not
//! pay for it.

mod batch;
mod changes;
mod connection;
mod copy_row;
mod line;
mod message;
mod place;
mod position;
mod relation;
mod yielded;

pub use changes::{Changes, Keepalive, Options, Table, status_update};
pub use connection::Replication;
pub use message::{Message, Position, Tuple, Value};
