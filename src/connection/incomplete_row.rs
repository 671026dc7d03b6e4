//! Checks an incomplete row against the caps on bytes, so that a row that will be refused is not kept.
//!
//! Scans a DataRow body as it arrives and remembers the position. Where a row is refused, and with which number,
//! depends on the row alone and not on the pieces it arrives in. Knows lengths of fields. Must not know how short a
//! column's output may be, which `types` says.

use super::caps::{Caps, over};
use crate::encode::{Plan, Shortest};

/// Rows longer than this are checked against the cap on output before they are complete. A shorter row costs nothing to
/// keep, and its output can be counted exactly.
pub const LONG_ROW: usize = 1 << 14;

/// How far a row has been examined.
#[derive(Debug, Default)]
pub struct IncompleteRow {
    /// Position in the body; may be past the bytes that have arrived.
    at: usize,
    /// Remaining bytes of the field that is counted byte by byte.
    uncounted: usize,
    /// Number of columns whose length has arrived.
    columns: usize,
    /// Bytes of output that are certain.
    least: u64,
    /// The body is not a row of this plan. The encoder will say what is wrong with it.
    broken: bool,
}

/// A cap that a row is certain to exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crossed {
    pub limit: &'static str,
    pub value: u64,
    pub observed: u64,
}

impl IncompleteRow {
    /// Examines what has arrived since the last call. `body`: the part of the row that has arrived; `length`: its full
    /// length; `written`: bytes of output before this row and after the last one.
    pub fn examine_more(
        &mut self,
        plan: &Plan,
        caps: &Caps,
        written: u64,
        body: &[u8],
        length: usize,
    ) -> Option<Crossed> {
        if self.at == 0 {
            let count = i16::from_be_bytes(*body.first_chunk()?);
            self.broken = usize::try_from(count) != Ok(plan.column_count());
            self.at = 2;
        }
        let most = if length > LONG_ROW { caps.bytes } else { 0 };
        while !self.broken {
            if self.uncounted > 0 {
                self.count(body);
                if over(written.saturating_add(self.least), most) {
                    return Some(Crossed {
                        limit: "bytes",
                        value: most,
                        // The same number, whichever piece it was found in.
                        observed: most.saturating_add(1),
                    });
                }
                if self.uncounted > 0 {
                    return None;
                }
            }
            if self.columns == plan.column_count() {
                return None;
            }
            let field = i32::from_be_bytes(*body.get(self.at..)?.first_chunk()?);
            self.at = self.at.saturating_add(4);
            let shortest = plan.shortest(self.columns);
            self.columns = self.columns.saturating_add(1);
            let field = match usize::try_from(field) {
                Ok(field) if field <= length.saturating_sub(self.at) => field,
                _ if field == -1 => continue,
                _ => {
                    self.broken = true;
                    return None;
                }
            };
            if over(field as u64, caps.field_bytes) {
                return Some(Crossed {
                    limit: "fieldBytes",
                    value: caps.field_bytes,
                    observed: field as u64,
                });
            }
            if most != 0 && shortest == Shortest::WithoutLineBreaks {
                self.uncounted = field;
                continue;
            }
            self.at = self.at.saturating_add(field);
            if shortest == Shortest::Value {
                self.least = self.least.saturating_add(field.saturating_sub(1) as u64);
                let observed = written.saturating_add(self.least);
                if over(observed, most) {
                    return Some(Crossed {
                        limit: "bytes",
                        value: most,
                        observed,
                    });
                }
            }
        }
        None
    }

    /// Counts the bytes that have arrived of the field that is counted byte by byte.
    fn count(&mut self, body: &[u8]) {
        let there = body.get(self.at..).unwrap_or_default();
        let there = there.get(..self.uncounted).unwrap_or(there);
        let breaks = there.iter().filter(|byte| matches!(byte, b'\r' | b'\n'));
        let certain = there.len().saturating_sub(breaks.count());
        self.least = self.least.saturating_add(certain as u64);
        self.at = self.at.saturating_add(there.len());
        self.uncounted = self.uncounted.saturating_sub(there.len());
    }
}
