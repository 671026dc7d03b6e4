//! int2, int4, int8 (signed, big-endian) and oid (unsigned, big-endian) as bare decimal numbers.

use super::output::{Writer, put_short};
use super::{Outcome, WRONG_LENGTH, digits};

/// Appends an int2.
#[inline(always)]
pub(super) fn append_int2(out: &mut Writer<'_>, value: &[u8]) -> Outcome {
    let bytes = value.try_into().map_err(|_| WRONG_LENGTH)?;
    put_short!(out, |out| digits::append_i32(
        out,
        i32::from(i16::from_be_bytes(bytes))
    ));
    Ok(())
}

/// Appends an int4.
#[inline(always)]
pub(super) fn append_int4(out: &mut Writer<'_>, value: &[u8]) -> Outcome {
    let bytes = value.try_into().map_err(|_| WRONG_LENGTH)?;
    put_short!(out, |out| digits::append_i32(
        out,
        i32::from_be_bytes(bytes)
    ));
    Ok(())
}

/// Appends an int8.
#[inline(always)]
pub(super) fn append_int8(out: &mut Writer<'_>, value: &[u8]) -> Outcome {
    let bytes = value.try_into().map_err(|_| WRONG_LENGTH)?;
    put_short!(out, |out| digits::append_i64(
        out,
        i64::from_be_bytes(bytes)
    ));
    Ok(())
}

/// Appends an oid. The server's `to_json` quotes it; ours is a number, like every other integer.
#[inline(always)]
pub(super) fn append_oid(out: &mut Writer<'_>, value: &[u8]) -> Outcome {
    let bytes = value.try_into().map_err(|_| WRONG_LENGTH)?;
    put_short!(out, |out| digits::append_u32(
        out,
        u32::from_be_bytes(bytes)
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::types::oid::{INT2, INT4, INT8, OID};
    use crate::types::tests::{json, refused};

    #[test]
    fn extremes() {
        assert_eq!(json(INT2, i16::MIN.to_be_bytes()), "-32768");
        assert_eq!(json(INT4, i32::MIN.to_be_bytes()), "-2147483648");
        assert_eq!(json(INT4, 0_i32.to_be_bytes()), "0");
        assert_eq!(json(INT8, i64::MIN.to_be_bytes()), "-9223372036854775808");
        assert_eq!(json(INT8, i64::MAX.to_be_bytes()), "9223372036854775807");
        assert_eq!(json(OID, u32::MAX.to_be_bytes()), "4294967295");
    }

    #[test]
    fn another_length_is_refused() {
        for (type_oid, length) in [(INT2, 2), (INT4, 4), (INT8, 8), (OID, 4)] {
            for other in (0..12).filter(|other| *other != length) {
                refused(type_oid, &[0; 12][..other]);
            }
        }
    }
}
