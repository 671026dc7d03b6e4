//! Changes on their way to JavaScript objects: a head of 32 bytes per change, and the values of its row in slots, like
//! those of a query (src/encode/columns.rs). JSON.parse of lines takes three times as long.
//!
//! ```text
//! before   u32 bytes of the heads' texts, u32 0
//! heads    u32 kind | u32 of | u32 xid, 0: none | u32 subxid, 0: none | u32 bytes of the position
//!          | u32 bytes as they came | u64 0
//!          LINE            the next element of json is the whole change: an object, the same as its line of NDJSON
//!          COLUMNS         not a change: from here on table `of` has columns of these kinds, the next element of json
//!          INSERT, UPDATE  of table `of`: `new` is the next slots, texts and elements of json
//!          BEGIN, COMMIT   `of`: bytes of `committedAt`, the text after the position
//! slots    as in src/encode/columns.rs
//! text     the heads' texts, which are ASCII, then those of the rows
//! json     [v,v,…]
//! tail     u32 heads, u32 bytes of text, u32 bytes of json
//! ```
//! Knows this layout. Must not know which changes have a line.

use super::message::{Position, Timestamp, Value};
use super::position::put_position;
use super::relation::Relation;
use crate::boundary::change_kinds as kind;
use crate::encode::RowError;
use crate::encode::columns::{Blocks, Mark};
use crate::protocol::reader::Malformed;
use crate::types::output::{Output, Target, Writer};
use crate::types::{AsStrings, Encoder, oid};

/// The members of a head, except its kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    pub position: Position,
    /// 0: a row of a snapshot.
    pub xid: u32,
    /// 0: none.
    pub subxid: u32,
    /// Number of bytes of the message.
    pub bytes: usize,
}

#[derive(Debug)]
pub(super) struct Batch {
    heads: Output,
    /// The heads' texts: positions and times.
    texts: Output,
    slots: Output,
    blocks: Blocks,
    timestamp: Option<Encoder>,
}

/// The end of the batch before a change.
#[derive(Debug, Clone, Copy)]
pub(super) struct End {
    heads: usize,
    texts: usize,
    slots: usize,
    blocks: Mark,
}

impl Batch {
    pub fn new() -> Batch {
        Batch {
            heads: Output::default(),
            texts: Output::default(),
            slots: Output::default(),
            blocks: Blocks::default(),
            timestamp: Encoder::new(oid::TIMESTAMPTZ, 1, AsStrings::NONE).ok(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    pub fn end(&self) -> End {
        End {
            heads: self.heads.len(),
            texts: self.texts.len(),
            slots: self.slots.len(),
            blocks: self.blocks.mark(),
        }
    }

    /// Removes everything after `end`.
    pub fn truncate(&mut self, end: End) {
        self.heads.truncate(end.heads);
        self.texts.truncate(end.texts);
        self.slots.truncate(end.slots);
        self.blocks.truncate(end.blocks);
    }

    /// Appends a change as a JSON object.
    pub fn line(&mut self, object: &[u8], bytes: usize) {
        let head = Head {
            position: 0,
            xid: 0,
            subxid: 0,
            bytes,
        };
        self.head(kind::LINE, 0, 0, head);
        self.blocks.element(|json| json.put_slice(object));
    }

    /// Appends the beginning or the end of a transaction.
    pub fn of_transaction(&mut self, kind: u32, committed_at: &Timestamp, head: Head) {
        let since = self.texts.len();
        self.texts.write(|out| append_lsn(out, head.position));
        let position = self.texts.len().saturating_sub(since);
        if let Some(encoder) = &self.timestamp {
            self.texts.write(|out| {
                // The value has the length of its type, so there can be no error.
                let _ = out.without_quotes(|out| encoder.append_rarely(committed_at, out));
            });
        }
        let time = self
            .texts
            .len()
            .saturating_sub(since)
            .saturating_sub(position);
        self.head(kind, time as u32, position, head);
    }

    /// Appends a row of `count` values of `relation`. Returns `false`, and writes nothing, if one of the values is not
    /// text.
    pub fn row<'a>(
        &mut self,
        kind: u32,
        relation: &mut Relation,
        (count, values): (usize, impl Iterator<Item = Result<Value<'a>, Malformed>>),
        head: Head,
    ) -> Result<bool, RowError> {
        let end = self.end();
        self.columns(relation);
        let outcome = self.blocks.row(&mut self.slots, |row| {
            relation.append_cells(count, values, row)
        });
        if outcome != Ok(true) {
            self.truncate(end);
            return outcome;
        }
        relation.is_told = true;
        let since = self.texts.len();
        self.texts.write(|out| append_lsn(out, head.position));
        let position = self.texts.len().saturating_sub(since);
        self.head(kind, relation.oid, position, head);
        Ok(true)
    }

    /// Appends the kinds of the columns, unless JavaScript already knows them.
    fn columns(&mut self, relation: &Relation) {
        if relation.is_told {
            return;
        }
        let head = Head {
            position: 0,
            xid: 0,
            subxid: 0,
            bytes: 0,
        };
        self.head(kind::COLUMNS, relation.oid, 0, head);
        self.blocks.element(|json| {
            json.put(b"[");
            for (index, code) in relation.kinds().enumerate() {
                json.put_block(b",", usize::from(index > 0));
                // A code has one digit: there are five.
                json.put(&[b'0'.wrapping_add(code)]);
            }
            json.put(b"]");
        });
    }

    fn head(&mut self, kind: u32, of: u32, position: usize, head: Head) {
        if self.heads.is_empty() {
            self.heads.write(|out| out.put(&[0; BEFORE]));
        }
        let Head {
            xid, subxid, bytes, ..
        } = head;
        self.heads.write(|out| {
            for number in [kind, of, xid, subxid, position as u32, bytes as u32, 0, 0] {
                out.put(&number.to_le_bytes());
            }
        });
        self.blocks.count();
    }

    /// Joins all parts into one batch in `heads`, and empties the other parts.
    pub fn seal(&mut self, keep: usize) {
        if self.heads.is_empty() {
            return;
        }
        let texts = self.texts.as_slice();
        self.heads.write(|out| {
            if let Some(before) = out.written_since(0).first_chunk_mut() {
                *before = (texts.len() as u32).to_le_bytes();
            }
            out.put_slice(self.slots.as_slice());
        });
        self.blocks.seal(&mut self.heads, texts, keep);
        self.texts.clear(keep);
        self.slots.clear(keep);
    }

    pub fn sealed(&self) -> &[u8] {
        self.heads.as_slice()
    }

    /// Drops the sealed batch after it has been taken.
    pub fn clear(&mut self, keep: usize) {
        self.heads.clear(keep);
    }
}

/// Number of bytes in front of the heads.
const BEFORE: usize = 8;

/// Appends a pg_lsn without quotes.
fn append_lsn(out: &mut Writer<'_>, position: Position) {
    let _: Result<(), ()> = out.without_quotes(|out| {
        put_position(out, position);
        Ok(())
    });
}

#[cfg(test)]
mod tests;
