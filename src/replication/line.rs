//! One message of pgoutput as one line of NDJSON.
//!
//! ```text
//! {"kind":"begin","position":"0/16B3748","xid":742,"committedAt":"2026-11-27T03:20:00+00:00"}
//! {"kind":"schema","position":"0/16B3700","xid":742,"schema":"public","table":"users","oid":16385,
//!     "replicaIdentity":"default","columns":[{"name":"id","typeOid":23,"typeModifier":-1,"key":true}]}
//! {"kind":"insert","position":"0/16B3700","xid":742,"schema":"public","table":"users","new":{"id":1}}
//! {"kind":"update", …,"old":{"id":1},"new":{"id":2},"unchanged":["body"]}
//! {"kind":"delete", …,"old":{"id":2}}
//! {"kind":"truncate", …,"tables":[{"schema":"public","table":"users"}],"cascade":false,"restartIdentity":false}
//! {"kind":"message", …,"transactional":true,"prefix":"app","content":"hello"}
//! {"kind":"commit","position":"0/16B3778","xid":742,"committedAt":"2026-11-27T03:20:00+00:00"}
//! ```
//! Knows members and their order. Must not know in which order messages come.

use super::message::{Message, Position, Timestamp};
use super::position::put_position;
use super::relation::Relation;
use crate::types::digits;
use crate::types::output::{Output, Target, put_short};
use crate::types::{AsStrings, Encoder, json_string, oid};
use alloc::boxed::Box;

/// The time of a transaction's commit.
pub(super) const COMMITTED_AT: &[u8] = b",\"committedAt\":";

/// A transaction that has begun.
#[derive(Debug)]
pub(super) struct Begun {
    pub final_position: Position,
    pub at: Timestamp,
    pub xid: u32,
    /// The name of a prepared transaction; empty for others.
    pub gid: Box<[u8]>,
}

/// Writes lines. Holds the encoders that most lines need; built-in types always have an encoder.
#[derive(Debug)]
pub(super) struct Lines {
    pub out: Output,
    timestamp: Option<Encoder>,
    bytes: Option<Encoder>,
}

impl Lines {
    pub fn new() -> Lines {
        let encoder = |type_oid| Encoder::new(type_oid, 1, AsStrings::NONE).ok();
        Lines {
            out: Output::default(),
            timestamp: encoder(oid::TIMESTAMPTZ),
            bytes: encoder(oid::BYTEA),
        }
    }

    /// `{"kind":"…","position":"0/16B3748"`
    pub fn begin(&mut self, kind: &'static str, position: Position) {
        self.out.write(|out| {
            out.put(b"{\"kind\":\"");
            out.put_slice(kind.as_bytes());
            out.put(b"\",\"position\":");
            put_position(out, position);
        });
    }

    /// The line of a Begin. If `next` is an Origin, it becomes a member of the line.
    pub fn begun(&mut self, begun: &Begun, next: &Message<'_>) {
        let is_prepared = !begun.gid.is_empty();
        let kind = if is_prepared { "beginPrepare" } else { "begin" };
        self.begin(kind, begun.final_position);
        self.xid(begun.xid);
        if is_prepared {
            self.text(b",\"gid\":", &begun.gid);
        } else {
            self.time(COMMITTED_AT, begun.at);
        }
        if let Message::Origin { name } = next {
            self.text(b",\"origin\":", name);
        }
        self.end();
    }

    /// `}` and the line's end.
    pub fn end(&mut self) {
        self.put(b"}\n");
    }

    /// `,"committedAt":"2026-11-27T03:20:00+00:00"`
    pub fn time(&mut self, name: &'static [u8], at: Timestamp) {
        self.put_slice(name);
        append(&self.timestamp, &at, &mut self.out);
    }

    /// `,"xid":742`
    pub fn xid(&mut self, xid: u32) {
        self.out.write(|out| {
            out.put(b",\"xid\":");
            put_short!(out, |out| digits::append_u32(out, xid));
        });
    }

    /// `,"oid":16385`
    pub fn number(&mut self, name: &'static [u8], number: impl itoa::Integer) {
        self.out.write(|out| {
            out.put_slice(name);
            out.put_slice(itoa::Buffer::new().format(number).as_bytes());
        });
    }

    /// `,"first":true`
    pub fn boolean(&mut self, name: &'static [u8], value: bool) {
        self.put_slice(name);
        self.put_slice(if value { b"true" } else { b"false" });
    }

    /// `,"gid":"x"`
    pub fn text(&mut self, name: &'static [u8], text: &[u8]) {
        self.put_slice(name);
        self.out.write(|out| json_string::append(out, text));
    }

    /// `,"content":"hello"`; content that is not UTF-8 becomes `,"bytes":"\\xff"`.
    pub fn content(&mut self, content: &[u8]) {
        if core::str::from_utf8(content).is_ok() {
            return self.text(b",\"content\":", content);
        }
        self.put(b",\"bytes\":");
        append(&self.bytes, content, &mut self.out);
    }

    /// `,"schema":"public","table":"users"`
    pub fn place(&mut self, relation: &Relation) {
        self.put_slice(&relation.place);
    }

    /// `,"tables":[{"schema":"public","table":"users"}]`
    pub fn tables<'a>(&mut self, relations: impl Iterator<Item = &'a Relation>) {
        self.put(b",\"tables\":[");
        for (index, relation) in relations.enumerate() {
            self.put_slice(if index == 0 { b"{" } else { b",{" });
            let [_comma, members @ ..] = &*relation.place else {
                return;
            };
            self.put_slice(members);
            self.put(b"}");
        }
        self.put(b"]");
    }

    /// `,"oid":16385,"replicaIdentity":"default","columns":[…]`
    pub fn columns(&mut self, relation: &Relation) {
        self.number(b",\"oid\":", relation.oid);
        self.text(
            b",\"replicaIdentity\":",
            identity(relation.replica_identity),
        );
        self.put(b",\"columns\":[");
        for (index, column) in relation.columns.iter().enumerate() {
            self.put_slice(if index == 0 {
                b"{\"name\":"
            } else {
                b",{\"name\":"
            });
            self.put_slice(&column.name);
            self.number(b",\"typeOid\":", column.type_oid);
            self.number(b",\"typeModifier\":", column.type_modifier);
            self.boolean(b",\"key\":", column.is_key);
            self.put(b"}");
        }
        self.put(b"]");
    }

    /// Appends bytes whose length is known at compile time.
    pub fn put<const N: usize>(&mut self, bytes: &[u8; N]) {
        self.out.write(|out| out.put(bytes));
    }

    pub fn put_slice(&mut self, bytes: &[u8]) {
        self.out.write(|out| out.put_slice(bytes));
    }
}

/// Appends a value that has the length of its type, so there can be no error.
fn append(encoder: &Option<Encoder>, value: &[u8], out: &mut Output) {
    let written = encoder
        .as_ref()
        .is_some_and(|encoder| encoder.encode(value, out).is_ok());
    if !written {
        out.write(|out| out.put(b"null"));
    }
}

/// The word of ALTER TABLE for `pg_class.relreplident`.
fn identity(letter: u8) -> &'static [u8] {
    match letter {
        b'd' => b"default",
        b'n' => b"nothing",
        b'f' => b"full",
        _ => b"index",
    }
}
