//! A position in JSON. Each change has a position, so it is written by arithmetic. The driver's core, where a pg_lsn is
//! rare and size counts, writes it differently (src/types/rare.rs).

use super::message::Position;
use crate::types::digits::hex;
use crate::types::output::{Writer, put_short};

/// Appends `"0/16B3748"`.
pub(super) fn put_position(out: &mut Writer<'_>, position: Position) {
    put_short!(out, |out| {
        out.put(b"\"");
        let (high, length) = short_hex((position >> 32) as u32);
        out.put_block(&high, length);
        out.put(b"/");
        let (low, length) = short_hex(position as u32);
        out.put_block(&low, length);
        out.put(b"\"");
    });
}

/// A number in upper-case hexadecimal without leading zeros: the text and its length.
#[inline(always)]
fn short_hex(number: u32) -> ([u8; 8], usize) {
    let zeros = ((number | 1).leading_zeros() / 4) as usize;
    let text = u64::from_le_bytes(hex(number.to_be_bytes()));
    // A letter has bit 0x40 set, a digit does not. Clearing bit 0x20 makes the letter upper case.
    let text = text.wrapping_sub((text >> 1) & 0x2020_2020_2020_2020);
    (
        (text >> (8 * zeros)).to_le_bytes(),
        8_usize.wrapping_sub(zeros),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::output::{Output, Target};
    use alloc::format;

    #[test]
    fn positions_are_as_the_server_writes_them() {
        let numbers =
            (0..64).flat_map(|shift| [1_u64 << shift, !0 >> shift, 0x9abc_def0_1234_5678 >> shift]);
        for position in numbers.chain([0, 0x16b_3748]) {
            let mut out = Output::default();
            out.write(|out| put_position(out, position));
            let expected = format!("\"{:X}/{:X}\"", position >> 32, position as u32);
            assert_eq!(out.as_slice(), expected.as_bytes());
        }
    }
}
