//! Rows on their way out: the buffer they gather in, and the caps that hold while they are framed.
//!
//! A cap of N lets exactly N rows pass; it trips at row N + 1. The row that would cross a cap of bytes is taken back before
//! anybody sees it, and so is one with a field that is too long. Whole rows only: `buffer` always ends at the end of a row.
//! What stands before the first row comes with it, or at the successful end: a query that fails before has written nothing.

use crate::encode::columns::{Blocks, Mark};
use crate::encode::{Output, Plan, RowError, RowForm};
use crate::protocol::frame::{Bodies, Frames};
use crate::types::output::Target;
use alloc::rc::Rc;

/// Rows that wait before more messages are read: a numeric of ten bytes may be a text of 131,072, so one chunk could fill the memory.
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
            self.blocks.seal(&mut self.buffer, KEEP);
        }
        self.buffer.as_slice()
    }

    /// Their bytes, as far as they are written.
    pub fn byte_count(&self) -> usize {
        self.buffer.len().saturating_add(self.blocks.len())
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

/// Where the rows of one operation go.
#[derive(Debug, Default)]
pub struct RowSink {
    /// How rows are to be written; `None`: they are counted.
    pub format: Option<RowForm>,
    /// How those of the columns that have come are written.
    pub plan: Option<Rc<Plan>>,
    /// Rows are read and dropped.
    pub discard: bool,
    /// Rows go out as they are: data of COPY.
    pub raw: bool,
    caps: Caps,
    row_count: u64,
    byte_count: u64,
    /// A cap is near, or a row that is none.
    one_by_one: bool,
}

/// More than a cap, of which 0 is none.
#[inline(always)]
fn over(count: u64, cap: u64) -> bool {
    cap != 0 && count > cap
}

impl RowSink {
    /// A sink under `caps`.
    pub fn new(format: Option<RowForm>, caps: Caps) -> Self {
        RowSink {
            format,
            caps,
            ..RowSink::default()
        }
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

    /// Takes one DataRow body (or a row as it is to go out, where `raw` says so), and the rows `behind` it that need not be looked at one by one.
    /// `Some(limit)`: the row did not go out and no further one will.
    ///
    /// Rows that come together are written together, as if there were no cap. When one of them turns out to trip a cap, or to be none, they are
    /// all taken back and come one by one from then on, so that what happens does not depend on what came together.
    #[inline]
    pub fn take<'a>(&mut self, body: &'a [u8], behind: &mut Frames<'a>, rows: &mut Rows) -> Taken {
        if self.discard {
            return Ok(None);
        }
        let before = self.row_count;
        let row_count = before.saturating_add(1);
        if over(row_count, self.caps.rows) {
            return self.trip("rows", self.caps.rows, row_count, rows);
        }
        let Some(plan) = &self.plan else {
            self.row_count = row_count;
            return self.without_plan(body, rows);
        };
        if over(body.len() as u64, self.caps.field_bytes) {
            let longest = longest_field(body);
            if over(longest, self.caps.field_bytes) {
                return self.trip("fieldBytes", self.caps.field_bytes, longest, rows);
            }
        }
        let (start, mark) = (rows.buffer.len(), rows.blocks.mark());
        loop {
            // A field is no longer than all that is there.
            let alone = self.one_by_one || over(behind.unread() as u64, self.caps.field_bytes);
            let mut others = if alone {
                Bodies::default()
            } else {
                behind.bodies(b'D')
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
                return self.trip("bytes", self.caps.bytes, with_tail, rows);
            }
            self.one_by_one = true;
        }
    }

    /// Appends `body` and the `others`, and what stands before the first row of all. How many rows there were before the error, if one ended
    /// them, and how many bytes they are.
    #[inline(always)]
    fn write<'a>(
        &self,
        plan: &Plan,
        body: &'a [u8],
        others: &mut Bodies<'a>,
        rows: &mut Rows,
    ) -> (u64, u64, Result<(), RowError>) {
        let before = rows.byte_count();
        let is_first = self.row_count == 0;
        if is_first {
            plan.begin(&mut rows.buffer);
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

    fn without_plan(&mut self, body: &[u8], rows: &mut Rows) -> Taken {
        if !self.raw {
            return Ok(None);
        }
        let byte_count = self.byte_count.saturating_add(body.len() as u64);
        if self.caps.bytes != 0 && byte_count > self.caps.bytes {
            self.row_count = self.row_count.saturating_sub(1);
            return self.trip("bytes", self.caps.bytes, byte_count, rows);
        }
        self.byte_count = byte_count;
        rows.buffer.write(|out| out.put_slice(body));
        Ok(None)
    }

    /// The successful end: what stands behind the last row.
    pub fn finish(&mut self, rows: &mut Rows) {
        if let (false, Some(plan)) = (self.discard, &self.plan) {
            plan.finish(self.row_count, &mut rows.buffer);
        }
    }

    fn trip(&mut self, limit: &'static str, value: u64, observed: u64, rows: &mut Rows) -> Taken {
        self.discard = true;
        let truncated = self.caps.truncate;
        if let (true, Some(plan)) = (truncated, &self.plan) {
            plan.truncate(limit, value, self.row_count, &mut rows.buffer);
        }
        Ok(Some(Limit {
            limit,
            value,
            observed,
            truncated,
        }))
    }
}

/// Of a DataRow body: int16 count, then per field int32 length (-1: NULL) and bytes. A broken one is the encoder's to refuse.
#[cold]
fn longest_field(body: &[u8]) -> u64 {
    let mut rest = body.get(2..).unwrap_or_default();
    let mut longest = 0;
    while let Some((length, behind)) = rest.split_first_chunk() {
        let length = i32::from_be_bytes(*length).max(0) as usize;
        longest = longest.max(length);
        rest = behind.get(length..).unwrap_or_default();
    }
    longest as u64
}
