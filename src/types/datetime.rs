//! date, time, timetz, timestamp, timestamptz, as `to_json` writes them with TimeZone UTC and DateStyle ISO.
//!
//! The epoch is 2000-01-01. A date counts days, all others microseconds; the extremes of the integers are the
//! infinities. There are two styles, both the server's: date and the timestamps have XML's (`T`, `+00:00`), time and
//! timetz have ISO's (`+00`). Years before 1 are written `0044-… BC`.

use super::output::{Short, Writer, put_short};
use super::{Outcome, WRONG_LENGTH, digits};

const MICROSECONDS_PER_SECOND: u64 = 1_000_000;
const MICROSECONDS_PER_DAY: u64 = 86_400_000_000;
/// 4714-11-24 BC, Julian day 0, in days from 2000-01-01.
const MIN_DAY: i32 = -2_451_545;
/// 5874898-06-03, the first day that a date cannot hold.
const END_DAY: i32 = 2_147_483_494 - 2_451_545;
/// 4714-11-24 BC.
const MIN_TIMESTAMP: i64 = MIN_DAY as i64 * MICROSECONDS_PER_DAY as i64;
/// 294277-01-01, the first moment that a timestamp cannot hold.
const END_TIMESTAMP: i64 = 9_223_371_331_200_000_000;
/// Offsets reach 15:59:59 in both directions.
const ZONE_LIMIT: u32 = 16 * 3600;

const OUT_OF_RANGE: &str = "date or time out of range";

/// Appends a date.
#[inline(always)]
pub(super) fn append_date(out: &mut Writer<'_>, value: &[u8]) -> Outcome {
    match i32::from_be_bytes(value.try_into().map_err(|_| WRONG_LENGTH)?) {
        i32::MAX => out.put(b"\"infinity\""),
        i32::MIN => out.put(b"\"-infinity\""),
        days @ MIN_DAY..END_DAY => {
            let date = Date::from_days(days);
            put_short!(out, |out| {
                out.put(b"\"");
                date.append(out);
                date.append_era(out);
                out.put(b"\"");
            });
        }
        _ => return Err(OUT_OF_RANGE),
    }
    Ok(())
}

/// Appends a time: 00:00:00 to 24:00:00, both included.
#[inline(always)]
pub(super) fn append_time(out: &mut Writer<'_>, value: &[u8]) -> Outcome {
    let time = u64::from_be_bytes(value.try_into().map_err(|_| WRONG_LENGTH)?);
    let time = time_of_day(time)?;
    put_short!(out, |out| {
        out.put(b"\"");
        append_time_of_day(out, time);
        out.put(b"\"");
    });
    Ok(())
}

/// Appends a timetz: int64 time, int32 seconds west of Greenwich.
#[inline(always)]
pub(super) fn append_timetz(out: &mut Writer<'_>, value: &[u8]) -> Outcome {
    let (time, zone) = value.split_first_chunk().ok_or(WRONG_LENGTH)?;
    let west = i32::from_be_bytes(zone.try_into().map_err(|_| WRONG_LENGTH)?);
    if west.unsigned_abs() >= ZONE_LIMIT {
        return Err(OUT_OF_RANGE);
    }
    let time = time_of_day(u64::from_be_bytes(*time))?;
    put_short!(out, |out| {
        out.put(b"\"");
        append_time_of_day(out, time);
        append_offset(out, west);
        out.put(b"\"");
    });
    Ok(())
}

/// Appends a timestamp.
#[inline(always)]
pub(super) fn append_timestamp(out: &mut Writer<'_>, value: &[u8]) -> Outcome {
    append_moment(out, value, b"")
}

/// Appends a timestamptz, in UTC.
#[inline(always)]
pub(super) fn append_timestamptz(out: &mut Writer<'_>, value: &[u8]) -> Outcome {
    append_moment(out, value, b"+00:00")
}

