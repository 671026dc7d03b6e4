//! float4 and float8: the shortest text that reads back as the same number, in the server's style (`extra_float_digits` above 0).
//!
//! zmij finds the digits; the server differs from it in style (no `.0`, exponent form below 1e-4 and from 1e15 or 1e6, exponents of
//! two digits at least) and in one rule: a decimal exactly halfway between two floats never stands for either of them, even where
//! round-half-even would read it back right. `1e23` is printed as `9.999999999999999e+22` for that reason (float8), and
//! `8.5e9` as `8.4999997e+09` (float4).

use alloc::vec::Vec;

use super::{Outcome, WRONG_LENGTH, copy, digits, numeric};

/// What the formatting must know of a binary format.
struct Layout {
    fraction_bits: u32,
    exponent_bias: i32,
}

const FLOAT4: Layout = Layout {
    fraction_bits: 23,
    exponent_bias: 127,
};
const FLOAT8: Layout = Layout {
    fraction_bits: 52,
    exponent_bias: 1023,
};

/// Appends a float8.
#[inline]
pub(super) fn append_float8(out: &mut Vec<u8>, value: &[u8]) -> Outcome {
    let number = f64::from_be_bytes(value.try_into().map_err(|_| WRONG_LENGTH)?);
    if (1e-4..1e15).contains(&number.abs()) {
        append_fixed(out, zmij::Buffer::new().format_finite(number).as_bytes());
        return Ok(());
    }
    append_rare(
        out,
        number,
        zmij::Buffer::new().format(number).as_bytes(),
        number.to_bits(),
        &FLOAT8,
    )
}

/// Appends a float4.
#[inline]
pub(super) fn append_float4(out: &mut Vec<u8>, value: &[u8]) -> Outcome {
    let number = f32::from_be_bytes(value.try_into().map_err(|_| WRONG_LENGTH)?);
    if (1e-4..1e6).contains(&number.abs()) {
        append_fixed(out, zmij::Buffer::new().format_finite(number).as_bytes());
        return Ok(());
    }
    append_rare(
        out,
        f64::from(number),
        zmij::Buffer::new().format(number).as_bytes(),
        u64::from(number.to_bits()),
        &FLOAT4,
    )
}

/// Appends the text form of either; the server has made it already.
pub(super) fn append_text(out: &mut Vec<u8>, value: &[u8]) -> Outcome {
    numeric::append_text(out, value)
}

/// zmij's positional form is the server's, but for a `.0` at the end.
#[inline]
fn append_fixed(out: &mut Vec<u8>, text: &[u8]) {
    copy::append(out, text.strip_suffix(b".0").unwrap_or(text));
}

/// Zero, what is not finite, and all that takes an exponent.
#[cold]
fn append_rare(out: &mut Vec<u8>, number: f64, text: &[u8], bits: u64, layout: &Layout) -> Outcome {
    if number.is_nan() {
        return numeric::append_special(out, b"\"NaN\"");
    }
    if number.is_infinite() {
        return numeric::append_special(
            out,
            if number > 0.0 {
                b"\"Infinity\""
            } else {
                b"\"-Infinity\""
            },
        );
    }
    if number.is_sign_negative() {
        out.push(b'-');
    }
    if number == 0.0 {
        out.push(b'0');
        return Ok(());
    }
    let decimal = Decimal::parse(text).off_boundary(bits, layout);
    decimal.append_exponent_form(out);
    Ok(())
}

/// significand * 10^exponent, without trailing zeros in the significand.
struct Decimal {
    significand: u64,
    exponent: i32,
}

