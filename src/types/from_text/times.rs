//! date, time, timetz, timestamp and timestamptz: converts the server's text to their binary form, which the family of
//! `datetime.rs` writes.
//!
//! ```text
//! date         2024-02-29   0044-03-15 BC   infinity
//! time         03:04:05.678, followed by an offset in a timetz
//! timestamp    2024-01-02 03:04:05.678, followed by an offset in a timestamptz: +02, -03:30, +00:19:32; then BC
//! ```
//! Other styles do not begin like this: `01/02/2024`, `Thu Feb 01`. A date that does not exist (February 30) is not
//! read, because it would become another day.
//!
//! Sums of dates are exact, because years are bounded first. The family refuses values beyond the range of its type.

use super::scanner::{Scanner, value, with_sign};
use crate::types::json_string;
use crate::types::output::Writer;
use crate::types::scalar::Scalar;

const SECOND: i64 = 1_000_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// The last year of a date, and of a timestamp.
const LAST_YEAR_OF_DATES: u64 = 5_874_897;
const LAST_YEAR_OF_TIMESTAMPS: u64 = 294_276;
/// The first year is 4714 BC.
const YEARS_BEFORE_CHRIST: u64 = 4714;

/// Maximum number of hours in an offset: `SET TIME ZONE` takes as many.
const MOST_OFFSET_HOURS: u64 = 167;

pub(super) fn append(scalar: Scalar, text: &[u8], out: &mut Writer<'_>) -> Option<()> {
    use Scalar as S;
    let mut rest = Scanner(text);
    let appended = match scalar {
        S::Date | S::Timestamp | S::Timestamptz if is_infinity(text) => {
            json_string::append(out, text);
            Ok(())
        }
        S::Date => {
            let days = Date::read(&mut rest)?.days(rest, LAST_YEAR_OF_DATES)?;
            scalar.append(&i32::try_from(days).ok()?.to_be_bytes(), out)
        }
        S::Time => {
            let time = clock(&mut rest)?.to_be_bytes();
            rest.end()?;
            scalar.append(&time, out)
        }
        S::Timetz => {
            let time = u128::from(clock(&mut rest)? as u64);
            // The binary form counts westwards.
            let west = i32::try_from(-offset(&mut rest)?).ok()?;
            rest.end()?;
            let [_, _, _, _, binary @ ..] = (time << 32 | u128::from(west as u32)).to_be_bytes();
            scalar.append(&binary, out)
        }
        _ => scalar.append(&moment(rest, scalar)?.to_be_bytes(), out),
    };
    appended.ok()
}

fn is_infinity(text: &[u8]) -> bool {
    matches!(text, b"infinity" | b"-infinity")
}

/// Returns microseconds since 2000-01-01, in UTC.
fn moment(mut text: Scanner<'_>, scalar: Scalar) -> Option<i64> {
    let date = Date::read(&mut text)?;
    text.eat(b" ")?;
    // The server writes the end of a day as the start of the next one.
    let time = clock(&mut text).filter(|time| *time < SECONDS_PER_DAY * SECOND)?;
    let (offset, last_year) = match scalar {
        // East of UTC the last hours are written as hours of the next year. What is beyond them the family refuses.
        Scalar::Timestamptz => (offset(&mut text)?, LAST_YEAR_OF_TIMESTAMPS + 1),
        _ => (0, LAST_YEAR_OF_TIMESTAMPS),
    };
    let days = date.days(text, last_year)?;
    let seconds = days.wrapping_mul(SECONDS_PER_DAY).wrapping_sub(offset);
    Some(seconds.wrapping_mul(SECOND).wrapping_add(time))
}

/// A date as it is written; the era comes at the end of the value.
struct Date {
    year: u64,
    month: u32,
    day: u32,
}

