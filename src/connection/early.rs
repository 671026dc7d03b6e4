//! What can be said of a row against the caps on bytes before all of it is there, so that nothing is kept that will be
//! refused.
//!
//! Goes through a DataRow body as it comes and remembers where it is. Where a row is refused, and with which number,
//! depends on the row alone, not on the pieces it comes in. Knows lengths of fields; what a column's output may be is
//! `types`' business.

use super::limits::{Caps, over};
use crate::encode::{Plan, Shortest};

/// Rows above this are looked at for the cap on output before they are whole: a shorter one costs nothing to keep, and
/// its output can be counted exactly.
pub const LONG_ROW: usize = 1 << 14;

/// How far a row has been looked at.
#[derive(Debug, Default)]
pub struct Examination {
    /// Bytes of the body; may lie beyond what has come.
    at: usize,
    /// Of the field that is counted byte by byte: those still to come.
    uncounted: usize,
    /// Columns whose length has come.
    columns: usize,
    /// Bytes of output that are certain.
    least: u64,
    /// No row of this plan: the encoder will say what is wrong with it.
    broken: bool,
}

/// A cap that a row is sure to cross.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crossed {
    pub limit: &'static str,
    pub value: u64,
    pub observed: u64,
}

impl Examination {
    /// Looks at what has come since the last time. `body`: all of the row that is there; `length`: what it will be;
    /// `written`: bytes of output before it and behind the last.
    pub fn go_on(
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
                        // Whatever the piece that it was found in.
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

    /// Counts what is there of the field whose bytes are counted.
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