impl Decimal {
    /// Reads zmij's text of a finite, non-zero number: `123.45`, `0.00012`, `1.5e-7`, `100000.0`.
    fn parse(text: &[u8]) -> Decimal {
        let mut decimal = Decimal {
            significand: 0,
            exponent: 0,
        };
        let mut in_fraction = false;
        let mut bytes = text.iter();
        for &byte in bytes.by_ref() {
            match byte {
                // At most 17 digits, or 16 with a `0` behind them: below 2^64.
                b'0'..=b'9' => {
                    decimal.significand = decimal.significand * 10 + u64::from(byte - b'0');
                    decimal.exponent -= i32::from(in_fraction);
                }
                b'.' => in_fraction = true,
                b'e' => break,
                _ => {}
            }
        }
        let negative = bytes.as_slice().first() == Some(&b'-');
        let exponent = bytes
            .filter(|byte| byte.is_ascii_digit())
            .fold(0, |sum, byte| sum * 10 + i32::from(byte - b'0'));
        decimal.exponent += if negative { -exponent } else { exponent };
        while decimal.significand.is_multiple_of(10) && decimal.significand != 0 {
            decimal.significand /= 10;
            decimal.exponent += 1;
        }
        decimal
    }

    /// The same number, or where it lies exactly halfway between two floats the shortest that does not (and of these the nearest).
    ///
    /// ```text
    /// v = m * 2^e;  the boundaries are (2m +- 1) * 2^(e-1);  the decimal is s * 10^k = s * 5^k * 2^k
    /// ```
    /// Equal only if 5^k divides 2m +- 1 (so 0 <= k <= 23) and s is the quotient shifted left. A decimal with k < 0 would need 17
    /// digits, and then a neighbour inside the interval is no longer.
    fn off_boundary(self, bits: u64, layout: &Layout) -> Decimal {
        let fraction = bits & ((1 << layout.fraction_bits) - 1);
        // Subnormals (exponent field 0) are far too small to matter.
        let exponent_field = (bits >> layout.fraction_bits) as i32 & (2 * layout.exponent_bias + 1);
        let mantissa = fraction | (1 << layout.fraction_bits);
        let half_exponent = exponent_field - layout.exponent_bias - layout.fraction_bits as i32 - 1;
        let (Ok(k), Ok(shift)) = (
            u32::try_from(self.exponent),
            u32::try_from(half_exponent - self.exponent),
        ) else {
            return self;
        };
        let Some(fives) = 5_u64.checked_pow(k) else {
            return self;
        };
        let is_boundary = |odd: u64| {
            let quotient = u128::from(odd / fives);
            odd.is_multiple_of(fives)
                && shift < 64
                && quotient << shift == u128::from(self.significand)
        };
        let above = is_boundary(2 * mantissa + 1);
        if !above && !is_boundary(2 * mantissa - 1) {
            return self;
        }
        // v is half a unit in the last place inwards. In units of 10^(k - j) the nearest whole step to it is inside the interval
        // as soon as it is not zero.
        let (mut step, mut decimal) =
            (power(2.0, half_exponent) / power(10.0, self.exponent), self);
        loop {
            step *= 10.0;
            decimal.significand *= 10;
            decimal.exponent -= 1;
            // Up to 10 * 2^52, exact.
            let whole = (step + 0.5) as u64;
            if step > 0.5 && whole > 0 {
                decimal.significand = if above {
                    decimal.significand - whole
                } else {
                    decimal.significand + whole
                };
                return decimal;
            }
        }
    }

    /// `1e+23`, `1.5e-07`.
    fn append_exponent_form(&self, out: &mut Vec<u8>) {
        let start = out.len();
        digits::append_u64(out, self.significand);
        let count = out.len() - start;
        if count > 1 {
            out.insert(start + 1, b'.');
        }
        let exponent = self.exponent + count as i32 - 1;
        out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
        if exponent.abs() < 10 {
            out.push(b'0');
        }
        digits::append_u32(out, exponent.unsigned_abs());
    }
}

/// `base` to a small power; `core` has no `powi`.
fn power(base: f64, exponent: i32) -> f64 {
    (0..exponent).fold(1.0, |product, _| product * base)
}
