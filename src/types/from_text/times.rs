//! date, timestamp, timestamptz and interval: from the server's text to their binary form, which the families of
//! `datetime.rs` and `interval.rs` write. An interval in iso_8601 is written as it is.
//!
//! ```text
//! date         2024-02-29   0044-03-15 BC   infinity
//! timestamp    2024-01-02 03:04:05.678, an offset behind it in a timestamptz: +02, -03:30, +00:19:32; then BC
//! interval     -1 years -2 mons +3 days -04:05:06.7      IntervalStyle postgres
//!              P-1Y-2M3DT-4H-5M-6.7S                     iso_8601
//! ```
//! Other styles do not begin so: `01/02/2024`, `Thu Feb 01`, `@ 1 day`, `1-2`. What does not exist (February 30) would
//! come out as another day, so it is not read.
//!
//! Sums of dates are exact because years are bounded first; what is beyond a type's range its family refuses.

use super::scanner::Scanner;
use crate::types::scalar::Scalar;

const SECOND: i64 = 1_000_000;
const HOUR: i64 = 3600 * SECOND;
const SECONDS_PER_DAY: i64 = 86_400;

/// The last that a date can hold, and a timestamp.
const LAST_YEAR_OF_DATES: u32 = 5_874_897;
const LAST_YEAR_OF_TIMESTAMPS: u32 = 294_276;
/// The first is 4714 BC.
const YEARS_BEFORE_CHRIST: u32 = 4714;

/// The most hours of an interval.
const MOST_HOURS: i64 = 2_562_047_788;

/// Whether it is written as it is: an infinity, or an interval in iso_8601.
pub(super) fn is_written(text: &[u8], scalar: Scalar) -> bool {
    text.strip_prefix(b"-").unwrap_or(text) == b"infinity"
        || (scalar == Scalar::Interval && text.first() == Some(&b'P'))
}

/// Days since 2000-01-01 of a date; microseconds of the others, in UTC.
pub(super) fn moment(text: &[u8], scalar: Scalar) -> Option<i64> {
    let mut text = Scanner(text);
    let date = Date::read(&mut text)?;
    if scalar == Scalar::Date {
        return date.days(text, LAST_YEAR_OF_DATES);
    }
    text.eat(b" ")?;
    let hours = text.two().filter(|hours| *hours < 24)?;
    let time = clock(hours.into(), &mut text)?;
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
    year: u32,
    month: u32,
    day: u32,
}

impl Date {
    fn read(text: &mut Scanner<'_>) -> Option<Date> {
        let (year, digits) = text.number()?;
        text.eat(b"-")?;
        let month = text.two()?;
        text.eat(b"-")?;
        let day = text.two()?;
        (digits >= 4).then_some(Date { year, month, day })
    }

    /// Days since 2000-01-01. `end`: what stands behind the rest of the value.
    #[inline(never)]
    fn days(self, end: Scanner<'_>, last_year: u32) -> Option<i64> {
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
            (CYCLES * 400 + 1).wrapping_sub(self.year)
        } else {
            self.year.wrapping_add(CYCLES * 400)
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

/// Microseconds of so many hours, and of `:04:05.678` that comes next.
#[inline(never)]
fn clock(hours: i64, text: &mut Scanner<'_>) -> Option<i64> {
    let mut sum = hours;
    for _ in 0..2 {
        text.eat(b":")?;
        let number = text.two().filter(|number| *number < 60)?;
        sum = sum.wrapping_mul(60).wrapping_add(number.into());
    }
    Some(sum.wrapping_mul(SECOND).wrapping_add(text.fraction()?))
}

/// Seconds of the local time from UTC.
fn offset(text: &mut Scanner<'_>) -> Option<i64> {
    let (b'+' | b'-', _) = text.0.split_first()? else {
        return None;
    };
    let is_west = text.sign();
    let (mut offset, mut unit) = (0_u32, 3600);
    while unit > 0 {
        offset = offset.wrapping_add(text.two()?.wrapping_mul(unit));
        unit = text.eat(b":").map_or(0, |()| unit / 60);
    }
    Some(signed(is_west, offset.into()))
}

fn signed(is_minus: bool, number: i64) -> i64 {
    if is_minus {
        number.wrapping_neg()
    } else {
        number
    }
}

/// Of IntervalStyle postgres: int64 microseconds, int32 days, int32 months.
pub(super) fn interval(text: &[u8]) -> Option<[u8; 16]> {
    let mut text = Scanner(text);
    let (mut months, mut days, mut time) = (0, 0, 0);
    // How many units, from the greatest on, may not come any more.
    let mut past = 0;
    loop {
        let is_minus = text.sign();
        let (number, _) = text.number()?;
        let number = signed(is_minus, number.into());
        let unit = if text.eat(b" year").is_some() {
            months = number.wrapping_mul(12);
            1
        } else if text.eat(b" mon").is_some() {
            months = number.wrapping_add(months);
            2
        } else if text.eat(b" day").is_some() {
            days = number;
            3
        } else {
            let rest = clock(0, &mut text)?;
            if !(-MOST_HOURS..=MOST_HOURS).contains(&number) {
                return None;
            }
            let hours = number.wrapping_mul(HOUR);
            time = hours.checked_add(signed(is_minus, rest))?;
            4
        };
        if unit <= past {
            return None;
        }
        past = unit;
        if unit < 4 {
            text.eat(b"s");
        }
        if text.0.is_empty() {
            break;
        }
        text.eat(b" ")?;
    }
    let (days, months) = (i32::try_from(days).ok()?, i32::try_from(months).ok()?);
    let rest = u64::from(days as u32) << 32 | u64::from(months as u32);
    Some((u128::from(time as u64) << 64 | u128::from(rest)).to_be_bytes())
}
