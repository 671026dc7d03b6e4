//! The rows that tables had when a slot began. COPY returns them, and they come before the slot's changes.
//!
//! Knows the lines of such rows. Must not know commands, or how a snapshot is taken.

use super::{Changes, NEW, Where, malformed, unknown_table};
use crate::boundary::change_kinds as kind;
use crate::error::Failure;
use crate::protocol::reader::Malformed;
use crate::replication::batch::Head;
use crate::replication::line::Lines;
use crate::replication::message::{Message, Position};
use crate::replication::relation::Which;
use alloc::vec::Vec;

/// A table, with what Relation would say about it.
#[derive(Debug, Clone, Copy)]
pub struct Table<'a> {
    /// OID
    pub oid: u32,
    /// `pg_class.relreplident`
    pub replica_identity: u8,
    /// The names of its schema, of the table and of its columns, each followed by a NUL.
    pub names: &'a str,
    /// For each column: 1 if it belongs to the replica identity, else 0; the OID of its type; the type's modifier.
    pub columns: &'a [[u32; 3]],
}

impl Changes {
    /// Takes a table whose rows follow. The slot begins at `at`.
    pub fn snapshot_table(&mut self, table: Table<'_>, at: Position) -> Result<(), Failure> {
        let body = relation(table);
        let at = Where {
            start: at,
            subxid: None,
        };
        match Message::parse(&body, false) {
            Ok((Message::Relation(message), _)) => {
                self.relation(&message, at, body.get(1..).unwrap_or_default());
            }
            _ => return Err(malformed(b'R')),
        }
        self.line_is_over();
        Ok(())
    }

    /// Takes a row of that table: a line of COPY.
    pub fn snapshot_row(&mut self, oid: u32, line: &[u8]) -> Result<(), Failure> {
        let relation = self.relations.get_mut(&oid).ok_or_else(unknown_table)?;
        let row = &mut self.copy_row;
        row.read(line, relation.columns.len())
            .map_err(|Malformed| malformed(b'd'))?;
        if let Some(batch) = &mut self.batch {
            let head = Head {
                position: self.last,
                xid: 0,
                subxid: 0,
                bytes: line.len(),
            };
            // All values are text, so the row always fits into slots.
            batch.row(kind::INSERT, relation, (row.count(), row.values()), head)?;
            return Ok(());
        }
        let since = self.lines.out.len();
        self.lines.begin("insert", self.last);
        self.lines.place(relation);
        self.lines.put(NEW);
        let outcome =
            relation.append_row(row.count(), row.values(), Which::All, &mut self.lines.out);
        if let Err(error) = outcome {
            self.lines.out.truncate(since);
            return Err(error.into());
        }
        self.lines.end();
        Ok(())
    }

    /// Ends the snapshot: all rows have arrived. An acknowledgement up to `at` covers the snapshot.
    pub fn snapshot_over(&mut self, at: Position) {
        self.committed = self.committed.max(at);
        over(&mut self.lines, at);
        self.line_is_over();
    }
}

/// `{"kind":"snapshot","position":"0/16B3748"}`
fn over(lines: &mut Lines, at: Position) {
    lines.begin("snapshot", at);
    lines.end();
}

/// The message with which the server would describe the table, so that the server's own description of an unchanged
/// table is recognised and not reported again.
fn relation(table: Table<'_>) -> Vec<u8> {
    let mut names = table.names.split_inclusive('\0');
    let mut name = || names.next().unwrap_or("\0").as_bytes();
    let mut body = [b"R".as_slice(), &table.oid.to_be_bytes(), name(), name()].concat();
    body.push(table.replica_identity);
    // A table has at most 1,600 columns.
    let count = u16::try_from(table.columns.len()).unwrap_or(u16::MAX);
    body.extend_from_slice(&count.to_be_bytes());
    for [is_key, type_oid, type_modifier] in table.columns {
        body.push(u8::from(*is_key != 0));
        body.extend_from_slice(name());
        body.extend_from_slice(&type_oid.to_be_bytes());
        body.extend_from_slice(&type_modifier.to_be_bytes());
    }
    body
}
