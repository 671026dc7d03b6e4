//! Rows on their way out: the buffer they gather in, and the caps that hold while they are framed.
//!
//! A cap of N lets exactly N rows pass; it trips at row N + 1. The row that would cross a cap of bytes is taken back
//! before anybody sees it, and so is one with a field that is too long; where it can be said before all of the row is
//! there, what has come of it is dropped and the rest is skipped. Whole rows only: `buffer` always ends at the end of a
//! row. What stands before the first row comes with it, or at the successful end: a query that fails before has written
//! nothing.

use super::early::{Crossed, Examination, LONG_ROW};
use crate::encode::columns::{Blocks, Mark};
use crate::encode::{Output, Plan, RowError, RowForm};
use crate::protocol::frame::{Bodies, Frame, Frames, Part};
use crate::types::output::Target;
use alloc::rc::Rc;
use alloc::vec::Vec;

/// Rows that wait before more messages are read: a numeric of ten bytes may be a text of 131,072, so one chunk could
/// fill the memory.
pub const MOST_ROW_BYTES: usize = 4 << 20;

/// Above this an empty buffer is given back.
const KEEP: usize = 4 << 20;

/// Finished rows that nobody has taken yet.
#[derive(Debug, Default)]
pub struct Rows {
    buffer: Output,
    /// What belongs to the slots in `buffer`, where rows become JavaScript values.
    blocks: Blocks,
}

impl Rows {
    /// The finished rows. A batch of values is closed by this: it is to be taken before more come.
    pub fn bytes(&mut self) -> &[u8] {
        if !self.blocks.is_empty() {
            self.blocks.seal(&mut self.buffer, &[], KEEP);
        }
        self.buffer.as_slice()
    }

    /// Their bytes, as far as they are written.
    pub fn byte_count(&self) -> usize {
        self.buffer.len().saturating_add(self.blocks.len())
    }

    /// Makes room for the output of a long row: growing step by step, it would need up to three times as much.
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

    fn take_back(&mut self, start: usize, mark: Mark) {
        self.blocks.take_back(mark);
        self.buffer.truncate(start);
    }

    /// They have been taken (or are not wanted).
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
    /// What it would have become with the row that tripped it.
    pub observed: u64,
    /// The output says that it ends here, and ends properly.
    pub truncated: bool,
}

/// Caps of one operation; 0 is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Caps {
    /// The most rows.
    pub rows: u64,
    /// The most bytes of output, what stands around the rows included.
    pub bytes: u64,
    /// The most bytes of one field, as the server sends it.
    pub field_bytes: u64,
    /// A cap that trips ends the output with a mark instead of failing the operation.
    pub truncate: bool,
    /// The most rows of one Execute, whose portal then stays open; 0: all of them.
    pub fetch: u32,
}

/// What became of a row: a cap may have tripped.
pub type Taken = Result<Option<Limit>, RowError>;

/// What is to become of a row of which only a part is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arriving {
    /// It is kept until all of it is there.
    Wanted,
    /// Nobody wants it.
    Unwanted,
    /// A cap has tripped.
    Refused(Limit),
}

/// Rows as they came.
#[derive(Debug, Default)]
struct Held {
    /// Whole DataRow messages.
    messages: Vec<u8>,
    row_count: u64,
    /// The most bytes of them.
    most: usize,
}

/// Where the rows of one operation go.
#[derive(Debug, Default)]
pub struct RowSink {
    /// How rows are to be written; `None`: they are counted.
    pub format: Option<RowForm>,
    /// How those of the columns that have come are written.
    pub plan: Option<Rc<Plan>>,
    /// Rows are read and dropped.
    pub discard: bool,
    /// Data of COPY go out as they are.
    pub raw: bool,
    /// Rows come in CopyData, not in DataRow.
    pub is_copied: bool,
    /// Values that cannot be read from their text are strings of it.
    pub keeps_unread: bool,
    /// Rows that wait until somebody can say how they are read.
    held: Option<Held>,
    caps: Caps,
    row_count: u64,
    byte_count: u64,
    /// A cap is near, or a row that is none.
    one_by_one: bool,
    /// Rows longer than this may cross a cap on bytes as it stands.
    examined_from: usize,
    /// Of the row that is arriving.
    examination: Examination,
}

/// More than a cap, of which 0 is none.
#[inline(always)]
pub(super) fn over(count: u64, cap: u64) -> bool {
    cap != 0 && count > cap
}

impl RowSink {
    /// A sink under `caps`.
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

    /// Whether a row may be refused for its bytes before all of it is there.
    pub fn caps_bytes(&self) -> bool {
        self.caps.bytes != 0 || self.caps.field_bytes != 0
    }

    /// Rows are kept as they come from now on, as long as they have no more than `most` bytes.
    pub fn hold(&mut self, most: usize) {
        self.held = Some(Held {
            most,
            ..Held::default()
        });
    }

    /// Whether rows are kept as they come.
    pub fn holds(&self) -> bool {
        self.held.is_some()
    }

    /// They have more bytes than may be kept.
    pub fn holds_too_much(&self) -> bool {
        self.held
            .as_ref()
            .is_some_and(|held| held.messages.len() > held.most)
    }

    /// Those that were kept. Rows go their way from now on.
    pub fn take_held(&mut self) -> Vec<u8> {
        self.held.take().unwrap_or_default().messages
    }

    /// Nobody wants those that were kept, nor others.
    pub fn drop_held(&mut self) {
        self.held = None;
    }

    /// Rows of one Execute; 0: all.
    pub fn maximum_rows(&self) -> u32 {
        self.caps.fetch
    }

