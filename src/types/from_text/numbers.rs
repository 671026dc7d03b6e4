//! Numbers: as the server writes them, which is as JSON has them, but for NaN and the infinities.
//!
//! ```text
//! int2 … int8, oid    -7                     within the type's range
//! numeric             -12.340   NaN          digits up to numeric's own limits
//! float4, float8      -0.5   1e+21   NaN     of a magnitude that the type has
//! ```
//! The digits of a float pass as they are: how many there are depends on `extra_float_digits`. PostgreSQL writes no
//! numeric with an exponent; CockroachDB does (`1E+4`, `0E-19`), and not in binary, so it goes.

use super::scanner::{Scanner, value};
use crate::types::json_string;
use crate::types::output::Writer;
use core::ops::RangeInclusive;

/// The most digits of a numeric in front of the point, and behind it.
const MOST_WHOLE: i64 = 131_072;
const MOST_SCALE: i64 = 16_383;

/// Exponent of ten and digit of a number's first digit that is not zero: (-4, 7) of 0.00075.
type Magnitude = (i64, u8);

/// Of the floats of a type. No closer, because fewer digits are rounded: the greatest float8 is
/// 1.7976931348623157e+308, and 2e+308 under `extra_float_digits = -15`.
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

/// An integer of a type with this range.
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

/// Whether it is a float of any kind, for a value that has floats in its text.
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

/// Strings in JSON, which has no such numbers.
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

    /// Digits in front of the point and behind it, less than none too, when the exponent has moved it.
    fn places(&self) -> (i64, i64) {
        let exponent = self.exponent.unwrap_or(0);
        let whole = (self.whole.len() as i64).wrapping_add(exponent);
        let scale = (self.fraction.len() as i64).wrapping_sub(exponent);
        (whole, scale)
    }

    /// Without an exponent, with as many digits behind the point as it stands for.
    fn append_positional(&self, out: &mut Writer<'_>) {
        let (whole, scale) = self.places();
        if self.is_negative {
            out.put(b"-");
        }
        let mut digits = self.whole.iter().chain(self.fraction).copied();
        let mut is_leading = true;
        // Places in front of the point, the last one always, then those behind it.
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

    /// Nothing of zero.
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

/// Behind its letter.
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
