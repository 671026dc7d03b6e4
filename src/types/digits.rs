//! Decimal and hexadecimal digits by arithmetic inside one word: no table, no loop, no bounds check.
//!
//! Eight digits take three multiplications. Everything here is little-endian inside the word: the first character to
//! print is the lowest byte, so `to_le_bytes` is the text and a right shift by whole bytes drops leading zeros.

use super::output::Short;

/// The number of values that eight digits have.
const EIGHT: u64 = 100_000_000;
const ASCII_ZEROS: u64 = 0x3030_3030_3030_3030;

/// Returns eight digit values, one per byte, of a number below 100,000,000.
///
/// Halves, quarters and digits are split in parallel lanes. `10486 >> 20` divides by 100 (exact below 10,000),
/// and `103 >> 10` divides by 10 (exact below 100). No lane can overflow into its neighbour for inputs in range.
#[inline(always)]
fn eight_digit_values(number: u32) -> u64 {
    let fours = u64::from(number / 10_000) | (u64::from(number % 10_000) << 32);
    let upper = (fours.wrapping_mul(10_486) >> 20) & 0x0000_007f_0000_007f;
    let twos = upper | (fours.wrapping_sub(upper.wrapping_mul(100)) << 16);
    let tens = (twos.wrapping_mul(103) >> 10) & 0x000f_000f_000f_000f;
    tens | (twos.wrapping_sub(tens.wrapping_mul(10)) << 8)
}

/// Returns the eight characters of a number below 100,000,000, with leading zeros.
#[inline(always)]
pub(crate) fn eight(number: u32) -> [u8; 8] {
    (eight_digit_values(number) | ASCII_ZEROS).to_le_bytes()
}

/// Returns the four characters of a number below 10,000, with leading zeros.
#[inline(always)]
pub(crate) fn four(number: u32) -> [u8; 4] {
    let twos = (number / 100) | ((number % 100) << 16);
    let tens = (twos.wrapping_mul(103) >> 10) & 0x000f_000f;
    ((tens | (twos.wrapping_sub(tens.wrapping_mul(10)) << 8)) | 0x3030_3030).to_le_bytes()
}

/// Returns the two characters of a number below 100.
#[inline(always)]
pub(crate) fn two(number: u32) -> [u8; 2] {
    let tens = (number.wrapping_mul(103) >> 10) & 0x0f;
    [
        b'0' | tens as u8,
        b'0' | (number.wrapping_sub(tens.wrapping_mul(10))) as u8,
    ]
}

/// Returns up to eight digits without leading zeros: the text and its length.
#[inline(always)]
pub(crate) fn short(number: u32) -> ([u8; 8], usize) {
    let digits = eight_digit_values(number);
    // At least one digit stays: the last one is not counted as leading.
    let leading = (digits | (1 << 56)).trailing_zeros() / 8;
    (
        ((digits | ASCII_ZEROS) >> (8 * leading)).to_le_bytes(),
        8 - leading as usize,
    )
}

/// Appends the sixteen digits of a number below 10^16, with leading zeros but without trailing ones.
#[inline(always)]
pub(crate) fn append_sixteen_without_trailing_zeros(out: &mut Short<'_>, number: u64) {
    let (high, low) = (
        eight_digit_values((number / EIGHT) as u32),
        eight_digit_values((number % EIGHT) as u32),
    );
    let zeros = if low == 0 {
        8 + high.leading_zeros() / 8
    } else {
        low.leading_zeros() / 8
    };
    out.put(&(high | ASCII_ZEROS).to_le_bytes());
    out.put(&(low | ASCII_ZEROS).to_le_bytes());
    out.drop_last(zeros as usize);
}

/// Appends `number`.
#[inline(always)]
pub(crate) fn append_u32(out: &mut Short<'_>, number: u32) {
    append_signed_u32(out, number, false);
}

/// Appends `number`.
#[inline(always)]
pub(crate) fn append_i32(out: &mut Short<'_>, number: i32) {
    append_signed_u32(out, number.unsigned_abs(), number < 0);
}

#[inline(always)]
fn append_signed_u32(out: &mut Short<'_>, number: u32, negative: bool) {
    if negative {
        out.put(b"-");
    }
    if number < 100_000_000 {
        let (text, length) = short(number);
        out.put_block(&text, length);
    } else {
        append_u64(out, u64::from(number));
    }
}

