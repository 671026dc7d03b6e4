//! The frontend/backend protocol as bytes: frames and messages, versions 3.0 and 3.2.
//!
//! Knows how each message is laid out (PostgreSQL documentation, chapter "Frontend/Backend Protocol", section "Message
//! Formats"). Must not know when a message may come, or what a value means. Names are PostgreSQL's own.

pub mod backend;
pub mod command_tag;
pub mod fields;
pub mod frame;
pub mod frontend;
pub mod messages;
pub mod reader;
pub mod writer;