impl Date {
    fn read(text: &mut Scanner<'_>) -> Option<Date> {
        let digits = text.digits();
        // Only years below 1000 have leading zeros.
        let year = match digits {
            [_, _, _, _] | [b'1'..=b'9', _, _, _, _, ..] => value(digits)?,
            _ => return None,
        };
        text.eat(b"-")?;
        let month = text.two()?;
        text.eat(b"-")?;
        let day = text.two()?;
        Some(Date { year, month, day })
    }

    /// Returns the days since 2000-01-01. `end` is the text after the rest of the value, which may be an era.
    #[inline(never)]
    fn days(self, end: Scanner<'_>, last_year: u64) -> Option<i64> {
        /// Whole cycles of 400 years that are added so that the first year is not below zero.
        const CYCLES: u32 = 12;
        const DAYS_PER_CYCLE: u32 = 146_097;
        /// Days from 0000-03-01 to 2000-01-01.
        const EPOCH: u32 = 730_425;
        let (is_before_christ, last_year) = match end.0 {
            b"" => (false, last_year),
            b" BC" => (true, YEARS_BEFORE_CHRIST),
            _ => return None,
        };
        if !(1..=last_year).contains(&self.year) || !(1..=12).contains(&self.month) {
            return None;
        }
        let year = if is_before_christ {
            (CYCLES * 400 + 1).wrapping_sub(self.year as u32)
        } else {
            (self.year as u32).wrapping_add(CYCLES * 400)
        };
        let first = first_of_month(year, self.month);
        let next = first_of_month(year, self.month.wrapping_add(1));
        let days = first.wrapping_add(self.day);
        let exists = first < days && days <= next;
        exists.then_some(i64::from(days) - i64::from(EPOCH + CYCLES * DAYS_PER_CYCLE + 1))
    }
}

/// Returns the days from the first of March of year 0 to the first of a month. Month 13 is the first of the next year.
/// Years begin in March here, so that the leap day is the last.
#[inline(never)]
fn first_of_month(year: u32, month: u32) -> u32 {
    let months = year.wrapping_mul(12).wrapping_add(month).wrapping_sub(3);
    let (year, month) = (months / 12, months % 12);
    year.wrapping_mul(365)
        .wrapping_add(year / 4)
        .wrapping_sub(year / 100)
        .wrapping_add(year / 400)
        .wrapping_add(month.wrapping_mul(153).wrapping_add(2) / 5)
}

/// Reads `03:04:05.678` as microseconds, up to 24:59:59. The family refuses what is beyond 24:00:00.
fn clock(text: &mut Scanner<'_>) -> Option<i64> {
    let hours = text.two().filter(|hours| *hours <= 24)?;
    let seconds = i64::from(hours).wrapping_mul(3600);
    seconds
        .wrapping_add(minutes_and_seconds(text)?.into())
        .wrapping_mul(SECOND)
        .checked_add_unsigned(text.fraction()?)
}

/// Reads `:04:05` as seconds.
#[inline(never)]
pub(super) fn minutes_and_seconds(text: &mut Scanner<'_>) -> Option<u32> {
    text.eat(b":")?;
    let minutes = text.sixtieth()?;
    text.eat(b":")?;
    Some(minutes.wrapping_mul(60).wrapping_add(text.sixtieth()?))
}

/// Reads the offset of the local time from UTC, in seconds to the east.
fn offset(text: &mut Scanner<'_>) -> Option<i64> {
    let is_west = match text.next()? {
        b'+' => false,
        b'-' => true,
        _ => return None,
    };
    let hours = match text.digits() {
        digits @ ([_, _] | [b'1'..=b'9', _, _]) => value(digits)?,
        _ => return None,
    };
    let mut offset = hours.wrapping_mul(3600);
    let mut unit = 60_u32;
    while unit > 0 && text.eat(b":").is_some() {
        offset = offset.wrapping_add(text.sixtieth()?.wrapping_mul(unit).into());
        unit /= 60;
    }
    // The server writes no -00.
    let exists = hours <= MOST_OFFSET_HOURS && !(is_west && offset == 0);
    with_sign(is_west, offset).filter(|_| exists)
}
