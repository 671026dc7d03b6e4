//! date, time, timetz, timestamp and timestamptz: from the server's text to their binary form, which the family of
//! `datetime.rs` writes.
//!
//! ```text
//! date         2024-02-29   0044-03-15 BC   infinity
//! time         03:04:05.678, an offset behind it in a timetz
//! timestamp    2024-01-02 03:04:05.678, an offset behind it in a timestamptz: +02, -03:30, +00:19:32; then BC
//! ```
//! Other styles do not begin so: `01/02/2024`, `Thu Feb 01`. What does not exist (February 30) would come out as
//! another day, so it is not read.
//!
//! Sums of dates are exact because years are bounded first; what is beyond a type's range its family refuses.

use super::scanner::{Scanner, value, with_sign};
use crate::types::json_string;
use crate::types::output::Writer;
use crate::types::scalar::Scalar;

const SECOND: i64 = 1_000_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// The last that a date can hold, and a timestamp.
const LAST_YEAR_OF_DATES: u64 = 5_874_897;
const LAST_YEAR_OF_TIMESTAMPS: u64 = 294_276;
/// The first is 4714 BC.
const YEARS_BEFORE_CHRIST: u64 = 4714;

/// Hours of an offset: `SET TIME ZONE` takes as many.
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

/// Microseconds since 2000-01-01, in UTC.
fn moment(mut text: Scanner<'_>, scalar: Scalar) -> Option<i64> {
    let date = Date::read(&mut text)?;
    text.eat(b" ")?;
    // The end of a day is the start of the next one here, and written so.
    let time = clock(&mut text).filter(|time| *time < SECONDS_PER_DAY * SECOND)?;
    let offset = match scalar {
        Scalar::Timestamptz => offset(&mut text)?,
        _ => 0,
    };
    let days = date.days(text, LAST_YEAR_OF_TIMESTAMPS)?;
    let seconds = days.wrapping_mul(SECONDS_PER_DAY).wrapping_sub(offset);
    Some(seconds.wrapping_mul(SECOND).wrapping_add(time))
}

/// As it is written; the era comes at the end of the value.
struct Date {
    year: u64,
    month: u32,
    day: u32,
}

impl Date {
    fn read(text: &mut Scanner<'_>) -> Option<Date> {
        let digits = text.digits();
        // Zeros stand only in front of years below 1000.
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

    /// Days since 2000-01-01. `end`: what stands behind the rest of the value.
    #[inline(never)]
    fn days(self, end: Scanner<'_>, last_year: u64) -> Option<i64> {
        /// Whole cycles of 400 years, so that the first year is none below zero.
        const CYCLES: u32 = 12;
        const DAYS_PER_CYCLE: u32 = 146_097;
        /// From 0000-03-01 to 2000-01-01.
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

/// Days from the first of March of year 0 to the first of a month, of which the thirteenth is the next year's first.
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

/// `03:04:05.678` in microseconds, up to 24:59:59: what is beyond 24:00:00 the family refuses.
fn clock(text: &mut Scanner<'_>) -> Option<i64> {
    let hours = text.two().filter(|hours| *hours <= 24)?;
    let seconds = i64::from(hours).wrapping_mul(3600);
    seconds
        .wrapping_add(minutes_and_seconds(text)?.into())
        .wrapping_mul(SECOND)
        .checked_add_unsigned(text.fraction()?)
}

/// `:04:05` in seconds.
#[inline(never)]
pub(super) fn minutes_and_seconds(text: &mut Scanner<'_>) -> Option<u32> {
    text.eat(b":")?;
    let minutes = text.sixtieth()?;
    text.eat(b":")?;
    Some(minutes.wrapping_mul(60).wrapping_add(text.sixtieth()?))
}

/// Seconds of the local time from UTC, to the east.
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
    // There is no -00.
    let exists = hours <= MOST_OFFSET_HOURS && !(is_west && offset == 0);
    with_sign(is_west, offset).filter(|_| exists)
}
