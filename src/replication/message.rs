//! The messages of pgoutput as data: versions 1 to 4 of its protocol.
//!
//! Knows the layout of each message. Must not know in which order messages come, or how they are used.

use crate::protocol::reader::{Malformed, Reader};

/// A position in the server's write-ahead log, an LSN: `0/16B3748` is 0x16b3748.
pub type Position = u64;

/// Microseconds since 2000-01-01 00:00 UTC as they arrived: the binary form of a timestamptz.
pub type Timestamp = [u8; 8];

/// One message of pgoutput.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message<'a> {
    /// `B`: begins a transaction that has committed.
    Begin {
        /// Position of its commit record in WAL.
        final_position: Position,
        /// When it was committed.
        committed_at: Timestamp,
        /// Its id.
        xid: u32,
    },
    /// `C`
    Commit {
        /// Position of the commit record.
        commit_position: Position,
        /// Position after the commit record: the one to acknowledge.
        end_position: Position,
        /// When it was committed.
        committed_at: Timestamp,
    },
    /// `O`: the transaction was replicated to this server from another one.
    Origin {
        /// Its name.
        name: &'a [u8],
    },
    /// `M`: a message of `pg_logical_emit_message`.
    Logical {
        /// The message belongs to its transaction. Other messages are sent at once.
        is_transactional: bool,
        /// Its position in WAL.
        position: Position,
        /// The first argument.
        prefix: &'a [u8],
        /// The second argument.
        content: &'a [u8],
    },
    /// `R`: describes the table of later rows.
    Relation(RelationMessage<'a>),
    /// `Y`: the name of a type that is not built in.
    Type {
        /// Its OID.
        type_oid: u32,
        /// Its schema.
        schema: &'a [u8],
        /// Its name.
        name: &'a [u8],
    },
    /// `I`
    Insert {
        /// OID of the table.
        relation: u32,
        /// The row.
        new: Tuple<'a>,
    },
    /// `U`
    Update {
        /// OID of the table.
        relation: u32,
        /// The previous row, as far as the replica identity covers it.
        old: Option<Old<'a>>,
        /// The new row.
        new: Tuple<'a>,
    },
    /// `D`
    Delete {
        /// OID of the table.
        relation: u32,
        /// The deleted row, as far as the replica identity covers it.
        old: Old<'a>,
    },
    /// `T`
    Truncate {
        /// The OID of each table, four bytes each.
        relations: &'a [[u8; 4]],
        /// CASCADE
        cascade: bool,
        /// RESTART IDENTITY
        restart_identity: bool,
    },
    /// `S`: begins a part of a transaction that is still running (`streaming`).
    StreamStart {
        /// Its id.
        xid: u32,
        /// The part is the transaction's first.
        is_first: bool,
    },
    /// `E`: the end of that part.
    StreamStop,
    /// `c`: a transaction that was sent in parts has committed.
    StreamCommit {
        /// Its id.
        xid: u32,
        /// Position after the commit record.
        end_position: Position,
        /// When it was committed.
        committed_at: Timestamp,
    },
    /// `A`: a transaction that was sent in parts, or one of its subtransactions, was rolled back.
    StreamAbort {
        /// The transaction.
        xid: u32,
        /// The part that was rolled back: the transaction itself, or a subtransaction.
        subxid: u32,
    },
    /// `b`: begins a transaction that was prepared (`twoPhase`).
    BeginPrepare(Prepared<'a>),
    /// `P`: the transaction is prepared.
    Prepare(Prepared<'a>),
    /// `p`: a transaction that was sent in parts is prepared.
    StreamPrepare(Prepared<'a>),
    /// `K`: COMMIT PREPARED
    CommitPrepared(Prepared<'a>),
    /// `r`: ROLLBACK PREPARED
    RollbackPrepared(Prepared<'a>),
}

/// A transaction of two-phase commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prepared<'a> {
    /// Position after the record of the event.
    pub end_position: Position,
    /// Time of the event.
    pub at: Timestamp,
    /// Its id.
    pub xid: u32,
    /// The name that PREPARE TRANSACTION gave it.
    pub gid: &'a [u8],
}

/// A table as the server describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RelationMessage<'a> {
    /// OID
    pub oid: u32,
    /// Its schema. The server omits `pg_catalog`.
    pub schema: &'a [u8],
    /// Its name.
    pub name: &'a [u8],
    /// `pg_class.relreplident`: `d` default, `n` nothing, `f` full, `i` an index.
    pub replica_identity: u8,
    /// int16 count, and the columns.
    columns: &'a [u8],
}

/// A column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnOfRelation<'a> {
    /// The column belongs to the replica identity.
    pub is_key: bool,
    /// Its name.
    pub name: &'a [u8],
    /// Its type.
    pub type_oid: u32,
    /// The type's modifier, such as the length of a varchar; -1: none.
    pub type_modifier: i32,
}

/// The part of an old row that the replica identity covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Old<'a> {
    /// Only the key columns have their values; the others are NULL.
    pub is_key: bool,
    /// The row.
    pub tuple: Tuple<'a>,
}

/// TupleData: the values of a row. If the row is the last part of its message, its values are read only once, by their
/// consumer: reading them here too would cost a tenth of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuple<'a> {
    /// Number of values.
    pub count: usize,
    values: &'a [u8],
}