    /// Rows that have passed.
    pub fn rows(&self) -> u64 {
        self.row_count
    }

    /// Bytes of output that they made.
    pub fn bytes(&self) -> u64 {
        self.byte_count
    }

    /// Takes one DataRow body (or a row as it is to go out, where `raw` says so), and the rows `behind` it that need
    /// not be looked at one by one. `Some(limit)`: the row did not go out and no further one will.
    ///
    /// Rows that come together are written together, as if there were no cap. When one of them turns out to trip a cap,
    /// or to be none, they are all taken back and come one by one from then on, so that what happens does not depend on
    /// what came together.
    #[inline]
    pub fn take<'a>(&mut self, body: &'a [u8], behind: &mut Frames<'a>, rows: &mut Rows) -> Taken {
        if self.discard {
            return Ok(None);
        }
        if self.holds() {
            return Ok(self.keep(body, rows));
        }
        let before = self.row_count;
        let row_count = before.saturating_add(1);
        if over(row_count, self.caps.rows) {
            return Ok(Some(self.too_many(row_count, rows)));
        }
        let Some(plan) = &self.plan else {
            self.row_count = row_count;
            return Ok(self.without_plan(body, behind, rows));
        };
        if body.len() > self.examined_from {
            let mut examination = core::mem::take(&mut self.examination);
            if let Some(crossed) = self.examine(&mut examination, plan, body, body.len()) {
                return Ok(Some(self.refuse(crossed, rows)));
            }
        }
        let (start, mark) = (rows.buffer.len(), rows.blocks.mark());
        loop {
            // A field is no longer than all that is there.
            let alone = self.one_by_one || over(behind.unread() as u64, self.caps.field_bytes);
            let mut others = if alone {
                Bodies::default()
            } else {
                behind.bodies(if self.is_copied { b'd' } else { b'D' })
            };
            let (count, written, encoded) = self.write(plan, body, &mut others, rows);
            let row_count = before.saturating_add(count);
            let byte_count = self.byte_count.saturating_add(written);
            let with_tail = byte_count.saturating_add(plan.tail().len() as u64);
            let trips = over(with_tail, self.caps.bytes) || over(row_count, self.caps.rows);
            if !trips && encoded.is_ok() {
                if !alone {
                    behind.resume(&others);
                }
                (self.row_count, self.byte_count) = (row_count, byte_count);
                return Ok(None);
            }
            rows.take_back(start, mark);
            if alone {
                encoded?;
                return Ok(Some(self.refuse(self.too_long(with_tail), rows)));
            }
            self.one_by_one = true;
        }
    }

    /// Appends `body` and the `others`, and what stands before the first row of all. How many rows there were before
    /// the error, if one ended them, and how many bytes they are.
    #[inline(always)]
    fn write<'a>(
        &self,
        plan: &Plan,
        body: &'a [u8],
        others: &mut Bodies<'a>,
        rows: &mut Rows,
    ) -> (u64, u64, Result<(), RowError>) {
        // Each batch of values has a head; where one begins depends on when rows were taken, which the caps must not.
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

    /// Keeps a row that cannot be written yet; it is counted when it is written. The first row beyond the cap is kept
    /// too where the output has to say that it ends there.
    #[cold]
    fn keep(&mut self, body: &[u8], rows: &mut Rows) -> Option<Limit> {
        let Caps {
            rows: most,
            truncate,
            ..
        } = self.caps;
        let held = self.held.as_mut()?;
        let row_count = held.row_count.saturating_add(1);
        if over(row_count, most) && !truncate {
            self.held = None;
            return Some(self.too_many(row_count, rows));
        }
        if !over(held.row_count, most) {
            held.row_count = row_count;
            Frame { tag: b'D', body }.append_to(&mut held.messages);
        }
        None
    }

    fn without_plan<'a>(
        &mut self,
        body: &'a [u8],
        behind: &mut Frames<'a>,
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
        // Under a cap each is looked at by itself.
        if self.caps == Caps::default() {
            let mut others = behind.bodies(b'd');
            while rows.buffer.len() < MOST_ROW_BYTES
                && let Some(body) = others.next()
            {
                self.row_count = self.row_count.saturating_add(1);
                self.put_raw(body, rows);
            }
            behind.resume(&others);
        }
        None
    }

    /// A `CopyData` goes out as it is. A DataRow does not, in the same operation either.
    fn takes_raw(&self) -> bool {
        self.raw && self.is_copied
    }

    fn put_raw(&mut self, body: &[u8], rows: &mut Rows) {
        self.byte_count = self.byte_count.saturating_add(body.len() as u64);
        rows.buffer.write(|out| out.put_slice(body));
    }

    /// What is to become of a row of which `part` is there: what [`RowSink::take`] would say, as far as it is certain
    /// by now. Rows that are not [`Arriving::Wanted`] have been taken.
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
                let mut examination = core::mem::take(&mut self.examination);
                let crossed = self.examine(&mut examination, plan, part.body, part.length);
                self.examination = examination;
                crossed
            }
            Some(_) => None,
            None if self.takes_raw() => self.examine_raw(part.length),
            None if self.holds() => None,
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
        examination: &mut Examination,
        plan: &Plan,
        body: &[u8],
        length: usize,
    ) -> Option<Crossed> {
        let written = self.byte_count.saturating_add(plan.tail().len() as u64);
        examination.go_on(plan, &self.caps, written, body, length)
    }

    /// The same for a row that goes out as it is.
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

    /// The successful end: what stands behind the last row.
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
