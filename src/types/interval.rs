//! interval in ISO 8601, as the server writes it under `IntervalStyle = iso_8601`: `P1Y2M3DT4H5M6.789S`, zero as `PT0S`.
//!
//! ```text
//! int64 microseconds | int32 days | int32 months
//! ```
//! The three parts are independent, each with its own sign; hours are never carried into days. A sign stands at every component,
//! and seconds carry it even where only their fraction is not zero (`PT-0.5S`).

use alloc::vec::Vec;

use super::{Outcome, WRONG_LENGTH, datetime, digits};

const MICROSECONDS_PER_SECOND: u64 = 1_000_000;
const MICROSECONDS_PER_MINUTE: i64 = 60_000_000;
const MICROSECONDS_PER_HOUR: i64 = 60 * MICROSECONDS_PER_MINUTE;

/// Appends the binary form; its text form is a plain string.
pub(super) fn append(out: &mut Vec<u8>, value: &[u8]) -> Outcome {
    let &[a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = value.as_array().ok_or(WRONG_LENGTH)?;
    let time = i64::from_be_bytes([a, b, c, d, e, f, g, h]);
    let days = i32::from_be_bytes([i, j, k, l]);
    let months = i32::from_be_bytes([m, n, o, p]);
    match (time, days, months) {
        (0, 0, 0) => out.extend_from_slice(b"\"PT0S\""),
        // PostgreSQL 17 and later.
        (i64::MAX, i32::MAX, i32::MAX) => out.extend_from_slice(b"\"infinity\""),
        (i64::MIN, i32::MIN, i32::MIN) => out.extend_from_slice(b"\"-infinity\""),
        _ => append_parts(out, time, days, months),
    }
    Ok(())
}

fn append_parts(out: &mut Vec<u8>, time: i64, days: i32, months: i32) {
    out.extend_from_slice(b"\"P");
    append_component(out, i64::from(months / 12), b'Y');
    append_component(out, i64::from(months % 12), b'M');
    append_component(out, i64::from(days), b'D');
    if time != 0 {
        out.push(b'T');
    }
    append_component(out, time / MICROSECONDS_PER_HOUR, b'H');
    append_component(
        out,
        time % MICROSECONDS_PER_HOUR / MICROSECONDS_PER_MINUTE,
        b'M',
    );
    append_seconds(out, time % MICROSECONDS_PER_MINUTE);
    out.push(b'"');
}

fn append_component(out: &mut Vec<u8>, number: i64, unit: u8) {
    if number != 0 {
        digits::append_i64(out, number);
        out.push(unit);
    }
}

fn append_seconds(out: &mut Vec<u8>, microseconds: i64) {
    if microseconds == 0 {
        return;
    }
    if microseconds < 0 {
        out.push(b'-');
    }
    let microseconds = microseconds.unsigned_abs();
    digits::append_u64(out, microseconds / MICROSECONDS_PER_SECOND);
    let fraction = (microseconds % MICROSECONDS_PER_SECOND) as u32;
    if fraction != 0 {
        datetime::append_fraction(out, fraction);
    }
    out.push(b'S');
}