/// Iterates over the values of a row, in the order of the table's columns. Yields as many as the count says, or an
/// error if the message is malformed.
#[derive(Debug, Clone)]
pub struct Values<'a> {
    reader: Reader<'a>,
    left: usize,
}

/// One value of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// NULL
    Null,
    /// The value is TOASTed and unchanged, so the server has not sent it.
    Unchanged,
    /// The text format.
    Text(&'a [u8]),
    /// The binary format.
    Binary(&'a [u8]),
}

impl<'a> Message<'a> {
    /// Its name in the protocol chapter.
    pub fn name(&self) -> &'static str {
        match self {
            Message::Begin { .. } => "Begin",
            Message::Commit { .. } => "Commit",
            Message::Origin { .. } => "Origin",
            Message::Logical { .. } => "Message",
            Message::Relation(_) => "Relation",
            Message::Type { .. } => "Type",
            Message::Insert { .. } => "Insert",
            Message::Update { .. } => "Update",
            Message::Delete { .. } => "Delete",
            Message::Truncate { .. } => "Truncate",
            Message::StreamStart { .. } => "StreamStart",
            Message::StreamStop => "StreamStop",
            Message::StreamCommit { .. } => "StreamCommit",
            Message::StreamAbort { .. } => "StreamAbort",
            Message::BeginPrepare(_) => "BeginPrepare",
            Message::Prepare(_) => "Prepare",
            Message::StreamPrepare(_) => "StreamPrepare",
            Message::CommitPrepared(_) => "CommitPrepared",
            Message::RollbackPrepared(_) => "RollbackPrepared",
        }
    }

    /// Reads a whole message, except the values of its last row ([`Tuple::values`]). `is_streamed`: the message belongs
    /// to a transaction that is still running, so a transaction id comes in front of each change.
    pub fn parse(
        body: &'a [u8],
        is_streamed: bool,
    ) -> Result<(Message<'a>, Option<u32>), Malformed> {
        let mut reader = Reader::new(body);
        let tag = reader.u8()?;
        let has_xid = is_streamed && b"MRYIUDT".contains(&tag);
        let subxid = if has_xid { Some(reader.u32()?) } else { None };
        let message = Message::read(tag, &mut reader)?;
        reader.end()?;
        Ok((message, subxid))
    }

    fn read(tag: u8, reader: &mut Reader<'a>) -> Result<Message<'a>, Malformed> {
        Ok(match tag {
            b'B' => Message::Begin {
                final_position: position(reader)?,
                committed_at: timestamp(reader)?,
                xid: reader.u32()?,
            },
            b'C' => {
                reader.u8()?;
                Message::Commit {
                    commit_position: position(reader)?,
                    end_position: position(reader)?,
                    committed_at: timestamp(reader)?,
                }
            }
            b'O' => {
                position(reader)?;
                Message::Origin {
                    name: reader.string()?,
                }
            }
            b'M' => Message::Logical {
                is_transactional: reader.u8()? & 1 != 0,
                position: position(reader)?,
                prefix: reader.string()?,
                content: counted(reader)?,
            },
            b'R' => Message::Relation(RelationMessage::read(reader)?),
            b'Y' => Message::Type {
                type_oid: reader.u32()?,
                schema: reader.string()?,
                name: reader.string()?,
            },
            b'I' => {
                let relation = reader.u32()?;
                let new = new_tuple(reader.u8()?, reader)?;
                Message::Insert { relation, new }
            }
            b'U' => update(reader)?,
            b'D' => Message::Delete {
                relation: reader.u32()?,
                old: old(reader)?,
            },
            b'T' => truncate(reader)?,
            b'S' => Message::StreamStart {
                xid: reader.u32()?,
                is_first: reader.u8()? != 0,
            },
            b'E' => Message::StreamStop,
            b'c' => stream_commit(reader)?,
            b'A' => {
                let (xid, subxid) = (reader.u32()?, reader.u32()?);
                // From version 4 on: the position and time of the rollback, which are not used.
                let more = reader.remaining();
                if !matches!(more.len(), 0 | 16) {
                    return Err(Malformed);
                }
                Message::StreamAbort { xid, subxid }
            }
            b'b' => Message::BeginPrepare(Prepared::read(reader)?),
            b'P' | b'p' | b'K' => {
                reader.u8()?;
                let prepared = Prepared::read(reader)?;
                match tag {
                    b'P' => Message::Prepare(prepared),
                    b'p' => Message::StreamPrepare(prepared),
                    _ => Message::CommitPrepared(prepared),
                }
            }
            b'r' => rollback_prepared(reader)?,
            _ => return Err(Malformed),
        })
    }
}

/// `[K|O tuple] N tuple`
fn update<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, Malformed> {
    let relation = reader.u32()?;
    let mut tag = reader.u8()?;
    let mut old = None;
    if let Some(is_key) = is_key(tag) {
        let tuple = Tuple::read(reader)?;
        old = Some(Old { is_key, tuple });
        tag = reader.u8()?;
    }
    let new = new_tuple(tag, reader)?;
    Ok(Message::Update { relation, old, new })
}

fn truncate<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, Malformed> {
    let count = reader.u32()? as usize;
    let options = reader.u8()?;
    let (relations, rest) = reader.remaining().as_chunks();
    if relations.len() != count || !rest.is_empty() {
        return Err(Malformed);
    }
    Ok(Message::Truncate {
        relations,
        cascade: options & 1 != 0,
        restart_identity: options & 2 != 0,
    })
}

fn stream_commit<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, Malformed> {
    let xid = reader.u32()?;
    reader.u8()?;
    position(reader)?;
    Ok(Message::StreamCommit {
        xid,
        end_position: position(reader)?,
        committed_at: timestamp(reader)?,
    })
}

/// The position and time of the PREPARE come before those of the rollback.
fn rollback_prepared<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, Malformed> {
    reader.u8()?;
    position(reader)?;
    let end_position = position(reader)?;
    timestamp(reader)?;
    Ok(Message::RollbackPrepared(Prepared {
        end_position,
        at: timestamp(reader)?,
        xid: reader.u32()?,
        gid: reader.string()?,
    }))
}

impl<'a> Prepared<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Prepared<'a>, Malformed> {
        position(reader)?;
        Ok(Prepared {
            end_position: position(reader)?,
            at: timestamp(reader)?,
            xid: reader.u32()?,
            gid: reader.string()?,
        })
    }
}

