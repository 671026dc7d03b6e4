//! date, time, timetz, timestamp, timestamptz, as `to_json` writes them with TimeZone UTC and DateStyle ISO.
//!
//! Epoch 2000-01-01, microseconds; the extremes of the integers are the infinities. Two styles, the server's own: date and the
//! timestamps are XML's (`T`, `+00:00`), time and timetz are ISO's (`+00`). Years before 1 are `0044-… BC`.

use alloc::vec::Vec;

use super::{Outcome, WRONG_LENGTH, digits};

const MICROSECONDS_PER_SECOND: u64 = 1_000_000;
const MICROSECONDS_PER_DAY: i64 = 86_400_000_000;
/// 4714-11-24 BC, Julian day 0, in days from 2000-01-01.
const MIN_DAY: i32 = -2_451_545;
/// 5874898-06-03, the first day that a date cannot hold.
const END_DAY: i32 = 2_147_483_494 - 2_451_545;
/// 4714-11-24 BC.
const MIN_TIMESTAMP: i64 = MIN_DAY as i64 * MICROSECONDS_PER_DAY;
/// 294277-01-01, the first moment that a timestamp cannot hold.
const END_TIMESTAMP: i64 = 9_223_371_331_200_000_000;
/// Offsets go to 15:59:59 on both sides.
const ZONE_LIMIT: u32 = 16 * 3600;

const OUT_OF_RANGE: &str = "date or time out of range";

/// Appends a date.
pub(super) fn append_date(out: &mut Vec<u8>, value: &[u8]) -> Outcome {
    match i32::from_be_bytes(value.try_into().map_err(|_| WRONG_LENGTH)?) {
        i32::MAX => out.extend_from_slice(b"\"infinity\""),
        i32::MIN => out.extend_from_slice(b"\"-infinity\""),
        days @ MIN_DAY..END_DAY => {
            let date = Date::from_days(days);
            out.push(b'"');
            date.append(out);
            date.append_era(out);
            out.push(b'"');
        }
        _ => return Err(OUT_OF_RANGE),
    }
    Ok(())
}

/// Appends a time: 00:00:00 to 24:00:00, that last one included.
pub(super) fn append_time(out: &mut Vec<u8>, value: &[u8]) -> Outcome {
    let time = i64::from_be_bytes(value.try_into().map_err(|_| WRONG_LENGTH)?);
    out.push(b'"');
    append_time_of_day(out, time)?;
    out.push(b'"');
    Ok(())
}

/// Appends a timetz: int64 time, int32 seconds west of Greenwich.
pub(super) fn append_timetz(out: &mut Vec<u8>, value: &[u8]) -> Outcome {
    let (time, zone) = value.split_first_chunk().ok_or(WRONG_LENGTH)?;
    let west = i32::from_be_bytes(zone.try_into().map_err(|_| WRONG_LENGTH)?);
    if west.unsigned_abs() >= ZONE_LIMIT {
        return Err(OUT_OF_RANGE);
    }
    out.push(b'"');
    append_time_of_day(out, i64::from_be_bytes(*time))?;
    append_offset(out, west);
    out.push(b'"');
    Ok(())
}

/// Appends a timestamp.
#[inline]
pub(super) fn append_timestamp(out: &mut Vec<u8>, value: &[u8]) -> Outcome {
    append_moment(out, value, b"")
}

/// Appends a timestamptz, in UTC.
#[inline]
pub(super) fn append_timestamptz(out: &mut Vec<u8>, value: &[u8]) -> Outcome {
    append_moment(out, value, b"+00:00")
}

#[inline]
fn append_moment<const N: usize>(out: &mut Vec<u8>, value: &[u8], zone: &[u8; N]) -> Outcome {
    match i64::from_be_bytes(value.try_into().map_err(|_| WRONG_LENGTH)?) {
        i64::MAX => out.extend_from_slice(b"\"infinity\""),
        i64::MIN => out.extend_from_slice(b"\"-infinity\""),
        moment @ MIN_TIMESTAMP..END_TIMESTAMP => {
            // Fits: a timestamp spans fewer days than a date.
            let date = Date::from_days(moment.div_euclid(MICROSECONDS_PER_DAY) as i32);
            out.push(b'"');
            date.append(out);
            out.push(b'T');
            append_time_of_day(out, moment.rem_euclid(MICROSECONDS_PER_DAY))?;
            out.extend_from_slice(zone);
            date.append_era(out);
            out.push(b'"');
        }
        _ => return Err(OUT_OF_RANGE),
    }
    Ok(())
}

