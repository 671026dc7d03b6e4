//! interval: converts the server's text to its binary form, which `interval.rs` writes.
//!
//! ```text
//! -1 years -2 mons +3 days -04:05:06.7      IntervalStyle postgres
//! P-1Y-2M3DT-4H-5M-6.7S                     iso_8601
//! ```
//! Only the text that `EncodeInterval` writes is read: units from the greatest on, none of them zero, months below a
//! year. Other styles do not begin like this: `@ 1 day`, `1-2`, `3 4:05:06`.

use super::append_same;
use super::scanner::{Scanner, value, with_sign};
use super::times::minutes_and_seconds;
use crate::types::json_string;
use crate::types::output::Writer;
use crate::types::scalar::Scalar;

const SECOND: u64 = 1_000_000;
const MINUTE: i64 = 60_000_000;
const HOUR: i64 = 60 * MINUTE;
const MONTHS_PER_YEAR: i64 = 12;

pub(super) fn append(out: &mut Writer<'_>, text: &[u8]) -> Option<()> {
    if matches!(text, b"infinity" | b"-infinity") {
        json_string::append(out, text);
        return Some(());
    }
    if text.first() == Some(&b'P') {
        let binary = Interval::from_iso(text)?.binary()?;
        return append_same(Scalar::Interval, &binary, out, text);
    }
    let binary = Interval::from_postgres(text)?.binary()?;
    Scalar::Interval.append(&binary, out).ok()
}

#[derive(Default)]
struct Interval {
    months: i64,
    days: i64,
    microseconds: i64,
}

impl Interval {
    /// int64 microseconds, int32 days, int32 months.
    fn binary(&self) -> Option<[u8; 16]> {
        let (days, months) = (
            i32::try_from(self.days).ok()?,
            i32::try_from(self.months).ok()?,
        );
        let rest = u64::from(days as u32) << 32 | u64::from(months as u32);
        Some((u128::from(self.microseconds as u64) << 64 | u128::from(rest)).to_be_bytes())
    }

    /// Reads IntervalStyle iso_8601, leniently: the caller compares the text with the interval as it is written, which
    /// differs if the text has other units or zeros than the server writes.
    fn from_iso(text: &[u8]) -> Option<Interval> {
        let mut rest = Scanner(text);
        rest.eat(b"P")?;
        let years = component(&mut rest, b"Y");
        let months = component(&mut rest, b"M");
        let days = component(&mut rest, b"D");
        rest.eat(b"T");
        let hours = component(&mut rest, b"H").checked_mul(HOUR)?;
        let minutes = component(&mut rest, b"M").checked_mul(MINUTE)?;
        let seconds = match rest.0 {
            [] => 0,
            _ => seconds(&mut rest)?,
        };
        rest.end()?;
        Some(Interval {
            months: years.checked_mul(MONTHS_PER_YEAR)?.checked_add(months)?,
            days,
            microseconds: hours.checked_add(minutes)?.checked_add(seconds)?,
        })
    }

    /// Reads IntervalStyle postgres.
    fn from_postgres(text: &[u8]) -> Option<Interval> {
        let mut parts = Parts {
            rest: Scanner(text),
            is_first: true,
            is_behind_negative: false,
        };
        let years = parts.part(b"year");
        let months = parts.part(b"mon");
        // The server makes years and months from one number.
        let is_one_number = months.abs() < MONTHS_PER_YEAR && years.signum() * months.signum() >= 0;
        let months = years.checked_mul(MONTHS_PER_YEAR)?.checked_add(months)?;
        let days = parts.part(b"day");
        let microseconds = match (parts.rest.0, parts.is_first) {
            ([], false) => 0,
            _ => parts.time()?,
        };
        parts.rest.end()?;
        is_one_number.then_some(Interval {
            months,
            days,
            microseconds,
        })
    }
}

/// Reads the number before `unit`. Returns 0 and reads nothing if something else comes.
fn component(text: &mut Scanner<'_>, unit: &[u8]) -> i64 {
    let mut rest = *text;
    match (rest.signed(), rest.eat(unit)) {
        (Some(number), Some(())) => {
            *text = rest;
            number
        }
        _ => 0,
    }
}

/// Reads `-6.7S` as microseconds.
fn seconds(text: &mut Scanner<'_>) -> Option<i64> {
    let is_minus = text.minus();
    let seconds = text.unsigned()?.checked_mul(SECOND)?;
    let microseconds = seconds.checked_add(text.fraction()?)?;
    text.eat(b"S")?;
    with_sign(is_minus, microseconds)
}

/// The rest of an interval in IntervalStyle postgres.
struct Parts<'a> {
    rest: Scanner<'a>,
    is_first: bool,
    /// The previous part is negative: then the next part has a plus, unless it is negative too.
    is_behind_negative: bool,
}

impl Parts<'_> {
    /// Reads the number of `unit`s. Returns 0 and reads nothing if something else comes.
    fn part(&mut self, unit: &[u8]) -> i64 {
        let mut rest = self.rest;
        let Some(number) = self.number_of(unit, &mut rest) else {
            return 0;
        };
        *self = Parts {
            rest,
            is_first: false,
            is_behind_negative: number < 0,
        };
        number
    }

    fn number_of(&self, unit: &[u8], rest: &mut Scanner<'_>) -> Option<i64> {
        let is_minus = self.sign(rest)?;
        let number = with_sign(is_minus, rest.unsigned()?).filter(|number| *number != 0)?;
        rest.eat(b" ")?;
        rest.eat(unit)?;
        if number != 1 {
            rest.eat(b"s")?;
        }
        Some(number)
    }

    /// Reads what comes before a part's number. Returns whether the part is negative.
    fn sign(&self, rest: &mut Scanner<'_>) -> Option<bool> {
        if !self.is_first {
            rest.eat(b" ")?;
        }
        let is_minus = rest.minus();
        if self.is_behind_negative && !is_minus {
            rest.eat(b"+")?;
        }
        Some(is_minus)
    }

    /// Reads `-04:05:06.7` as microseconds; zero is allowed only if nothing precedes it.
    fn time(&mut self) -> Option<i64> {
        let mut rest = self.rest;
        let is_minus = self.sign(&mut rest)?;
        let hours = match rest.digits() {
            digits @ ([_, _] | [b'1'..=b'9', _, _, ..]) => value(digits)?,
            _ => return None,
        };
        let seconds = hours
            .checked_mul(3600)?
            .checked_add(minutes_and_seconds(&mut rest)?.into())?;
        // A fraction has no trailing zero.
        if let [b'.', .., b'0'] = rest.0 {
            return None;
        }
        let microseconds = seconds.checked_mul(SECOND)?.checked_add(rest.fraction()?)?;
        let is_zero_written = self.is_first && !is_minus;
        self.rest = rest;
        with_sign(is_minus, microseconds).filter(|time| *time != 0 || is_zero_written)
    }
}