#[inline(always)]
fn append_moment<const N: usize>(out: &mut Writer<'_>, value: &[u8], zone: &[u8; N]) -> Outcome {
    match i64::from_be_bytes(value.try_into().map_err(|_| WRONG_LENGTH)?) {
        i64::MAX => out.put(b"\"infinity\""),
        i64::MIN => out.put(b"\"-infinity\""),
        moment @ MIN_TIMESTAMP..END_TIMESTAMP => {
            let since_first = moment.wrapping_sub(MIN_TIMESTAMP) as u64;
            let days = since_first / MICROSECONDS_PER_DAY;
            // Fits: a timestamp spans fewer days than a date.
            let date = Date::from_days(days as i32 + MIN_DAY);
            let time = since_first.wrapping_sub(days.wrapping_mul(MICROSECONDS_PER_DAY));
            put_short!(out, |out| {
                out.put(b"\"");
                date.append(out);
                out.put(b"T");
                append_time_of_day(out, time);
                out.put(zone);
                date.append_era(out);
                out.put(b"\"");
            });
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
    /// Converts `days` from 2000-01-01, at least `MIN_DAY`. Years begin in March here, so that the leap day is the last
    /// day of its year. The multiplications are divisions by a year of 365.25 days and a month of 30.6 days (Neri and
    /// Schneider, "Euclidean affine functions and their application to calendar algorithms", 2022).
    #[inline(always)]
    fn from_days(days: i32) -> Date {
        const DAYS_PER_ERA: u32 = 146_097;
        /// Days from 0000-03-01 to 2000-01-01.
        const EPOCH: i32 = 730_425;
        /// Whole eras of 400 years that are added to make everything unsigned: Julian day 0 lies in the twelfth era
        /// before year 0.
        const ERAS: i32 = 12;
        let days = days.wrapping_add(EPOCH + ERAS * DAYS_PER_ERA as i32) as u32;
        let (era, day_of_era) = (days / DAYS_PER_ERA, days % DAYS_PER_ERA);
        let quarter_days = 4 * day_of_era + 3;
        let (century, quarter_days) = (
            quarter_days / DAYS_PER_ERA,
            (quarter_days % DAYS_PER_ERA) | 3,
        );
        let year_of_century = 2_939_745 * u64::from(quarter_days);
        let day_of_year = year_of_century as u32 / 2_939_745 / 4;
        let month_and_day = 2_141 * day_of_year + 197_913;
        let (month, day) = (month_and_day >> 16, (month_and_day & 0xffff) / 2_141 + 1);
        let next_year = u32::from(day_of_year >= 306);
        let year = era * 400 + century * 100 + (year_of_century >> 32) as u32 + next_year;
        Date {
            year: year as i32 - ERAS * 400,
            month: month - 12 * next_year,
            day,
        }
    }

    /// Appends `2024-02-29`. A year before 1 is counted backwards from 1 BC, and [`Date::append_era`] marks it at the
    /// end of the value.
    #[inline(always)]
    fn append(&self, out: &mut Short<'_>) {
        let year = if self.year > 0 {
            self.year
        } else {
            1 - self.year
        }
        .unsigned_abs();
        if year < 10_000 {
            out.put(&digits::four(year));
        } else {
            digits::append_u32(out, year);
        }
        let ([a, b], [c, d]) = (digits::two(self.month), digits::two(self.day));
        out.put(&[b'-', a, b, b'-', c, d]);
    }

    #[inline(always)]
    fn append_era(&self, out: &mut Short<'_>) {
        if self.year <= 0 {
            out.put(b" BC");
        }
    }
}

/// Checks microseconds since midnight, up to and including the next midnight. A negative time, read as unsigned,
/// is far too large.
#[inline(always)]
fn time_of_day(time: u64) -> Result<u64, &'static str> {
    if time <= MICROSECONDS_PER_DAY {
        Ok(time)
    } else {
        Err(OUT_OF_RANGE)
    }
}

/// Appends `03:04:05`, and the fraction without trailing zeros if it is not zero.
#[inline(always)]
fn append_time_of_day(out: &mut Short<'_>, time: u64) {
    // 1,000,000 = 64 * 15,625: the time after the shift fits 32 bits, which divide faster.
    let seconds = (time >> 6) as u32 / 15_625;
    let fraction = (time - u64::from(seconds) * MICROSECONDS_PER_SECOND) as u32;
    let ([a, b], [c, d], [e, f]) = (
        digits::two(seconds / 3600),
        digits::two(seconds / 60 % 60),
        digits::two(seconds % 60),
    );
    out.put(&[a, b, b':', c, d, b':', e, f]);
    if fraction != 0 {
        append_fraction(out, fraction);
    }
}

/// Appends `.12` for 120,000 microseconds. They must be less than a second and not zero.
#[inline(always)]
pub(super) fn append_fraction(out: &mut Short<'_>, microseconds: u32) {
    let [_, _, a, b, c, d, e, f] = digits::eight(microseconds);
    let digits = u64::from_le_bytes([b'.', a, b, c, d, e, f, 0]);
    // The low bits of '0' are zero, so the leading zero bytes under the mask are the trailing zeros of the fraction.
    let zeros = (digits & 0x000f_0f0f_0f0f_0f0f).leading_zeros() / 8 - 1;
    out.put_block(&digits.to_le_bytes(), 7 - zeros as usize);
}

/// Appends `+00`, `-05:30` or `+05:30:15`. East has a plus, while the seconds count westwards.
#[inline(always)]
fn append_offset(out: &mut Short<'_>, west: i32) {
    let seconds = west.unsigned_abs();
    let [a, b] = digits::two(seconds / 3600);
    out.put(&[if west > 0 { b'-' } else { b'+' }, a, b]);
    if !seconds.is_multiple_of(3600) {
        let [a, b] = digits::two(seconds / 60 % 60);
        out.put(&[b':', a, b]);
    }
    if !seconds.is_multiple_of(60) {
        let [a, b] = digits::two(seconds % 60);
        out.put(&[b':', a, b]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::oid::{DATE, TIME, TIMESTAMP, TIMESTAMPTZ, TIMETZ};
    use crate::types::tests::{json, refused};
    use alloc::format;

    #[test]
    fn dates() {
        for (days, expected) in [
            (0, "2000-01-01"),
            (-1, "1999-12-31"),
            (8825, "2024-02-29"),
            (-730_119, "0001-01-01"),
            (-730_120, "0001-12-31 BC"),
            (MIN_DAY, "4714-11-24 BC"),
            (2_921_940, "10000-01-01"),
            (END_DAY - 1, "5874897-12-31"),
            (i32::MAX, "infinity"),
            (i32::MIN, "-infinity"),
        ] {
            assert_eq!(json(DATE, days.to_be_bytes()), format!("\"{expected}\""));
        }
        refused(DATE, &(MIN_DAY - 1).to_be_bytes());
        refused(DATE, &END_DAY.to_be_bytes());
        refused(DATE, &[0; 3]);
    }

    /// Counts every day by hand, over two eras of 400 years and the change from BC to AD.
    #[test]
    fn the_calendar_has_no_gaps() {
        let (mut year, mut month, mut day) = (-404_i32, 1, 1);
        let leap = |year: i32| {
            year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0)
        };
        let start = -(2000 + 404) * 365 - (2000 + 404) / 4 + 18 - 1 + 1;
        let first = (start - 5..start + 5)
            .find(|days| Date::from_days(*days).year == -404)
            .unwrap();
        for days in first..first + 2 * 146_097 + 700 {
            let date = Date::from_days(days);
            assert_eq!((date.year, date.month, date.day), (year, month, day));
            let last = match month {
                2 => 28 + u32::from(leap(year)),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            (day, month, year) = match (day == last, month == 12) {
                (true, true) => (1, 1, year + 1),
                (true, false) => (1, month + 1, year),
                _ => (day + 1, month, year),
            };
        }
    }

    #[test]
    fn timestamps() {
        for (moment, expected) in [
            (0, "2000-01-01T00:00:00"),
            (-1, "1999-12-31T23:59:59.999999"),
            (100_000, "2000-01-01T00:00:00.1"),
            (MIN_TIMESTAMP, "4714-11-24T00:00:00 BC"),
            (END_TIMESTAMP - 1, "294276-12-31T23:59:59.999999"),
            (i64::MAX, "infinity"),
            (i64::MIN, "-infinity"),
        ] {
            assert_eq!(
                json(TIMESTAMP, moment.to_be_bytes()),
                format!("\"{expected}\"")
            );
        }
        assert_eq!(
            json(TIMESTAMPTZ, 0_i64.to_be_bytes()),
            "\"2000-01-01T00:00:00+00:00\""
        );
        assert_eq!(
            json(TIMESTAMPTZ, MIN_TIMESTAMP.to_be_bytes()),
            "\"4714-11-24T00:00:00+00:00 BC\""
        );
        assert_eq!(json(TIMESTAMPTZ, i64::MAX.to_be_bytes()), "\"infinity\"");
        for moment in [MIN_TIMESTAMP - 1, END_TIMESTAMP, i64::MAX - 1, i64::MIN + 1] {
            refused(TIMESTAMP, &moment.to_be_bytes());
            refused(TIMESTAMPTZ, &moment.to_be_bytes());
        }
        refused(TIMESTAMP, &[0; 7]);
    }

    #[test]
    fn times() {
        for (time, expected) in [
            (0, "00:00:00"),
            (86_400_000_000, "24:00:00"),
            (11_045_120_000, "03:04:05.12"),
            (1, "00:00:00.000001"),
        ] {
            assert_eq!(
                json(TIME, i64::to_be_bytes(time)),
                format!("\"{expected}\"")
            );
        }
        for time in [-1, 86_400_000_001, i64::MAX, i64::MIN] {
            refused(TIME, &time.to_be_bytes());
        }
        let timetz = |time: i64, west: i32| [&time.to_be_bytes()[..], &west.to_be_bytes()].concat();
        for (west, expected) in [
            (0, "+00"),
            (-19_800, "+05:30"),
            (19_800, "-05:30"),
            (-19_815, "+05:30:15"),
            (1, "-00:00:01"),
            (-57_599, "+15:59:59"),
        ] {
            assert_eq!(
                json(TIMETZ, timetz(0, west)),
                format!("\"00:00:00{expected}\"")
            );
        }
        refused(TIMETZ, &timetz(0, 57_600));
        refused(TIMETZ, &timetz(0, i32::MIN));
        refused(TIMETZ, &timetz(-1, 0));
        refused(TIMETZ, &[0; 8]);
        refused(TIMETZ, &[0; 13]);
    }
}
