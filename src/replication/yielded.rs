//! The transactions that were yielded and not acknowledged: a server sends them again on the next connection.
//!
//! A commit is recognised by its position, because transactions come in the order of their commits. Two kinds are
//! recognised by their id instead. A part of a transaction does not say where the commit will be. And PREPARE may be
//! far before the position at which it is sent, if the slot was changed to two-phase commit meanwhile.
//!
//! ```text
//! prepare yielded ──> prepared ── its outcome yielded ──> ended ── acknowledged ──> forgotten
//! commit yielded, with parts of transactions asked for ────^
//! ```
//! Knows ids and positions. Must not know messages.

use super::message::Position;
use alloc::vec::Vec;

#[derive(Debug, Default)]
pub(super) struct Yielded {
    /// Yielded up to PREPARE. There are at most `max_prepared_transactions`.
    prepared: Vec<u32>,
    /// Yielded up to their end, ordered by their ids. A consumer that never acknowledges has many, and their ids are
    /// dense: mostly one takes less than a byte. They come almost in order, so that few entries move at an insertion.
    ended: Vec<Ended>,
    /// The server does not send transactions again that ended at or before this position.
    acknowledged: Position,
    /// Acknowledged ones are removed when there are this many entries, because that reads all of them.
    room: usize,
}

/// Minimum number of entries before any is removed.
const ROOM: usize = 64;

/// Transactions whose ids have the same upper bits.
#[derive(Debug)]
struct Ended {
    upper: u32,
    /// A bit for each id.
    ids: u64,
    /// Position after the last of their ends.
    latest: Position,
}

impl Yielded {
    pub fn has(&self, xid: u32) -> bool {
        let is_ended =
            |ended: &Ended| ended.ids & bit(xid) != 0 && ended.latest > self.acknowledged;
        let place = self.place(xid).ok();
        self.prepared.contains(&xid)
            || place
                .and_then(|at| self.ended.get(at))
                .is_some_and(is_ended)
    }

    /// The PREPARE of a transaction was yielded.
    pub fn prepared(&mut self, xid: u32) {
        self.prepared.push(xid);
    }

    /// The end of a transaction was yielded.
    pub fn ended(&mut self, xid: u32, end: Position) {
        self.prepared.retain(|prepared| *prepared != xid);
        if self.ended.len() >= self.room {
            let acknowledged = self.acknowledged;
            self.ended.retain(|ended| ended.latest > acknowledged);
            self.room = ROOM.max(self.ended.len().saturating_mul(2));
        }
        let at = self.place(xid).unwrap_or_else(|at| {
            let (upper, ids, latest) = (upper(xid), 0, 0);
            self.ended.insert(at, Ended { upper, ids, latest });
            at
        });
        let acknowledged = self.acknowledged;
        if let Some(ended) = self.ended.get_mut(at) {
            // An acknowledged entry that was not removed may be older than a wraparound of the ids.
            if ended.latest <= acknowledged {
                ended.ids = 0;
            }
            ended.ids |= bit(xid);
            ended.latest = ended.latest.max(end);
        }
    }

    /// The server does not send transactions again that ended at or before `acknowledged`.
    pub fn forget(&mut self, acknowledged: Position) {
        self.acknowledged = acknowledged;
    }

    /// Where the entry of a transaction is, or where it would be inserted.
    fn place(&self, xid: u32) -> Result<usize, usize> {
        self.ended
            .binary_search_by_key(&upper(xid), |ended| ended.upper)
    }
}

const fn upper(xid: u32) -> u32 {
    xid >> 6
}

const fn bit(xid: u32) -> u64 {
    1 << (xid & 63)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_is_known_until_its_end_is_acknowledged() {
        let mut yielded = Yielded::default();
        for (xid, end) in [(63, 0x100), (64, 0x200), (u32::MAX, 0x300)] {
            assert!(!yielded.has(xid));
            yielded.ended(xid, end);
            assert!(yielded.has(xid));
            assert!(!yielded.has(xid ^ 1));
            yielded.forget(end - 1);
            assert!(yielded.has(xid));
            yielded.forget(end);
            assert!(!yielded.has(xid));
        }
    }

    #[test]
    fn an_acknowledged_id_may_be_that_of_a_later_transaction() {
        let mut yielded = Yielded::default();
        yielded.ended(7, 0x100);
        yielded.forget(0x100);
        // 2^32 transactions later, in which none was yielded.
        yielded.ended(6, 0x9000);
        assert!(yielded.has(6) && !yielded.has(7));
    }

    #[test]
    fn only_what_is_not_acknowledged_takes_memory() {
        let mut yielded = Yielded::default();
        for xid in 0..100_000 {
            yielded.ended(xid, xid.into());
            yielded.forget(Position::from(xid).saturating_sub(1));
        }
        assert!(yielded.ended.len() <= ROOM);
        assert!(yielded.has(99_999));
    }

    #[test]
    fn an_end_that_is_not_acknowledged_keeps_its_neighbours() {
        let mut yielded = Yielded::default();
        yielded.ended(8, 0x200);
        yielded.ended(7, 0x100);
        yielded.forget(0x1ff);
        assert!(yielded.has(7) && yielded.has(8));
    }

    /// Its PREPARE may be before anything that was acknowledged.
    #[test]
    fn a_prepared_transaction_is_known_until_its_outcome_is_acknowledged() {
        let mut yielded = Yielded::default();
        yielded.prepared(7);
        yielded.forget(0x90);
        assert!(yielded.has(7));
        yielded.ended(7, 0x100);
        assert!(yielded.has(7));
        yielded.forget(0x100);
        assert!(!yielded.has(7));
    }
}
