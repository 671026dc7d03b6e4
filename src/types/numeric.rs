//! numeric: the server's own decimal text, bare; NaN and the infinities as strings.
//!
//! ```text
//! int16 ndigits | int16 weight | uint16 sign | uint16 dscale | ndigits x int16, base 10000
//! value = sum of digit[i] * 10000^(weight - i);  dscale = digits shown after the point
//! ```

use super::output::Writer;
use super::{Outcome, WRONG_LENGTH, digits};

const POSITIVE: u16 = 0x0000;
const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xc000;
const POSITIVE_INFINITY: u16 = 0xd000;
const NEGATIVE_INFINITY: u16 = 0xf000;
/// `numeric_recv` refuses anything larger.
const MAX_DISPLAY_SCALE: u16 = 0x3fff;

/// Appends the binary form.
#[inline(always)]
pub(super) fn append(out: &mut Writer<'_>, value: &[u8]) -> Outcome {
    let (&[n1, n0, w1, w0, s1, s0, d1, d0], groups) =
        value.split_first_chunk().ok_or(WRONG_LENGTH)?;
    let (groups, odd) = groups.as_chunks::<2>();
    if groups.len() != usize::from(u16::from_be_bytes([n1, n0])) || !odd.is_empty() {
        return Err(WRONG_LENGTH);
    }
    match u16::from_be_bytes([s1, s0]) {
        POSITIVE => {}
        NEGATIVE => out.put(b"-"),
        NAN => return append_special(out, b"\"NaN\""),
        POSITIVE_INFINITY => return append_special(out, b"\"Infinity\""),
        NEGATIVE_INFINITY => return append_special(out, b"\"-Infinity\""),
        _ => return Err("unknown sign of a numeric"),
    }
    let display_scale = u16::from_be_bytes([d1, d0]);
    if display_scale > MAX_DISPLAY_SCALE {
        return Err("scale of a numeric out of range");
    }
    append_decimal(
        out,
        groups,
        i32::from(i16::from_be_bytes([w1, w0])),
        usize::from(display_scale),
    )
}

/// Appends a special value, which is quoted in every form.
#[inline(always)]
pub(super) fn append_special(out: &mut Writer<'_>, text: &[u8]) -> Outcome {
    out.put_slice(text);
    Ok(())
}

fn append_decimal(
    out: &mut Writer<'_>,
    mut groups: &[[u8; 2]],
    mut weight: i32,
    display_scale: usize,
) -> Outcome {
    // The server sends no leading zero groups. With them the number would have leading zeros, which JSON does not
    // allow.
    while let (1.., [[0, 0], rest @ ..]) = (weight, groups) {
        groups = rest;
        weight -= 1;
    }
    if groups.is_empty() {
        weight = weight.min(0);
    }
    if weight < 0 {
        out.put(b"0");
    } else {
        let (text, length) = digits::short(next(&mut groups)?);
        out.put_block(&text, length);
        while weight > 0 {
            out.put(&digits::four(next(&mut groups)?));
            weight -= 1;
        }
    }
    if display_scale > 0 {
        out.put(b".");
        let end = out.position().wrapping_add(display_scale);
        while out.position() < end {
            // Zeros between the point and the first group that was sent: weight -1 is the first group after the point.
            let group = if weight < -1 { 0 } else { next(&mut groups)? };
            weight = weight.wrapping_add(1);
            out.put(&digits::four(group));
        }
        out.truncate(end);
    }
    // Digits beyond the display scale are not shown, as in numeric_out, but nonsense in them is still refused.
    while !groups.is_empty() {
        next(&mut groups)?;
    }
    Ok(())
}

