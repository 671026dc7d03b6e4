//! bytea: `"\\x…"`, lower-case hexadecimal (`bytea_output = hex`).

use alloc::vec::Vec;

use super::{Outcome, copy, digits};

/// Appends the binary form; its text form is a plain string.
pub(super) fn append(out: &mut Vec<u8>, value: &[u8]) -> Outcome {
    out.extend_from_slice(b"\"\\\\x");
    let (groups, rest) = value.as_chunks::<4>();
    for group in groups {
        out.extend_from_slice(&digits::hex(*group));
    }
    let [a, b, c, ..] = copy::padded(rest);
    copy::append_block(out, &digits::hex([a, b, c, 0]), 2 * rest.len());
    out.push(b'"');
    Ok(())
}
