//! The place in a stream of changes, relative to transactions, and which message may come there.
//!
//! ```text
//! outside ── Begin ────────> transaction ── Commit ─────> outside
//! outside ── BeginPrepare ─> prepared ───── Prepare ────> outside
//! outside ── StreamStart ──> part ───────── StreamStop ─> outside
//! ```
//! Rows, descriptions and origins come inside. What happens to a transaction as a whole is reported outside.
//! Knows the order of messages. Must not know positions, or what a change looks like.

use super::message::Message;

/// The place of the next message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Outside,
    /// Between Begin and Commit.
    Transaction(Inside),
    /// Between BeginPrepare and Prepare.
    Prepared(Inside),
    /// Between StreamStart and StreamStop.
    Part(Inside),
}

/// The transaction to which messages belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Inside {
    pub xid: u32,
    /// The transaction was yielded on an earlier connection: its messages are read and dropped.
    pub is_known: bool,
}

impl Place {
    /// Whether `message` may come here. `streams`: parts of open transactions were asked for.
    pub fn admits(self, message: &Message<'_>, streams: bool) -> bool {
        use Message as M;
        match message {
            M::Begin { .. } | M::BeginPrepare(_) => self == Place::Outside,
            // A slot for two-phase commit sends these to a client that has not asked for them, too.
            M::CommitPrepared(_) | M::RollbackPrepared(_) => self == Place::Outside,
            M::StreamStart { .. } | M::StreamCommit { .. } | M::StreamPrepare(_) => {
                streams && self == Place::Outside
            }
            // PostgreSQL 18 sends it also where no part was asked for.
            M::StreamAbort { .. } => self == Place::Outside,
            M::Commit { .. } => matches!(self, Place::Transaction(_)),
            M::Prepare(_) => matches!(self, Place::Prepared(_)),
            M::StreamStop => matches!(self, Place::Part(_)),
            M::Origin { .. }
            | M::Relation(_)
            | M::Type { .. }
            | M::Insert { .. }
            | M::Update { .. }
            | M::Delete { .. }
            | M::Truncate { .. } => self != Place::Outside,
            M::Logical {
                is_transactional, ..
            } => !is_transactional || self != Place::Outside,
        }
    }

    /// The transaction whose changes are yielded here, if any.
    pub fn xid(self) -> Option<u32> {
        self.inside()
            .filter(|inside| !inside.is_known)
            .map(|inside| inside.xid)
    }

    /// Whether messages are read and dropped here.
    pub fn is_known(self) -> bool {
        self.inside().is_some_and(|inside| inside.is_known)
    }

    pub fn is_part(self) -> bool {
        matches!(self, Place::Part(_))
    }

    fn inside(self) -> Option<Inside> {
        match self {
            Place::Outside => None,
            Place::Transaction(inside) | Place::Prepared(inside) | Place::Part(inside) => {
                Some(inside)
            }
        }
    }
}
