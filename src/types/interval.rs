//! interval in ISO 8601, as the server writes it under `IntervalStyle = iso_8601`: `P1Y2M3DT4H5M6.789S`, zero as
//! `PT0S`.
//!
//! ```text
//! int64 microseconds | int32 days | int32 months
//! ```
//! The three parts are independent, each with its own sign; hours are never carried into days. Every component has the
//! sign of its part, and seconds have it even if only their fraction is not zero (`PT-0.5S`).

use super::output::{Short, Writer, put_short};
use super::{Outcome, WRONG_LENGTH, datetime, digits};

const MICROSECONDS_PER_SECOND: u64 = 1_000_000;
const MICROSECONDS_PER_MINUTE: i64 = 60_000_000;
const MICROSECONDS_PER_HOUR: i64 = 60 * MICROSECONDS_PER_MINUTE;

/// Appends the binary form.
#[inline(always)]
pub(super) fn append(out: &mut Writer<'_>, value: &[u8]) -> Outcome {
    let &[a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = value.as_array().ok_or(WRONG_LENGTH)?;
    let time = i64::from_be_bytes([a, b, c, d, e, f, g, h]);
    let days = i32::from_be_bytes([i, j, k, l]);
    let months = i32::from_be_bytes([m, n, o, p]);
    match (time, days, months) {
        (0, 0, 0) => out.put(b"\"PT0S\""),
        // PostgreSQL 17 and later.
        (i64::MAX, i32::MAX, i32::MAX) => out.put(b"\"infinity\""),
        (i64::MIN, i32::MIN, i32::MIN) => out.put(b"\"-infinity\""),
        _ => put_short!(out, |out| append_parts(out, time, days, months)),
    }
    Ok(())
}

#[inline(always)]
fn append_parts(out: &mut Short<'_>, time: i64, days: i32, months: i32) {
    out.put(b"\"P");
    append_component(out, i64::from(months / 12), b'Y');
    append_component(out, i64::from(months % 12), b'M');
    append_component(out, i64::from(days), b'D');
    if time != 0 {
        out.put(b"T");
    }
    let (hours, rest) = (time / MICROSECONDS_PER_HOUR, time % MICROSECONDS_PER_HOUR);
    append_component(out, hours, b'H');
    append_component(out, rest / MICROSECONDS_PER_MINUTE, b'M');
    append_seconds(out, rest % MICROSECONDS_PER_MINUTE);
    out.put(b"\"");
}

#[inline(always)]
fn append_component(out: &mut Short<'_>, number: i64, unit: u8) {
    if number != 0 {
        out.lend(|out| append_number(out, number, unit));
    }
}

#[inline(never)]
fn append_number(mut out: Short<'_>, number: i64, unit: u8) -> usize {
    digits::append_i64(&mut out, number);
    out.put(&[unit]);
    out.length()
}

#[inline(always)]
fn append_seconds(out: &mut Short<'_>, microseconds: i64) {
    if microseconds == 0 {
        return;
    }
    if microseconds < 0 {
        out.put(b"-");
    }
    let microseconds = microseconds.unsigned_abs();
    digits::append_u64(out, microseconds / MICROSECONDS_PER_SECOND);
    let fraction = (microseconds % MICROSECONDS_PER_SECOND) as u32;
    if fraction != 0 {
        datetime::append_fraction(out, fraction);
    }
    out.put(b"S");
}

#[cfg(test)]
mod tests {
    use crate::types::oid::INTERVAL;
    use crate::types::tests::{json, refused};
    use alloc::format;
    use alloc::vec::Vec;

    fn interval(time: i64, days: i32, months: i32) -> Vec<u8> {
        [
            &time.to_be_bytes()[..],
            &days.to_be_bytes(),
            &months.to_be_bytes(),
        ]
        .concat()
    }

    #[test]
    fn components_and_signs() {
        for ((time, days, months), expected) in [
            ((0, 0, 0), "PT0S"),
            ((14_706_789_000, 3, 14), "P1Y2M3DT4H5M6.789S"),
            ((-500_000, 0, 0), "PT-0.5S"),
            ((-1_500_000, 0, 0), "PT-1.5S"),
            ((-1, 0, 0), "PT-0.000001S"),
            ((0, 0, -14), "P-1Y-2M"),
            ((-3_600_000_000, 1, 0), "P1DT-1H"),
            ((360_000_000_000, 0, 0), "PT100H"),
            ((0, i32::MIN, i32::MIN), "P-178956970Y-8M-2147483648D"),
            ((i64::MIN, 0, 0), "PT-2562047788H-54.775808S"),
            // The longest interval.
            (
                (i64::MIN + 54_775_809, i32::MIN, i32::MIN + 9),
                "P-178956969Y-11M-2147483648DT-2562047787H-59M-59.999999S",
            ),
            ((i64::MAX, i32::MAX, i32::MAX), "infinity"),
            ((i64::MIN, i32::MIN, i32::MIN), "-infinity"),
        ] {
            assert_eq!(
                json(INTERVAL, interval(time, days, months)),
                format!("\"{expected}\"")
            );
        }
        refused(INTERVAL, &[0; 15]);
        refused(INTERVAL, &[0; 17]);
    }
}
