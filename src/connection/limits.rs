//! The output side of rows: the buffer that collects them, and the caps that apply while they are written.
//!
//! A cap of N lets exactly N rows pass and trips at row N + 1. A row that would exceed the cap on bytes is removed
//! before the caller sees it, and so is a row with a field that is too long. If that is certain before the row is
//! complete, the part that has arrived is dropped and the rest is skipped. `buffer` always ends at the end of a row.
//! The text in front of the first row is written with that row, or at the successful end, so a query that fails earlier
//! has written nothing.

use super::caps::{Caps, over};
use super::incomplete_row::{Crossed, IncompleteRow, LONG_ROW};
use crate::encode::columns::{Blocks, Mark};
use crate::encode::{Output, Plan, RowError, RowForm};
use crate::protocol::frame::{Bodies, Frames, Part};
use crate::types::output::Target;
use alloc::rc::Rc;

/// Number of waiting row bytes at which reading stops: a numeric of ten bytes may become a text of 131,072, so one
/// chunk could fill the memory.
pub const MOST_ROW_BYTES: usize = 4 << 20;

/// An empty buffer with more capacity than this is freed.
const KEEP: usize = 4 << 20;

/// Finished rows that the caller has not taken yet.
#[derive(Debug, Default)]
pub struct Rows {
    buffer: Output,
    /// The text and JSON blocks that belong to the slots in `buffer`, when rows become JavaScript values.
    blocks: Blocks,
}

impl Rows {
    /// The finished rows. This closes a batch of values, so the caller must take the batch before more rows are read.
    pub fn bytes(&mut self) -> &[u8] {
        if !self.blocks.is_empty() {
            self.blocks.seal(&mut self.buffer, &[], KEEP);
        }
        self.buffer.as_slice()
    }

    /// Number of bytes of the rows written so far.
    pub fn byte_count(&self) -> usize {
        self.buffer.len().saturating_add(self.blocks.len())
    }

    /// Reserves room for the output of a long row: a buffer that grows step by step would need up to three times as
    /// much.
    #[cold]
    #[inline(never)]
    fn expect(&mut self, length: usize, is_columns: bool) {
        let slack = (length / 64).saturating_add(LONG_ROW);
        let room = length.saturating_add(slack);
        if is_columns {
            self.blocks.expect(room);
        } else {
            self.buffer.has_room(room);
        }
    }

    fn truncate(&mut self, start: usize, mark: Mark) {
        self.blocks.truncate(mark);
        self.buffer.truncate(start);
    }

    /// Clears the rows, after they were taken or because they are not wanted.
    pub fn clear(&mut self) {
        self.buffer.clear(KEEP);
        self.blocks.clear(KEEP);
    }
}

/// A cap that tripped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// `"rows"`, `"bytes"` or `"fieldBytes"`.
    pub limit: &'static str,
    /// The cap.
    pub value: u64,
    /// The count that would have resulted from the row that tripped the cap.
    pub observed: u64,
    /// The output ends properly and says that it was truncated.
    pub truncated: bool,
}

/// The outcome of a row: a cap may have tripped.
pub type Taken = Result<Option<Limit>, RowError>;

/// What to do with a row that has arrived only in part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arriving {
    /// Keep it until it is complete.
    Wanted,
    /// Skip it: the row is not wanted.
    Unwanted,
    /// Skip it: a cap has tripped.
    Refused(Limit),
}

/// The destination of one operation's rows.
#[derive(Debug, Default)]
pub struct RowSink {
    /// The form in which rows are written; `None`: rows are only counted.
    pub format: Option<RowForm>,
    /// How rows of the current columns are written.
    pub plan: Option<Rc<Plan>>,
    /// Rows are read and dropped.
    pub discard: bool,
    /// COPY data is passed through unchanged.
    pub raw: bool,
    /// Rows arrive in CopyData, not in DataRow.
    pub is_copied: bool,
    /// A value whose text cannot be parsed becomes a string of that text.
    pub keeps_unread: bool,
    caps: Caps,
    row_count: u64,
    byte_count: u64,
    /// Rows are taken one at a time, because a cap is near or one of the rows is malformed.
    one_by_one: bool,
    /// A row longer than this may, by its length, exceed a cap on bytes.
    examined_from: usize,
    /// State of the row that is arriving.
    incomplete: IncompleteRow,
}