impl<'a> RelationMessage<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<RelationMessage<'a>, Malformed> {
        let message = RelationMessage {
            oid: reader.u32()?,
            schema: reader.string()?,
            name: reader.string()?,
            replica_identity: reader.u8()?,
            columns: reader.remaining(),
        };
        let mut columns = Reader::new(message.columns);
        for _ in 0..columns.u16()? {
            ColumnOfRelation::read(&mut columns)?;
        }
        columns.end()?;
        Ok(message)
    }

    /// Its columns, in order.
    pub fn columns(&self) -> impl Iterator<Item = ColumnOfRelation<'a>> + use<'a> {
        let mut reader = Reader::new(self.columns);
        let count = reader.u16().unwrap_or_default();
        (0..count).map_while(move |_| ColumnOfRelation::read(&mut reader).ok())
    }
}

impl<'a> ColumnOfRelation<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<ColumnOfRelation<'a>, Malformed> {
        Ok(ColumnOfRelation {
            is_key: reader.u8()? & 1 != 0,
            name: reader.string()?,
            type_oid: reader.u32()?,
            type_modifier: reader.i32()?,
        })
    }
}

/// `K`, `O`: the row of a Delete.
fn old<'a>(reader: &mut Reader<'a>) -> Result<Old<'a>, Malformed> {
    let is_key = is_key(reader.u8()?).ok_or(Malformed)?;
    let tuple = Tuple::last(reader)?;
    Ok(Old { is_key, tuple })
}

