//! Appending bytes to the output: short copies of unknown length without a call.
//!
//! A `memcpy` whose length is not a constant is a call natively and `memory.copy` in wasm; both cost more than copying a short value.
//! Copies of constant length are plain loads and stores. So short runs go out as whole blocks, and `truncate` takes back what was too
//! much. Knows nothing of types or JSON.

use alloc::vec::Vec;

/// What fits one block: the width of a wasm vector.
pub(crate) const BLOCK: usize = 16;

/// Appends the first `length` bytes of `block` (all of it when `length` is larger).
#[inline]
pub(crate) fn append_block<const N: usize>(out: &mut Vec<u8>, block: &[u8; N], length: usize) {
    let end = out.len() + length;
    out.extend_from_slice(block);
    out.truncate(end);
}

/// Appends `bytes`.
#[inline]
pub(crate) fn append(out: &mut Vec<u8>, bytes: &[u8]) {
    match bytes.len() {
        0..16 => append_block(out, &padded(bytes), bytes.len()),
        16..=64 => append_blocks(out, bytes),
        _ => out.extend_from_slice(bytes),
    }
}

/// At least [`BLOCK`] bytes; the last block overlaps the one before it.
#[inline]
fn append_blocks(out: &mut Vec<u8>, bytes: &[u8]) {
    let start = out.len();
    let (blocks, _) = bytes.as_chunks::<BLOCK>();
    for block in blocks {
        out.extend_from_slice(block);
    }
    if let Some(last) = bytes.last_chunk::<BLOCK>() {
        out.truncate(start + bytes.len() - BLOCK);
        out.extend_from_slice(last);
    }
}

/// Up to 16 bytes, zeros behind them. Two loads that overlap in the middle, so there is no loop.
#[inline]
pub(crate) fn padded(bytes: &[u8]) -> [u8; BLOCK] {
    let length = bytes.len();
    let bits = if let (Some(first), Some(last)) =
        (bytes.first_chunk::<8>(), bytes.last_chunk::<8>())
    {
        let shift = 8 * (length.min(BLOCK) - 8);
        u128::from(u64::from_le_bytes(*first)) | (u128::from(u64::from_le_bytes(*last)) << shift)
    } else if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        u128::from(
            u64::from(u32::from_le_bytes(*first))
                | (u64::from(u32::from_le_bytes(*last)) << (8 * (length - 4))),
        )
    } else {
        match *bytes {
            [a] => u128::from(a),
            [a, b] => u128::from(u16::from_le_bytes([a, b])),
            [a, b, c] => u128::from(u32::from_le_bytes([a, b, c, 0])),
            _ => 0,
        }
    };
    bits.to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_short_length_is_copied_exactly() {
        let bytes: Vec<u8> = (1..=200).collect();
        for length in 0..bytes.len() {
            let mut out = Vec::from(*b"before");
            append(&mut out, &bytes[..length]);
            assert_eq!(&out[6..], &bytes[..length]);
        }
    }

    #[test]
    fn padding_is_zeros() {
        for length in 0..=BLOCK {
            let block = padded(&[7; BLOCK][..length]);
            assert!(
                block
                    .iter()
                    .enumerate()
                    .all(|(i, &byte)| byte == if i < length { 7 } else { 0 })
            );
        }
    }
}
