//! float4 and float8: the shortest text that reads back as the same number, in the server's style (`extra_float_digits`
//! above 0).
//!
//! zmij finds the digits. The server differs from zmij in style (no `.0`, exponent form below 1e-4 and from 1e15 or,
//! for a float4, 1e6, exponents of at least two digits) and in one rule: a decimal exactly halfway between two floats
//! never stands for either of them, even where round-half-even would read it back correctly. For that reason `1e23` is
//! printed as `9.999999999999999e+22` (float8), and `8.5e9` as `8.4999997e+09` (float4).

use super::output::{Short, Writer, put_short};
use super::{Outcome, WRONG_LENGTH, digits};

/// The properties of a binary format that the formatting needs.
struct Layout {
    fraction_bits: u32,
    exponent_bias: i32,
    sign_bit: u32,
}

const FLOAT4: Layout = Layout {
    fraction_bits: 23,
    exponent_bias: 127,
    sign_bit: 31,
};
const FLOAT8: Layout = Layout {
    fraction_bits: 52,
    exponent_bias: 1023,
    sign_bit: 63,
};

/// Appends a float8.
#[inline(always)]
pub(super) fn append_float8(out: &mut Writer<'_>, value: &[u8]) -> Outcome {
    let bits = u64::from_be_bytes(value.try_into().map_err(|_| WRONG_LENGTH)?);
    let number = f64::from_bits(bits);
    put_short!(out, |out| {
        if (1e-4..1e15).contains(&number.abs()) {
            append_positional(out, bits, &FLOAT8);
        } else {
            out.lend(|out| append_rare(out, number, false));
        }
    });
    Ok(())
}

/// Appends a float4.
#[inline(always)]
pub(super) fn append_float4(out: &mut Writer<'_>, value: &[u8]) -> Outcome {
    let bits = u32::from_be_bytes(value.try_into().map_err(|_| WRONG_LENGTH)?);
    let number = f32::from_bits(bits);
    put_short!(out, |out| {
        if (1e-4..1e6).contains(&number.abs()) {
            append_positional(out, bits.into(), &FLOAT4);
        } else {
            out.lend(|out| append_rare(out, number.into(), true));
        }
    });
    Ok(())
}

/// Appends a number from 1e-4 up to 1e15, where the shortest digits need no approximation: all products fit 128 bits.
///
/// ```text
/// |v| = m / 2^s                          m below 2^53, 3 <= s <= 66
/// whole.fraction                         whole = m >> s; the rest x is below 1
/// d = s * log10(2), rounded up           10^-d is at most one unit in the last place of m, 10^-(d-1) is more
/// x * 10^d = q + f / 2^t                 t = s - d, because 10^d = 5^d * 2^d
/// every y with |x - y| * 10^d < 5^d / 2^(t+1) reads back as v
/// ```
/// So among the decimals with d-1 digits after the point, at most one lies inside the interval. If one does, it is the
/// shortest (its trailing zeros are dropped). If not, the shortest is the nearest decimal with d digits. A power of two
/// has a narrower interval below it, but in this range it is itself a decimal of at most d-1 digits. (Schubfach's idea,
/// Raffaello Giulietti 2020; with exact products, as Ryu has.)
#[inline(always)]
fn append_positional(out: &mut Short<'_>, bits: u64, layout: &Layout) {
    let exponent_field =
        (bits >> layout.fraction_bits) as u32 & (2 * layout.exponent_bias as u32 + 1);
    let mantissa = (bits & ((1 << layout.fraction_bits) - 1)) | (1 << layout.fraction_bits);
    let shift = (layout.exponent_bias as u32 + layout.fraction_bits).wrapping_sub(exponent_field);
    if bits >> layout.sign_bit != 0 {
        out.put(b"-");
    }
    out.lend(|out| append_shifted(out, mantissa, shift));
}

/// Appends `mantissa / 2^shift`. Returns the new length.
#[inline(never)]
fn append_shifted(mut out: Short<'_>, mantissa: u64, shift: u32) -> usize {
    let whole = mantissa.checked_shr(shift).unwrap_or(0);
    digits::append_u64(&mut out, whole);
    let fraction = mantissa & !u64::MAX.checked_shl(shift).unwrap_or(0);
    if fraction != 0 {
        let digits = (shift.wrapping_mul(1233) >> 12).wrapping_add(1);
        let (five, ten) = POWERS.get(digits as usize).copied().unwrap_or((0, 0));
        append_digits(
            &mut out,
            shortest_fraction(fraction, five, shift.wrapping_sub(digits)),
            digits,
            ten,
        );
    }
    out.length()
}