/// `None` if the tag is that of a new row.
fn is_key(tag: u8) -> Option<bool> {
    match tag {
        b'K' => Some(true),
        b'O' => Some(false),
        _ => None,
    }
}

fn new_tuple<'a>(tag: u8, reader: &mut Reader<'a>) -> Result<Tuple<'a>, Malformed> {
    match tag {
        b'N' => Tuple::last(reader),
        _ => Err(Malformed),
    }
}

impl<'a> Tuple<'a> {
    /// Reads a row that is the last part of its message.
    fn last(reader: &mut Reader<'a>) -> Result<Tuple<'a>, Malformed> {
        let count = reader.u16()?.into();
        let values = reader.remaining();
        Ok(Tuple { count, values })
    }

    /// Reads a row with other parts after it.
    fn read(reader: &mut Reader<'a>) -> Result<Tuple<'a>, Malformed> {
        let count = reader.u16()?.into();
        let mut behind = reader.clone();
        let all = behind.remaining();
        for _ in 0..count {
            Value::read(reader)?;
        }
        let left = reader.clone().remaining().len();
        let values = all
            .get(..all.len().saturating_sub(left))
            .unwrap_or_default();
        Ok(Tuple { count, values })
    }

    /// The values in the order of the table's columns. An error means that the message is malformed.
    pub fn values(&self) -> Values<'a> {
        Values {
            reader: Reader::new(self.values),
            left: self.count,
        }
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = Result<Value<'a>, Malformed>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let Some(left) = self.left.checked_sub(1) else {
            return (!self.reader.remaining().is_empty()).then_some(Err(Malformed));
        };
        self.left = left;
        Some(Value::read(&mut self.reader))
    }
}

impl<'a> Value<'a> {
    #[inline(always)]
    fn read(reader: &mut Reader<'a>) -> Result<Value<'a>, Malformed> {
        Ok(match reader.u8()? {
            b'n' => Value::Null,
            b'u' => Value::Unchanged,
            b't' => Value::Text(counted(reader)?),
            b'b' => Value::Binary(counted(reader)?),
            _ => return Err(Malformed),
        })
    }
}

/// An int32 length, and as many bytes.
#[inline(always)]
fn counted<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    let length = reader.u32()? as usize;
    reader.bytes(length)
}

fn position(reader: &mut Reader<'_>) -> Result<Position, Malformed> {
    Ok(Position::from_be_bytes(timestamp(reader)?))
}

fn timestamp(reader: &mut Reader<'_>) -> Result<Timestamp, Malformed> {
    reader.bytes(8)?.try_into().map_err(|_| Malformed)
}

#[cfg(test)]
mod tests;
