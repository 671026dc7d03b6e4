//! The caps of one operation. Knows how a cap is compared. Must not know rows, or what a cap that trips leads to.

/// The caps of one operation; 0 means no cap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Caps {
    /// Maximum number of rows.
    pub rows: u64,
    /// Maximum number of bytes of output, including the text around the rows.
    pub bytes: u64,
    /// Maximum number of bytes of one field, as the server sends it.
    pub field_bytes: u64,
    /// A cap that trips ends the output with a mark instead of failing the operation.
    pub truncate: bool,
    /// Maximum number of rows per Execute, whose portal then stays open; 0: all rows.
    pub fetch: u32,
}

/// Whether `count` exceeds `cap`, where 0 means no cap.
#[inline(always)]
pub(super) fn over(count: u64, cap: u64) -> bool {
    cap != 0 && count > cap
}