impl RowSink {
    /// A sink with `caps`.
    pub fn new(format: Option<RowForm>, caps: Caps) -> Self {
        let above = |cap: u64, bytes: usize| if cap == 0 { usize::MAX } else { bytes };
        let field_bytes = usize::try_from(caps.field_bytes).unwrap_or(usize::MAX);
        RowSink {
            format,
            caps,
            examined_from: above(caps.field_bytes, field_bytes).min(above(caps.bytes, LONG_ROW)),
            ..RowSink::default()
        }
    }

    /// Whether a row may be refused for its bytes before it is complete.
    pub fn caps_bytes(&self) -> bool {
        self.caps.bytes != 0 || self.caps.field_bytes != 0
    }

    /// Maximum number of rows per Execute; 0: all rows.
    pub fn maximum_rows(&self) -> u32 {
        self.caps.fetch
    }

    /// Number of rows that have passed.
    pub fn rows(&self) -> u64 {
        self.row_count
    }

    /// Number of bytes of output of those rows.
    pub fn bytes(&self) -> u64 {
        self.byte_count
    }

    /// Takes one DataRow body (or, with `raw`, a row to pass through unchanged), together with the rows `following` it
    /// that need no individual check. `Some(limit)`: the row was not written, and no later row will be.
    ///
    /// Rows that arrive together are written together, as if there were no cap. If one of them trips a cap or is
    /// malformed, all of them are removed and taken again one at a time. So the result does not depend on which rows
    /// arrived together.
    #[inline]
    pub fn take<'a>(
        &mut self,
        body: &'a [u8],
        following: &mut Frames<'a>,
        rows: &mut Rows,
    ) -> Taken {
        if self.discard {
            return Ok(None);
        }
        let before = self.row_count;
        let row_count = before.saturating_add(1);
        if over(row_count, self.caps.rows) {
            return Ok(Some(self.too_many(row_count, rows)));
        }
        let Some(plan) = &self.plan else {
            self.row_count = row_count;
            return Ok(self.without_plan(body, following, rows));
        };
        if body.len() > self.examined_from {
            let mut incomplete = core::mem::take(&mut self.incomplete);
            if let Some(crossed) = self.examine(&mut incomplete, plan, body, body.len()) {
                return Ok(Some(self.refuse(crossed, rows)));
            }
        }
        let (start, mark) = (rows.buffer.len(), rows.blocks.mark());
        loop {
            // A field cannot be longer than all unread bytes.
            let alone = self.one_by_one || over(following.unread() as u64, self.caps.field_bytes);
            let mut others = if alone {
                Bodies::default()
            } else {
                following.bodies(if self.is_copied { b'd' } else { b'D' })
            };
            let (count, written, encoded) = self.write(plan, body, &mut others, rows);
            let row_count = before.saturating_add(count);
            let byte_count = self.byte_count.saturating_add(written);
            let with_tail = byte_count.saturating_add(plan.tail().len() as u64);
            let trips = over(with_tail, self.caps.bytes) || over(row_count, self.caps.rows);
            if !trips && encoded.is_ok() {
                if !alone {
                    following.resume(&others);
                }
                (self.row_count, self.byte_count) = (row_count, byte_count);
                return Ok(None);
            }
            rows.truncate(start, mark);
            if alone {
                encoded?;
                return Ok(Some(self.refuse(self.too_long(with_tail), rows)));
            }
            self.one_by_one = true;
        }
    }

    /// Appends `body` and the `others`, with the text in front of the very first row if this is it. Returns how many
    /// rows were written before the error, if there was one, how many bytes they have, and the error.
    #[inline(always)]
    fn write<'a>(
        &self,
        plan: &Plan,
        body: &'a [u8],
        others: &mut Bodies<'a>,
        rows: &mut Rows,
    ) -> (u64, u64, Result<(), RowError>) {
        // Every batch of values has a head. Where a batch begins depends on when rows were taken, and the caps must not
        // depend on that.
        let batch_head = if rows.buffer.is_empty() {
            plan.batch_head()
        } else {
            0
        };
        let before = rows.byte_count().saturating_add(batch_head);
        let is_first = self.row_count == 0;
        if is_first {
            plan.begin(&mut rows.buffer);
        }
        if body.len() > LONG_ROW {
            rows.expect(body.len(), plan.is_columns());
        }
        let start = rows.buffer.len();
        let (count, encoded) = if plan.is_columns() {
            plan.encode_values(
                body,
                others,
                MOST_ROW_BYTES,
                &mut rows.buffer,
                &mut rows.blocks,
            )
        } else {
            plan.encode_rows(body, others, MOST_ROW_BYTES, &mut rows.buffer)
        };
        if is_first {
            plan.bracket(&mut rows.buffer, start);
        }
        if !rows.blocks.have_room(&mut rows.buffer) {
            return (0, 0, Err(RowError::TooLarge));
        }
        let written = rows.byte_count().saturating_sub(before) as u64;
        (count, written, encoded)
    }

    fn without_plan<'a>(
        &mut self,
        body: &'a [u8],
        following: &mut Frames<'a>,
        rows: &mut Rows,
    ) -> Option<Limit> {
        if !self.takes_raw() {
            return None;
        }
        if let Some(crossed) = self.examine_raw(body.len()) {
            self.row_count = self.row_count.saturating_sub(1);
            return Some(self.refuse(crossed, rows));
        }
        self.put_raw(body, rows);
        // With a cap, each row is checked on its own.
        if self.caps == Caps::default() {
            let mut others = following.bodies(b'd');
            while rows.buffer.len() < MOST_ROW_BYTES
                && let Some(body) = others.next()
            {
                self.row_count = self.row_count.saturating_add(1);
                self.put_raw(body, rows);
            }
            following.resume(&others);
        }
        None
    }

    /// Whether rows are passed through unchanged. That applies to CopyData, but not to a DataRow in the same operation.
    fn takes_raw(&self) -> bool {
        self.raw && self.is_copied
    }

    fn put_raw(&mut self, body: &[u8], rows: &mut Rows) {
        self.byte_count = self.byte_count.saturating_add(body.len() as u64);
        rows.buffer.write(|out| out.put_slice(body));
    }

    /// Decides about a row of which `part` has arrived: as [`RowSink::take`] would, as far as that is already certain.
    /// A row that is not [`Arriving::Wanted`] counts as taken.
    #[cold]
    pub fn arriving(&mut self, part: Part<'_>, rows: &mut Rows) -> Arriving {
        if self.discard {
            return Arriving::Unwanted;
        }
        let row_count = self.row_count.saturating_add(1);
        if over(row_count, self.caps.rows) {
            return Arriving::Refused(self.too_many(row_count, rows));
        }
        let crossed = match &self.plan {
            Some(plan) if part.length > self.examined_from => {
                let mut incomplete = core::mem::take(&mut self.incomplete);
                let crossed = self.examine(&mut incomplete, plan, part.body, part.length);
                self.incomplete = incomplete;
                crossed
            }
            Some(_) => None,
            None if self.takes_raw() => self.examine_raw(part.length),
            None => {
                self.row_count = row_count;
                return Arriving::Unwanted;
            }
        };
        match crossed {
            Some(crossed) => Arriving::Refused(self.refuse(crossed, rows)),
            None => Arriving::Wanted,
        }
    }

    #[inline(never)]
    fn examine(
        &self,
        incomplete: &mut IncompleteRow,
        plan: &Plan,
        body: &[u8],
        length: usize,
    ) -> Option<Crossed> {
        let written = self.byte_count.saturating_add(plan.tail().len() as u64);
        incomplete.examine_more(plan, &self.caps, written, body, length)
    }

    /// Does the same for a row that is passed through unchanged.
    fn examine_raw(&self, length: usize) -> Option<Crossed> {
        let (length, byte_count) = (length as u64, self.byte_count.saturating_add(length as u64));
        if over(length, self.caps.field_bytes) {
            return Some(Crossed {
                limit: "fieldBytes",
                value: self.caps.field_bytes,
                observed: length,
            });
        }
        over(byte_count, self.caps.bytes).then(|| self.too_long(byte_count))
    }

    fn too_long(&self, observed: u64) -> Crossed {
        Crossed {
            limit: "bytes",
            value: self.caps.bytes,
            observed,
        }
    }

    fn too_many(&mut self, row_count: u64, rows: &mut Rows) -> Limit {
        self.refuse(
            Crossed {
                limit: "rows",
                value: self.caps.rows,
                observed: row_count,
            },
            rows,
        )
    }

    /// Writes the text after the last row, at the successful end.
    pub fn finish(&mut self, rows: &mut Rows) {
        if let (false, Some(plan)) = (self.discard, &self.plan) {
            plan.finish(self.row_count, &mut rows.buffer);
        }
    }

    #[cold]
    fn refuse(
        &mut self,
        Crossed {
            limit,
            value,
            observed,
        }: Crossed,
        rows: &mut Rows,
    ) -> Limit {
        self.discard = true;
        let truncated = self.caps.truncate;
        if let (true, Some(plan)) = (truncated, &self.plan) {
            plan.truncate(limit, value, self.row_count, &mut rows.buffer);
        }
        Limit {
            limit,
            value,
            observed,
            truncated,
        }
    }
}
