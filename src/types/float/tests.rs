//! Floats as the server writes them, read back, and every float4 against the server's rule.

use super::*;
use crate::types::oid::{FLOAT4, FLOAT8};
use crate::types::tests::{json, refused, text_json, text_refused};
use alloc::format;
use alloc::string::String;

fn float8(number: f64) -> String {
    json(FLOAT8, number.to_be_bytes())
}

#[test]
fn the_server_s_style() {
    for (number, expected) in [
        (0.0, "0"),
        (-0.0, "-0"),
        (1.5, "1.5"),
        (-0.1, "-0.1"),
        (100_000.0, "100000"),
        (33333.333333333336, "33333.333333333336"),
        (0.0001, "0.0001"),
        (0.00012345, "0.00012345"),
        (0.00001, "1e-05"),
        (999_999_999_999_999.0, "999999999999999"),
        (1e15, "1e+15"),
        (1_234_567_890_123_456.0, "1.234567890123456e+15"),
        (5e-324, "5e-324"),
        (f64::MAX, "1.7976931348623157e+308"),
        (f64::NAN, "\"NaN\""),
        (f64::INFINITY, "\"Infinity\""),
        (f64::NEG_INFINITY, "\"-Infinity\""),
    ] {
        assert_eq!(float8(number), expected);
    }
    assert_eq!(json(FLOAT4, 1e6_f32.to_be_bytes()), "1e+06");
    assert_eq!(json(FLOAT4, 999_999.0_f32.to_be_bytes()), "999999");
    assert_eq!(json(FLOAT4, 0.1_f32.to_be_bytes()), "0.1");
    assert_eq!(json(FLOAT4, f32::NAN.to_be_bytes()), "\"NaN\"");
}

#[test]
fn a_decimal_halfway_between_two_floats_stands_for_neither() {
    assert_eq!(float8(1e23), "9.999999999999999e+22");
    assert_eq!(json(FLOAT4, 8.5e9_f32.to_be_bytes()), "8.4999997e+09");
}

#[test]
fn every_product_and_quotient_of_the_positional_form_is_exact() {
    for shift in 3..=66_u32 {
        let digits = ((shift * 1233) >> 12) + 1;
        // 10^-digits <= 2^-shift < 10^-(digits - 1)
        assert!(10_u128.pow(digits) >= 1 << shift && 10_u128.pow(digits - 1) < 1 << shift);
        assert!(POWERS[digits as usize].0 < 1 << 47);
    }
    for (a, b) in [
        ((1 << 53) - 1, (1 << 47) - 1),
        (0x0012_3456_789a_bcde, 95_367_431_640_625),
        (1, 0),
        (u64::from(u32::MAX), 1 << 32),
    ] {
        let (high, low) = multiply(a, b);
        assert_eq!(
            (u128::from(high) << 64) | u128::from(low),
            u128::from(a) * u128::from(b)
        );
    }
    for number in [
        0,
        9,
        10,
        4_294_967_295,
        4_294_967_296,
        99_999_999_999_999_999,
        u64::MAX >> 1,
    ] {
        assert_eq!(remainder_of_ten(number), number % 10);
    }
}

proptest::proptest! {
    #[test]
    fn reads_back_as_the_same_number(bits in proptest::prelude::any::<u64>(), small in -1e15..1e15_f64) {
        for number in [f64::from_bits(bits), small, small / 1e13] {
            if number.is_finite() {
                proptest::prop_assert_eq!(float8(number).parse::<f64>().unwrap().to_bits(), number.to_bits());
            }
        }
        let number = f32::from_bits(bits as u32);
        if number.is_finite() {
            let read: f32 = json(FLOAT4, number.to_be_bytes()).parse().unwrap();
            proptest::prop_assert_eq!(read.to_bits(), number.to_bits());
        }
    }

    /// zmij is the referee. It differs for decimals halfway between two floats, and these begin at 2^53.
    #[test]
    fn as_short_as_can_be(number in 1e-4..1e15_f64) {
        let mut buffer = zmij::Buffer::new();
        let expected = buffer.format(number);
        proptest::prop_assert_eq!(float8(number), expected.strip_suffix(".0").unwrap_or(expected));
    }
}

/// The server's rule: the decimal reads back as `number` and does not lie exactly halfway to a neighbour. (A float8 can
/// represent that halfway point exactly. Below 1e6 no decimal of nine digits lies on one.)
fn stands_for(decimal: &str, number: f32) -> bool {
    let value = decimal.parse::<f64>().unwrap();
    let is_halfway = [number.next_down(), number.next_up()]
        .into_iter()
        .any(|neighbour| (f64::from(neighbour) + f64::from(number)) / 2.0 == value);
    decimal.parse() == Ok(number) && !(is_halfway && number >= 1e6)
}

/// Returns the shortest decimal that stands for `number`; of several the nearest, of two equally near the even one.
///
/// `{:e}` finds how many digits the number takes, but it also accepts a decimal halfway to a neighbour, and it rounds
/// up where two are equally near. With a given number of digits it rounds as the server does. Above a power of two, a
/// decimal may read back that is not the nearest of its length: then the first one is used.
fn shortest(number: f32) -> String {
    let first = format!("{number:e}");
    let digits = first.find('e').unwrap();
    let nearest = (digits.saturating_sub(2)..9)
        .map(|places| format!("{number:.places$e}"))
        .find(|decimal| stands_for(decimal, number))
        .unwrap();
    if first.len() < nearest.len() && stands_for(&first, number) {
        first
    } else {
        nearest
    }
}

/// Every 4,099th float4 in exponent form, or all four billion with `FLOAT4_STEP=1 cargo test --release every_float4`.
#[test]
fn every_float4() {
    let step = std::env::var("FLOAT4_STEP").map_or(4099, |step| step.parse().unwrap());
    let infinity = f32::INFINITY.to_bits();
    let edges = [f32::MIN_POSITIVE.to_bits(), infinity - 1];
    for bits in (1..infinity).step_by(step).chain(edges) {
        let number = f32::from_bits(bits);
        if (1e-4..1e6).contains(&number) {
            continue;
        }
        let decimal = shortest(number);
        let (digits, exponent) = decimal.split_once('e').unwrap();
        let exponent: i32 = exponent.parse().unwrap();
        let sign = if exponent < 0 { '-' } else { '+' };
        let expected = format!("{digits}e{sign}{:02}", exponent.abs());
        assert_eq!(json(FLOAT4, number.to_be_bytes()), expected);
    }
}

#[test]
fn another_length_is_refused() {
    refused(FLOAT8, &[0; 4]);
    refused(FLOAT4, &[0; 8]);
    refused(FLOAT4, &[]);
}

#[test]
fn text_form() {
    assert_eq!(text_json(FLOAT8, "1e+15"), "1e+15");
    assert_eq!(text_json(FLOAT8, "-Infinity"), "\"-Infinity\"");
    text_refused(FLOAT8, "abc");
}
