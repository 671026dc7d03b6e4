//! Rows on their way out: the buffer they gather in, and the caps that hold while they are framed.
//!
//! A cap of N lets exactly N rows pass; it trips at row N + 1. The row that would cross a cap of bytes is taken back before
//! anybody sees it. Whole rows only: `buffer` always ends at the end of a row.

use crate::encode::{Output, Plan, RowError};
use alloc::rc::Rc;

/// Above this an empty buffer is given back.
const KEEP: usize = 4 << 20;

/// Finished rows that nobody has taken yet.
#[derive(Debug, Default)]
pub struct Rows {
    buffer: Output,
}

impl Rows {
    /// The finished rows.
    pub fn bytes(&self) -> &[u8] {
        self.buffer.as_slice()
    }

    /// They have been taken (or are not wanted).
    pub fn clear(&mut self) {
        self.buffer.clear(KEEP);
    }
}

/// A cap that tripped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// `"rows"` or `"bytes"`.
    pub limit: &'static str,
    /// The cap.
    pub value: u64,
    /// What it would have become with the row that tripped it.
    pub observed: u64,
}

/// Caps of one operation; 0 is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Caps {
    /// The most rows.
    pub rows: u64,
    /// The most bytes of encoded rows.
    pub bytes: u64,
}

/// Where the rows of one operation go.
#[derive(Debug, Default)]
pub struct RowSink {
    /// `None`: rows are counted, not encoded.
    pub plan: Option<Rc<Plan>>,
    /// Rows are read and dropped.
    pub discard: bool,
    caps: Caps,
    row_count: u64,
    byte_count: u64,
}

impl RowSink {
    /// A sink under `caps`.
    pub fn new(caps: Caps) -> Self {
        RowSink {
            caps,
            ..RowSink::default()
        }
    }

    /// Takes one DataRow body. `Some(limit)`: the row did not go out and no further one will.
    #[inline]
    pub fn row(&mut self, body: &[u8], rows: &mut Rows) -> Result<Option<Limit>, RowError> {
        if self.discard {
            return Ok(None);
        }
        let row_count = self.row_count.saturating_add(1);
        if self.caps.rows != 0 && row_count > self.caps.rows {
            return Ok(Some(self.trip("rows", self.caps.rows, row_count)));
        }
        self.row_count = row_count;
        let Some(plan) = &self.plan else {
            return Ok(None);
        };

        let start = rows.buffer.len();
        if let Err(error) = plan.encode_row(body, &mut rows.buffer) {
            rows.buffer.truncate(start);
            return Err(error);
        }
        let byte_count = self
            .byte_count
            .saturating_add(rows.buffer.len().saturating_sub(start) as u64);
        if self.caps.bytes != 0 && byte_count > self.caps.bytes {
            rows.buffer.truncate(start);
            return Ok(Some(self.trip("bytes", self.caps.bytes, byte_count)));
        }
        self.byte_count = byte_count;
        Ok(None)
    }

    fn trip(&mut self, limit: &'static str, value: u64, observed: u64) -> Limit {
        self.discard = true;
        Limit {
            limit,
            value,
            observed,
        }
    }
}