/// Appends `number`.
#[inline(always)]
pub(crate) fn append_u64(out: &mut Short<'_>, number: u64) {
    append_signed_u64(out, number, false);
}

/// Appends `number`.
#[inline(always)]
pub(crate) fn append_i64(out: &mut Short<'_>, number: i64) {
    append_signed_u64(out, number.unsigned_abs(), number < 0);
}

#[inline(always)]
fn append_signed_u64(out: &mut Short<'_>, number: u64, negative: bool) {
    if negative {
        out.put(b"-");
    }
    if number < EIGHT {
        let (text, length) = short(number as u32);
        out.put_block(&text, length);
    } else {
        out.lend(|out| append_large(out, number));
    }
}

#[inline(never)]
fn append_large(mut out: Short<'_>, number: u64) -> usize {
    let (upper, low) = (number / EIGHT, (number % EIGHT) as u32);
    if upper < EIGHT {
        let (text, length) = short(upper as u32);
        out.put_block(&text, length);
    } else {
        let (text, length) = short((upper / EIGHT) as u32);
        out.put_block(&text, length);
        out.put(&eight((upper % EIGHT) as u32));
    }
    out.put(&eight(low));
    out.length()
}

/// Returns the eight lower-case hexadecimal characters of four bytes.
#[inline(always)]
pub(crate) fn hex(bytes: [u8; 4]) -> [u8; 8] {
    // Bytes become 16-bit lanes, and lanes become nibbles, the first nibble lowest.
    let word = u64::from(u32::from_le_bytes(bytes));
    let pairs = (word | (word << 16)) & 0x0000_ffff_0000_ffff;
    let lanes = (pairs | (pairs << 8)) & 0x00ff_00ff_00ff_00ff;
    let nibbles = ((lanes >> 4) | (lanes << 8)) & 0x0f0f_0f0f_0f0f_0f0f;
    // 39 is the distance from ':', which follows '9', to 'a'.
    let letters = ((nibbles + 0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101;
    (nibbles + ASCII_ZEROS + letters * 39).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::output::{Target, put_short};
    use alloc::format;
    use alloc::string::{String, ToString};
    use alloc::vec::Vec;

    fn text(write: impl FnOnce(&mut Short<'_>)) -> String {
        let mut out = Vec::new();
        out.write(|out| put_short!(out, |out| write(out)));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lengths_and_edges() {
        let mut power: u64 = 1;
        let mut numbers = alloc::vec![0, u64::MAX, u64::from(u32::MAX), i64::MAX as u64, 1 << 63];
        while let Some(next) = power.checked_mul(10) {
            numbers.extend([power - 1, power, power + 1, power * 7]);
            power = next;
        }
        for number in numbers {
            assert_eq!(text(|out| append_u64(out, number)), number.to_string());
            assert_eq!(
                text(|out| append_i64(out, number as i64)),
                (number as i64).to_string()
            );
            assert_eq!(
                text(|out| append_u32(out, number as u32)),
                (number as u32).to_string()
            );
            assert_eq!(
                text(|out| append_i32(out, number as i32)),
                (number as i32).to_string()
            );
        }
        assert_eq!(text(|out| append_i64(out, i64::MIN)), i64::MIN.to_string());
        assert_eq!(text(|out| append_i32(out, i32::MIN)), i32::MIN.to_string());
    }

    #[test]
    fn every_group_of_four_and_two() {
        for number in 0..10_000 {
            assert_eq!(four(number), *format!("{number:04}").as_bytes());
            assert_eq!(
                eight(number * 10_000 + 9_999 - number),
                *format!("{:04}{:04}", number, 9_999 - number).as_bytes()
            );
        }
        for number in 0..100 {
            assert_eq!(two(number), *format!("{number:02}").as_bytes());
        }
    }

    #[test]
    fn trailing_zeros_go() {
        for number in [
            1,
            10,
            5_000_000_000_000_000,
            1_234_567_800_000_000,
            9_999_999_999_999_999,
            100_000_000,
            99_999_999,
        ] {
            assert_eq!(
                text(|out| append_sixteen_without_trailing_zeros(out, number)),
                format!("{number:016}").trim_end_matches('0')
            );
        }
    }

    #[test]
    fn every_byte_in_hex() {
        for byte in 0..=255_u8 {
            assert_eq!(
                hex([byte, 0, 0xff, byte]),
                *format!("{byte:02x}00ff{byte:02x}").as_bytes()
            );
        }
    }
}
