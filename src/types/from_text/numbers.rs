//! Numbers: the server writes them as JSON has them, except NaN and the infinities.
//!
//! ```text
//! int2 … int8, oid    -7                     within the type's range
//! numeric             -12.340   NaN          digits up to numeric's own limits
//! float4, float8      -0.5   1e+21   NaN     of a magnitude that the type has
//! ```
//! The digits of a float are passed on as they are, because their number depends on `extra_float_digits`. PostgreSQL
//! writes no numeric with an exponent. CockroachDB does (`1E+4`, `0E-19`), but not in binary, so the exponent is
//! removed.

use super::scanner::{Scanner, value};
use crate::types::json_string;
use crate::types::output::Writer;
use core::ops::RangeInclusive;

/// Maximum number of digits of a numeric before the point, and after it.
const MOST_WHOLE: i64 = 131_072;
const MOST_SCALE: i64 = 16_383;

/// The exponent of ten and the digit of a number's first digit that is not zero: (-4, 7) for 0.00075.
type Magnitude = (i64, u8);

/// The magnitudes of the floats of a type. The bounds cannot be closer, because a text with fewer digits is rounded:
/// the greatest float8 is 1.7976931348623157e+308, and 2e+308 under `extra_float_digits = -15`.
#[derive(Clone, Copy)]
pub(super) struct Magnitudes {
    least: Magnitude,
    most: Magnitude,
}

pub(super) const FLOAT4: Magnitudes = Magnitudes {
    least: (-45, 1),
    most: (38, 3),
};
pub(super) const FLOAT8: Magnitudes = Magnitudes {
    least: (-324, 4),
    most: (308, 2),
};

/// Appends an integer of a type with this range.
pub(super) fn append_integer(
    out: &mut Writer<'_>,
    text: &[u8],
    range: RangeInclusive<i64>,
) -> Option<()> {
    let mut rest = Scanner(text);
    let number = rest.signed()?;
    rest.end()?;
    range.contains(&number).then(|| out.put_slice(text))
}

pub(super) fn append_numeric(out: &mut Writer<'_>, text: &[u8]) -> Option<()> {
    if append_special(out, text).is_some() {
        return Some(());
    }
    let decimal = Decimal::read(text)?;
    let (whole, scale) = decimal.places();
    if whole > MOST_WHOLE || scale > MOST_SCALE {
        return None;
    }
    match decimal.exponent {
        None => out.put_slice(text),
        Some(_) => decimal.append_positional(out),
    }
    Some(())
}

pub(super) fn append_float(
    out: &mut Writer<'_>,
    text: &[u8],
    magnitudes: Magnitudes,
) -> Option<()> {
    append_special(out, text).or_else(|| {
        check_finite(text, magnitudes)?;
        out.put_slice(text);
        Some(())
    })
}

/// Checks a float of any kind, for a value that has floats in its text.
pub(super) fn check_float(text: &[u8], magnitudes: Magnitudes) -> Option<()> {
    if is_special(text) {
        return Some(());
    }
    check_finite(text, magnitudes)
}

pub(super) fn check_finite(text: &[u8], magnitudes: Magnitudes) -> Option<()> {
    match Decimal::read(text)?.magnitude() {
        None => Some(()),
        Some(magnitude) => (magnitudes.least..=magnitudes.most)
            .contains(&magnitude)
            .then_some(()),
    }
}

fn is_special(text: &[u8]) -> bool {
    matches!(text, b"NaN" | b"Infinity" | b"-Infinity")
}

/// Appends NaN and the infinities as strings, because JSON has no such numbers.
fn append_special(out: &mut Writer<'_>, text: &[u8]) -> Option<()> {
    is_special(text).then(|| json_string::append(out, text))
}

/// A number by the grammar of JSON (RFC 8259, section 6).
struct Decimal<'a> {
    is_negative: bool,
    whole: &'a [u8],
    fraction: &'a [u8],
    exponent: Option<i64>,
}

impl<'a> Decimal<'a> {
    fn read(text: &'a [u8]) -> Option<Decimal<'a>> {
        let mut rest = Scanner(text);
        let is_negative = rest.minus();
        let whole = rest.digits();
        if let [] | [b'0', _, ..] = whole {
            return None;
        }
        let mut fraction: &[u8] = &[];
        if rest.eat(b".").is_some() {
            fraction = rest.digits();
            fraction.first()?;
        }
        let exponent = match rest.next() {
            None => None,
            Some(b'e' | b'E') => Some(exponent(&mut rest)?),
            Some(_) => return None,
        };
        rest.end()?;
        Some(Decimal {
            is_negative,
            whole,
            fraction,
            exponent,
        })
    }

    /// Returns the number of digits before the point and after it. Either is negative where the exponent has moved the
    /// point past the digits.
    fn places(&self) -> (i64, i64) {
        let exponent = self.exponent.unwrap_or(0);
        let whole = (self.whole.len() as i64).wrapping_add(exponent);
        let scale = (self.fraction.len() as i64).wrapping_sub(exponent);
        (whole, scale)
    }

    /// Appends the number without an exponent, with as many digits after the point as it stands for.
    fn append_positional(&self, out: &mut Writer<'_>) {
        let (whole, scale) = self.places();
        if self.is_negative {
            out.put(b"-");
        }
        let mut digits = self.whole.iter().chain(self.fraction).copied();
        let mut is_leading = true;
        // The places before the point, at least one of them, then the places after it.
        for place in (-scale.max(0)..whole.max(1)).rev() {
            let digit = if place < whole {
                digits.next().unwrap_or(b'0')
            } else {
                b'0'
            };
            if place == -1 {
                out.put(b".");
            }
            is_leading &= digit == b'0' && place > 0;
            if !is_leading {
                out.put(&[digit]);
            }
        }
    }

    /// Returns `None` for zero.
    fn magnitude(&self) -> Option<Magnitude> {
        let mut digits = self.whole.iter().chain(self.fraction).enumerate();
        let (zeros, digit) = digits.find(|(_, digit)| **digit != b'0')?;
        let of_first = (self.whole.len() as i64).wrapping_sub(1);
        let exponent = of_first
            .wrapping_sub(zeros as i64)
            .wrapping_add(self.exponent.unwrap_or(0));
        Some((exponent, digit & 15))
    }
}

/// Reads an exponent, after its letter.
fn exponent(rest: &mut Scanner<'_>) -> Option<i64> {
    let is_minus = rest.minus();
    if !is_minus {
        rest.eat(b"+");
    }
    let digits = rest.digits();
    digits.first()?;
    let exponent = i64::from(u32::try_from(value(digits)?).ok()?);
    Some(if is_minus { -exponent } else { exponent })
}
