//! numeric: the server's own decimal text, bare; NaN and the infinities as strings.
//!
//! ```text
//! int16 ndigits | int16 weight | uint16 sign | uint16 dscale | ndigits x int16, base 10000
//! value = sum of digit[i] * 10000^(weight - i);  dscale = digits shown behind the point
//! ```

use alloc::vec::Vec;

use super::{Outcome, WRONG_LENGTH, copy, digits};

const POSITIVE: u16 = 0x0000;
const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xc000;
const POSITIVE_INFINITY: u16 = 0xd000;
const NEGATIVE_INFINITY: u16 = 0xf000;
/// `numeric_recv` refuses anything above.
const MAX_DISPLAY_SCALE: u16 = 0x3fff;

/// Appends the binary form.
pub(super) fn append(out: &mut Vec<u8>, value: &[u8]) -> Outcome {
    let (&[n1, n0, w1, w0, s1, s0, d1, d0], groups) =
        value.split_first_chunk().ok_or(WRONG_LENGTH)?;
    let (groups, odd) = groups.as_chunks::<2>();
    if groups.len() != usize::from(u16::from_be_bytes([n1, n0])) || !odd.is_empty() {
        return Err(WRONG_LENGTH);
    }
    match u16::from_be_bytes([s1, s0]) {
        POSITIVE => {}
        NEGATIVE => out.push(b'-'),
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

/// Appends the text form, which is already what we want.
pub(super) fn append_text(out: &mut Vec<u8>, value: &[u8]) -> Outcome {
    match value {
        b"NaN" => append_special(out, b"\"NaN\""),
        b"Infinity" => append_special(out, b"\"Infinity\""),
        b"-Infinity" => append_special(out, b"\"-Infinity\""),
        _ if is_json_number(value) => {
            copy::append(out, value);
            Ok(())
        }
        _ => Err("not a number"),
    }
}

/// Appends what is quoted in every form.
pub(super) fn append_special(out: &mut Vec<u8>, text: &[u8]) -> Outcome {
    out.extend_from_slice(text);
    Ok(())
}

fn append_decimal(
    out: &mut Vec<u8>,
    groups: &[[u8; 2]],
    mut weight: i32,
    display_scale: usize,
) -> Outcome {
    let mut groups = groups.iter().map(|group| u16::from_be_bytes(*group));
    // The server sends no leading zero groups; with them the number would have leading zeros, which is no JSON.
    let mut first = groups.next().unwrap_or(0);
    while first == 0 && weight > 0 {
        first = groups.next().unwrap_or(0);
        weight -= 1;
    }
    let mut groups = core::iter::once(first).chain(groups);
    if weight < 0 {
        out.push(b'0');
    } else {
        digits::append_u32(out, in_range(groups.next())?);
        for _ in 0..weight {
            out.extend_from_slice(&digits::four(in_range(groups.next())?));
        }
    }
    if display_scale > 0 {
        out.push(b'.');
        let end = out.len() + display_scale;
        // Groups between the point and the first one sent: weight -1 is the first behind the point.
        let mut gap = (-1 - weight).max(0);
        while out.len() < end {
            let group = if gap > 0 { 0 } else { in_range(groups.next())? };
            gap = (gap - 1).max(0);
            out.extend_from_slice(&digits::four(group));
        }
        out.truncate(end);
    }
    // What lies behind the display scale is not shown, as in numeric_out, but nonsense is still nonsense.
    groups.try_for_each(|group| in_range(Some(group)).map(drop))
}

/// A base-10000 digit; those that were not sent are zero.
#[inline]
fn in_range(group: Option<u16>) -> Result<u32, &'static str> {
    match group {
        None => Ok(0),
        Some(group @ 0..10_000) => Ok(u32::from(group)),
        Some(_) => Err("digit of a numeric out of range"),
    }
}

/// The grammar of RFC 8259, section 6.
pub(super) fn is_json_number(text: &[u8]) -> bool {
    fn digits(text: &[u8]) -> Option<&[u8]> {
        let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 { None } else { text.get(count..) }
    }
    fn rest(text: &[u8]) -> Option<&[u8]> {
        let text = match text.strip_prefix(b"-").unwrap_or(text) {
            [b'0', rest @ ..] => rest,
            integer => digits(integer)?,
        };
        let text = match text {
            [b'.', fraction @ ..] => digits(fraction)?,
            _ => text,
        };
        match text {
            [b'e' | b'E', b'+' | b'-', exponent @ ..] | [b'e' | b'E', exponent @ ..] => {
                digits(exponent)
            }
            _ => Some(text),
        }
    }
    rest(text).is_some_and(<[u8]>::is_empty)
}