/// Returns the next base-10000 digit. Digits that were not sent are zero.
#[inline(always)]
fn next(groups: &mut &[[u8; 2]]) -> Result<u32, &'static str> {
    let Some((group, rest)) = groups.split_first() else {
        return Ok(0);
    };
    *groups = rest;
    match u16::from_be_bytes(*group) {
        group @ 0..10_000 => Ok(group.into()),
        _ => Err("digit of a numeric out of range"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::oid::NUMERIC;
    use crate::types::tests::{json, refused, text_json};
    use alloc::string::String;
    use alloc::vec::Vec;

    fn numeric(weight: i16, sign: u16, scale: u16, groups: &[u16]) -> Vec<u8> {
        [groups.len() as u16, weight as u16, sign, scale]
            .iter()
            .chain(groups)
            .flat_map(|field| field.to_be_bytes())
            .collect()
    }

    #[test]
    fn digits_and_scale() {
        for (weight, sign, scale, groups, expected) in [
            (0, POSITIVE, 0, &[][..], "0"),
            (0, POSITIVE, 2, &[], "0.00"),
            (1, POSITIVE, 4, &[1, 2345, 6789], "12345.6789"),
            (0, NEGATIVE, 1, &[9, 5000], "-9.5"),
            (-1, POSITIVE, 4, &[1], "0.0001"),
            (-2, POSITIVE, 8, &[1], "0.00000001"),
            (-2, POSITIVE, 6, &[1234], "0.000012"),
            (2, POSITIVE, 0, &[1], "100000000"),
            (1, POSITIVE, 6, &[10_000 - 1], "99990000.000000"),
        ] {
            assert_eq!(
                json(NUMERIC, numeric(weight, sign, scale, groups)),
                expected
            );
        }
    }

    #[test]
    fn leading_zero_groups_never_show() {
        assert_eq!(json(NUMERIC, numeric(2, POSITIVE, 0, &[0, 0, 7])), "7");
        assert_eq!(json(NUMERIC, numeric(1, POSITIVE, 1, &[0, 0, 5000])), "0.5");
        assert_eq!(json(NUMERIC, numeric(i16::MAX, POSITIVE, 0, &[])), "0");
    }

    #[test]
    fn special_values() {
        assert_eq!(json(NUMERIC, numeric(0, NAN, 0, &[])), "\"NaN\"");
        assert_eq!(
            json(NUMERIC, numeric(0, POSITIVE_INFINITY, 32, &[])),
            "\"Infinity\""
        );
        assert_eq!(
            json(NUMERIC, numeric(0, NEGATIVE_INFINITY, 32, &[])),
            "\"-Infinity\""
        );
    }

    #[test]
    fn nonsense_is_refused() {
        let valid = numeric(1, POSITIVE, 4, &[1, 2345, 6789]);
        for length in 0..valid.len() {
            refused(NUMERIC, &valid[..length]);
        }
        refused(NUMERIC, &[&valid[..], &[0]].concat());
        for broken in [
            numeric(0, POSITIVE, 0, &[10_000]),
            numeric(0, POSITIVE, 0, &[1, u16::MAX]),
            numeric(0, 0x8000, 0, &[1]),
            numeric(0, POSITIVE, 0x4000, &[1]),
        ] {
            refused(NUMERIC, &broken);
        }
    }

    proptest::proptest! {
        #[test]
        fn as_the_arithmetic_says(unscaled in proptest::prelude::any::<u64>(), zeros in 0..12_u32, negative: bool) {
            // The value is unscaled / 10000^zeros, with all digits shown.
            let group = |power| (unscaled / 10_000_u64.pow(power) % 10_000) as u16;
            let groups: Vec<u16> = (0..5).rev().map(group).collect();
            let sign = if negative { NEGATIVE } else { POSITIVE };
            let value = json(NUMERIC, numeric(4 - zeros as i16, sign, 4 * zeros as u16, &groups));
            let digits: String = value.chars().filter(char::is_ascii_digit).collect();
            proptest::prop_assert_eq!(digits.trim_start_matches('0').parse::<u64>().unwrap_or(0), unscaled);
            proptest::prop_assert_eq!(text_json(NUMERIC, value.trim_start_matches("-")), value.trim_start_matches("-"));
            let scale = value.split_once('.').map_or(0, |(_, fraction)| fraction.len());
            proptest::prop_assert_eq!(scale, 4 * zeros as usize);
        }
    }
}
