//! Changes on their way to JavaScript objects: a head of 32 bytes per change, and the values of its row in slots, as
//! those of a query (src/encode/columns.rs). JSON.parse of lines takes three times as long.
//!
//! ```text
//! before   u32 bytes of the heads' texts, u32 0
//! heads    u32 kind | u32 of | u32 xid, 0: none | u32 subxid, 0: none | u32 bytes of the position | u32 bytes as they came | u64 0
//!          LINE            the next element of json is all of it: an object, as its line of NDJSON has it
//!          COLUMNS         no change: table `of` has columns of these kinds, the next element of json, from here on
//!          INSERT, UPDATE  of table `of`: `new` is the next slots, texts and elements of json
//!          BEGIN, COMMIT   `of`: bytes of `committedAt`, the text behind the position
//! slots    as of src/encode/columns.rs
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
use crate::types::{Encoder, Strings, oid};

/// What a head says of a change beside its kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    pub position: Position,
    /// 0: a row of a snapshot.
    pub xid: u32,
    /// 0: none.
    pub subxid: u32,
    /// Bytes of the message.
    pub bytes: usize,
}

#[derive(Debug)]
pub(super) struct Batch {
    heads: Output,
    /// Of the heads: positions and times.
    texts: Output,
    slots: Output,
    blocks: Blocks,
    timestamp: Option<Encoder>,
}

/// Where it ended before a change.
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
            timestamp: Encoder::new(oid::TIMESTAMPTZ, 1, Strings::NONE).ok(),
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

    /// Takes back what came behind `end`.
    pub fn take_back(&mut self, end: End) {
        self.heads.truncate(end.heads);
        self.texts.truncate(end.texts);
        self.slots.truncate(end.slots);
        self.blocks.take_back(end.blocks);
    }

    /// A change as an object of JSON.
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

    /// The beginning or the end of a transaction.
    pub fn of_transaction(&mut self, kind: u32, committed_at: &Timestamp, head: Head) {
        let since = self.texts.len();
        self.texts.write(|out| append_lsn(out, head.position));
        let position = self.texts.len().saturating_sub(since);
        if let Some(encoder) = &self.timestamp {
            self.texts.write(|out| {
                // It has the length of its type, so there is no error.
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

    /// A row of `count` values of `relation`. `false`, and nothing is written: one of them is no text.
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
            self.take_back(end);
            return outcome;
        }
        relation.is_told = true;
        let since = self.texts.len();
        self.texts.write(|out| append_lsn(out, head.position));
        let position = self.texts.len().saturating_sub(since);
        self.head(kind, relation.oid, position, head);
        Ok(true)
    }

    /// Says of which kinds the columns are, where it was not said yet.
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
                // There are five.
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

    /// Puts its parts together. Empties all but what is returned.
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

    /// What was sealed has been taken.
    pub fn clear(&mut self, keep: usize) {
        self.heads.clear(keep);
    }
}

/// What stands before the heads.
const BEFORE: usize = 8;

/// A pg_lsn without quotes.
fn append_lsn(out: &mut Writer<'_>, position: Position) {
    let _: Result<(), ()> = out.without_quotes(|out| {
        put_position(out, position);
        Ok(())
    });
}

#[cfg(test)]
mod tests;
