//! int2, int4, int8 (signed, big-endian) and oid (unsigned, big-endian) as bare decimal numbers.

use alloc::vec::Vec;

use super::{Outcome, WRONG_LENGTH, digits};

/// Appends an int2.
#[inline]
pub(super) fn append_int2(out: &mut Vec<u8>, value: &[u8]) -> Outcome {
    let bytes = value.try_into().map_err(|_| WRONG_LENGTH)?;
    digits::append_i32(out, i32::from(i16::from_be_bytes(bytes)));
    Ok(())
}

/// Appends an int4.
#[inline]
pub(super) fn append_int4(out: &mut Vec<u8>, value: &[u8]) -> Outcome {
    let bytes = value.try_into().map_err(|_| WRONG_LENGTH)?;
    digits::append_i32(out, i32::from_be_bytes(bytes));
    Ok(())
}

/// Appends an int8.
#[inline]
pub(super) fn append_int8(out: &mut Vec<u8>, value: &[u8]) -> Outcome {
    let bytes = value.try_into().map_err(|_| WRONG_LENGTH)?;
    digits::append_i64(out, i64::from_be_bytes(bytes));
    Ok(())
}

/// Appends an oid. The server's `to_json` quotes it; ours is a number, like every other integer.
#[inline]
pub(super) fn append_oid(out: &mut Vec<u8>, value: &[u8]) -> Outcome {
    let bytes = value.try_into().map_err(|_| WRONG_LENGTH)?;
    digits::append_u32(out, u32::from_be_bytes(bytes));
    Ok(())
}

/// Appends the text form of any of them.
pub(super) fn append_text(out: &mut Vec<u8>, value: &[u8]) -> Outcome {
    let unsigned = value.strip_prefix(b"-").unwrap_or(value);
    match unsigned {
        [b'0'] | [b'1'..=b'9', ..] if unsigned.iter().all(u8::is_ascii_digit) => {
            super::copy::append(out, value);
            Ok(())
        }
        _ => Err("not a decimal integer"),
    }
}