/// A day of the proleptic Gregorian calendar; year 0 is 1 BC.
struct Date {
    year: i32,
    month: u32,
    day: u32,
}

impl Date {
    /// `days` from 2000-01-01, at least `MIN_DAY`. Years begin in March here, so that the leap day is the last of its year
    /// (Howard Hinnant, "chrono-compatible low-level date algorithms").
    #[inline]
    fn from_days(days: i32) -> Date {
        const DAYS_PER_ERA: u32 = 146_097;
        /// Days from 0000-03-01 to 2000-01-01.
        const EPOCH: i32 = 730_425;
        /// Whole eras of 400 years added, so that all is unsigned: Julian day 0 lies in the twelfth before year 0.
        const ERAS: i32 = 12;
        let days = days.wrapping_add(EPOCH + ERAS * DAYS_PER_ERA as i32) as u32;
        let (era, day_of_era) = (days / DAYS_PER_ERA, days % DAYS_PER_ERA);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * march_month + 2) / 5 + 1;
        let month = if march_month < 10 {
            march_month + 3
        } else {
            march_month - 9
        };
        let year = (era * 400 + year_of_era) as i32 - ERAS * 400 + i32::from(month <= 2);
        Date { year, month, day }
    }

    /// `2024-02-29`; a year before 1 is counted backwards from 1 BC, and [`Date::append_era`] says so at the end of the value.
    #[inline]
    fn append(&self, out: &mut Vec<u8>) {
        let year = if self.year > 0 {
            self.year
        } else {
            1 - self.year
        }
        .unsigned_abs();
        if year < 10_000 {
            out.extend_from_slice(&digits::four(year));
        } else {
            digits::append_u32(out, year);
        }
        let ([a, b], [c, d]) = (digits::two(self.month), digits::two(self.day));
        out.extend_from_slice(&[b'-', a, b, b'-', c, d]);
    }

    #[inline]
    fn append_era(&self, out: &mut Vec<u8>) {
        if self.year <= 0 {
            out.extend_from_slice(b" BC");
        }
    }
}

/// `03:04:05`, and a fraction without trailing zeros where there is one.
#[inline]
fn append_time_of_day(out: &mut Vec<u8>, time: i64) -> Outcome {
    let time = match u64::try_from(time) {
        Ok(time) if time <= MICROSECONDS_PER_DAY as u64 => time,
        _ => return Err(OUT_OF_RANGE),
    };
    let (seconds, fraction) = (
        (time / MICROSECONDS_PER_SECOND) as u32,
        (time % MICROSECONDS_PER_SECOND) as u32,
    );
    let ([a, b], [c, d], [e, f]) = (
        digits::two(seconds / 3600),
        digits::two(seconds / 60 % 60),
        digits::two(seconds % 60),
    );
    out.extend_from_slice(&[a, b, b':', c, d, b':', e, f]);
    if fraction != 0 {
        append_fraction(out, fraction);
    }
    Ok(())
}

/// `.12` for 120,000 microseconds. Below one second; zero has no fraction.
pub(super) fn append_fraction(out: &mut Vec<u8>, microseconds: u32) {
    let [_, _, a, b, c, d, e, f] = digits::eight(microseconds);
    out.extend_from_slice(&[b'.', a, b, c, d, e, f]);
    while let Some((b'0', shorter)) = out.split_last() {
        let length = shorter.len();
        out.truncate(length);
    }
}

/// `+00`, `-05:30`, `+05:30:15`: the sign is east's, the seconds count westwards.
fn append_offset(out: &mut Vec<u8>, west: i32) {
    let seconds = west.unsigned_abs();
    let [a, b] = digits::two(seconds / 3600);
    out.extend_from_slice(&[if west > 0 { b'-' } else { b'+' }, a, b]);
    if !seconds.is_multiple_of(3600) {
        let [a, b] = digits::two(seconds / 60 % 60);
        out.extend_from_slice(&[b':', a, b]);
    }
    if !seconds.is_multiple_of(60) {
        let [a, b] = digits::two(seconds % 60);
        out.extend_from_slice(&[b':', a, b]);
    }
}