/// Returns `fraction * five / 2^shift` as the shortest decimal that reads back; see [`append_positional`]. Nothing
/// wraps: the shift is 2 to 46, the quotient is below 10^17, and the compared values are below 2^51.
#[inline(always)]
fn shortest_fraction(fraction: u64, five: u64, shift: u32) -> u64 {
    let (high, low) = multiply(fraction, five);
    let (quotient, rest) = (
        high.wrapping_shl(64_u32.wrapping_sub(shift)) | low.wrapping_shr(shift),
        low & !u64::MAX.wrapping_shl(shift),
    );
    let last_digit = remainder_of_ten(quotient);
    let to_lower = last_digit.wrapping_shl(shift) | rest;
    let to_upper = 10_u64.wrapping_shl(shift).wrapping_sub(to_lower);
    let lower = quotient.wrapping_sub(last_digit);
    if to_lower << 1 < five {
        lower
    } else if to_upper << 1 < five {
        lower.wrapping_add(10)
    } else {
        // Rounds to the nearest decimal, or to the even one of two.
        let above_half = (rest << 1) | (quotient & 1) > 1_u64.wrapping_shl(shift);
        quotient.wrapping_add(u64::from(above_half))
    }
}

/// Appends `.` and `number` with that many digits, without the trailing zeros. `ten` is 10^(16 - digits), or for more
/// than 16 digits 10^(digits - 16).
#[inline(always)]
fn append_digits(out: &mut Short<'_>, number: u64, digits: u32, ten: u64) {
    out.put(b".");
    let sixteen = if digits <= 16 {
        number.wrapping_mul(ten)
    } else {
        let head = (number / 10_000_000_000_000_000) as u32;
        let unused = 20_u32.saturating_sub(digits);
        let text = u32::from_le_bytes(digits::four(head)).wrapping_shr(8 * unused);
        out.put_block(&text.to_le_bytes(), 4_u32.wrapping_sub(unused) as usize);
        number % 10_000_000_000_000_000
    };
    digits::append_sixteen_without_trailing_zeros(out, sixteen);
}

/// (5^d, 10^|16 - d|) for d digits after the point.
#[expect(
    clippy::indexing_slicing,
    reason = "the compiler evaluates it: an index out of bounds does not build"
)]
const POWERS: [(u64, u64); 21] = {
    let mut powers = [(1, 0); 21];
    let mut d = 0;
    while d < powers.len() {
        powers[d] = (5_u64.pow(d as u32), 10_u64.pow(16_u32.abs_diff(d as u32)));
        d += 1;
    }
    powers
};

/// Returns the 128-bit product, high and low half. It is computed by hand, because wasm calls a function for `u128`.
/// `a` is below 2^53 and `b` below 2^47.
#[inline(always)]
fn multiply(a: u64, b: u64) -> (u64, u64) {
    const LOW: u64 = 0xffff_ffff;
    let (a1, a0, b1, b0) = (a >> 32, a & LOW, b >> 32, b & LOW);
    let low = a0.wrapping_mul(b0);
    let middle = a1
        .wrapping_mul(b0)
        .wrapping_add(a0.wrapping_mul(b1))
        .wrapping_add(low >> 32);
    (
        a1.wrapping_mul(b1).wrapping_add(middle >> 32),
        (middle << 32) | (low & LOW),
    )
}

/// Returns `number % 10` in 32-bit steps: 2^32 leaves 6.
#[inline(always)]
fn remainder_of_ten(number: u64) -> u64 {
    let (high, low) = ((number >> 32) as u32, number as u32);
    u64::from((6 * (high % 10) + low % 10) % 10)
}

/// Appends zero, numbers that are not finite, and all numbers that take an exponent.
#[cold]
#[inline(never)]
fn append_rare(mut out: Short<'_>, number: f64, is_float4: bool) -> usize {
    if number.is_nan() {
        out.put(b"\"NaN\"");
    } else if number == f64::INFINITY {
        out.put(b"\"Infinity\"");
    } else if number == f64::NEG_INFINITY {
        out.put(b"\"-Infinity\"");
    } else {
        if number.is_sign_negative() {
            out.put(b"-");
        }
        if number == 0.0 {
            out.put(b"0");
        } else {
            let mut buffer = zmij::Buffer::new();
            let decimal = if is_float4 {
                // Exact: the number was a float4.
                let number = number as f32;
                let decimal = Decimal::parse(buffer.format_finite(number).as_bytes());
                decimal.off_boundary(number.to_bits().into(), &FLOAT4)
            } else {
                let decimal = Decimal::parse(buffer.format_finite(number).as_bytes());
                decimal.off_boundary(number.to_bits(), &FLOAT8)
            };
            decimal.append_exponent_form(&mut out);
        }
    }
    out.length()
}

