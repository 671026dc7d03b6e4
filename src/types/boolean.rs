//! bool: one byte, 0 or 1 (text form `f` or `t`).

use alloc::vec::Vec;

use super::copy::append_block;
use super::{Outcome, WRONG_LENGTH};

/// Appends the binary form.
#[inline]
pub(super) fn append(out: &mut Vec<u8>, value: &[u8]) -> Outcome {
    match value {
        [1] => append_block(out, b"true", 4),
        [0] => append_block(out, b"false", 5),
        [_] => return Err("bool is neither 0 nor 1"),
        _ => return Err(WRONG_LENGTH),
    }
    Ok(())
}

/// Appends the text form.
pub(super) fn append_text(out: &mut Vec<u8>, value: &[u8]) -> Outcome {
    match value {
        b"t" => append(out, &[1]),
        b"f" => append(out, &[0]),
        _ => Err("bool is neither t nor f"),
    }
}