/// significand * 10^exponent; the significand has no trailing zeros.
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
                // At most 17 digits, or 16 and a trailing `0`: below 2^64.
                b'0'..=b'9' => {
                    let digit = u64::from(byte & 0x0f);
                    decimal.significand = decimal.significand.wrapping_mul(10).wrapping_add(digit);
                    decimal.exponent = decimal.exponent.wrapping_sub(i32::from(in_fraction));
                }
                b'.' => in_fraction = true,
                b'e' => break,
                _ => {}
            }
        }
        let negative = bytes.as_slice().first() == Some(&b'-');
        // At most three digits.
        let exponent = bytes
            .filter(|byte| byte.is_ascii_digit())
            .fold(0_i32, |sum, byte| {
                sum.wrapping_mul(10).wrapping_add(i32::from(byte & 0x0f))
            });
        decimal.exponent = if negative {
            decimal.exponent.wrapping_sub(exponent)
        } else {
            decimal.exponent.wrapping_add(exponent)
        };
        while decimal.significand.is_multiple_of(10) && decimal.significand != 0 {
            decimal.significand /= 10;
            decimal.exponent = decimal.exponent.wrapping_add(1);
        }
        decimal
    }

    /// Returns the same number. If it lies exactly halfway between two floats, returns instead the shortest decimal
    /// that does not, and the nearest of these.
    ///
    /// ```text
    /// v = m * 2^e;  the boundaries are (2m +- 1) * 2^(e-1);  the decimal is s * 10^k = s * 5^k * 2^k
    /// ```
    /// They are equal only if 5^k divides 2m +- 1 (so 0 <= k <= 23) and s is the quotient shifted left. A decimal with
    /// k < 0 would need 17 digits, and then a neighbour inside the interval has no more digits.
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
            odd.is_multiple_of(fives)
                && self.significand.trailing_zeros() >= shift
                && self.significand.wrapping_shr(shift) == odd / fives
        };
        let above = is_boundary((mantissa << 1).wrapping_add(1));
        if !above && !is_boundary((mantissa << 1).wrapping_sub(1)) {
            return self;
        }
        // v is half a unit in the last place away, towards the inside of the interval. In units of 10^(k - j), the
        // whole step that is nearest to this distance ends inside the interval as soon as it is not zero.
        let (mut step, mut decimal) =
            (power(2.0, half_exponent) / power(10.0, self.exponent), self);
        loop {
            step *= 10.0;
            decimal.significand = decimal.significand.wrapping_mul(10);
            decimal.exponent = decimal.exponent.wrapping_sub(1);
            // At most 10 * 2^52, so exact; the significand stays below 10^18.
            let whole = (step + 0.5) as u64;
            if step > 0.5 && whole > 0 {
                decimal.significand = if above {
                    decimal.significand.wrapping_sub(whole)
                } else {
                    decimal.significand.wrapping_add(whole)
                };
                return decimal;
            }
        }
    }

    /// `1e+23`, `1.5e-07`.
    fn append_exponent_form(&self, out: &mut Short<'_>) {
        // Moves all digits after the first to the right by one, which makes room for the point.
        let start = out.length();
        digits::append_u64(out, self.significand);
        let count = out.length() - start;
        if count > 1 {
            out.put(b"0");
            let text = out.written_since(start + 1);
            text.copy_within(..count - 1, 1);
            if let [first, ..] = text {
                *first = b'.';
            }
        }
        let exponent = self.exponent + count as i32 - 1;
        out.put(if exponent < 0 { b"e-" } else { b"e+" });
        if exponent.abs() < 10 {
            out.put(b"0");
        }
        digits::append_u32(out, exponent.unsigned_abs());
    }
}

/// Returns `base` to a small power; `core` has no `powi`.
fn power(base: f64, exponent: i32) -> f64 {
    (0..exponent).fold(1.0, |product, _| product * base)
}

#[cfg(test)]
mod tests;
