//! Integers, numeric and floats.

use super::all_refused;
use crate::types::oid::{FLOAT4, FLOAT8, INT2, INT4, INT8, NUMERIC, OID};
use crate::types::tests::text_json;
use crate::types::{AsStrings, Encoder};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Asserts that every text passes unchanged.
fn all_read(type_oid: u32, texts: &[&str]) {
    for text in texts {
        assert_eq!(text_json(type_oid, text), *text);
    }
}

const NO_INTEGERS: &[&str] = &[
    "",
    "-",
    "-0",
    "00",
    "01",
    "-01",
    "+1",
    "1.0",
    "1e5",
    "NaN",
    " 1",
    "1 ",
    "1-",
    "--1",
    "0x1",
    "1_000",
    "\"1\"",
    "99999999999999999999",
    "18446744073709551617",
];

#[test]
fn integers_are_within_their_range() {
    all_read(INT2, &["0", "-32768", "32767"]);
    all_refused(INT2, &["-32769", "32768", "65536"]);
    all_read(INT4, &["0", "-2147483648", "2147483647"]);
    all_refused(INT4, &["-2147483649", "2147483648", "4294967296"]);
    all_read(INT8, &["0", "-9223372036854775808", "9223372036854775807"]);
    all_refused(INT8, &["-9223372036854775809", "9223372036854775808"]);
    all_read(OID, &["0", "4294967295"]);
    all_refused(OID, &["-1", "4294967296"]);
    for type_oid in [INT2, INT4, INT8, OID] {
        all_refused(type_oid, NO_INTEGERS);
    }
}

const NO_NUMBERS: &[&str] = &[
    "",
    "-",
    ".5",
    "5.",
    "-.5",
    "01",
    "00.5",
    "1e",
    "1e+",
    "+1",
    "1 ",
    " 1",
    "0x1",
    "--1",
    "1.5.2",
    "1,5",
    "inf",
    "nan",
    "-NaN",
    "infinity",
    "+Infinity",
    "Infinity ",
    "1é",
];

#[test]
fn numerics() {
    all_read(
        NUMERIC,
        &["0", "0.00", "10", "-1.50", "100000000000000000000", "-0.01"],
    );
    for text in ["NaN", "Infinity", "-Infinity"] {
        assert_eq!(text_json(NUMERIC, text), format!("\"{text}\""));
    }
    all_refused(NUMERIC, NO_NUMBERS);
}

/// The result is the same as from binary.
#[test]
fn numerics_lose_their_exponent() {
    for (text, expected) in [
        ("1E+4", "10000"),
        ("-1.5e3", "-1500"),
        ("1.2345E+2", "123.45"),
        ("1.23E+2", "123"),
        ("1E+0", "1"),
        ("1E-1", "0.1"),
        ("-12.5E-4", "-0.00125"),
        ("123E-2", "1.23"),
        ("123E-3", "0.123"),
        ("0E-3", "0.000"),
        ("0E+3", "0"),
        ("0.5E+1", "5"),
        ("0.05E+1", "0.5"),
        ("0.005E+1", "0.05"),
        ("10E-1", "1.0"),
    ] {
        assert_eq!(text_json(NUMERIC, text), expected, "{text}");
    }
    all_refused(
        NUMERIC,
        &[
            "1E+131072",
            "0E+4294967295",
            "1E-16384",
            "0.1E-16383",
            "1E-4294967295",
            "1E+4294967296",
        ],
    );
}

/// The maximum number of digits of a numeric.
#[test]
fn numerics_end() {
    let zeros = |count| "0".repeat(count);
    let longest = format!("1{}.{}", zeros(131_071), zeros(16_383));
    all_read(NUMERIC, &[&longest]);
    assert_eq!(
        text_json(NUMERIC, "1E+131071"),
        format!("1{}", zeros(131_071))
    );
    assert_eq!(
        text_json(NUMERIC, "1E-16383"),
        format!("0.{}1", zeros(16_382))
    );
    all_refused(
        NUMERIC,
        &[
            &format!("1{}", zeros(131_072)),
            &format!("0.{}", zeros(16_384)),
        ],
    );
}

#[test]
fn floats_are_json_but_for_the_special_ones() {
    for type_oid in [FLOAT4, FLOAT8] {
        all_read(
            type_oid,
            &[
                "0",
                "-0",
                "0.1",
                "-1.5e-07",
                "1e+21",
                "1E+05",
                "1e5",
                "100000000000000000000",
                "0e+00",
            ],
        );
        for text in ["NaN", "Infinity", "-Infinity"] {
            assert_eq!(text_json(type_oid, text), format!("\"{text}\""));
        }
        all_refused(type_oid, NO_NUMBERS);
        all_refused(
            type_oid,
            &["1e1.5", "1e--5", "1e+5x", "1e99999999999", "1x", "1.5x"],
        );
    }
}

/// JavaScript would turn the refused ones into infinity or zero.
#[test]
fn floats_have_a_magnitude_that_their_type_has() {
    all_read(
        FLOAT8,
        &[
            "1.7976931348623157e+308",
            // Under extra_float_digits of 0 and of -15.
            "1.79769313486232e+308",
            "2e+308",
            "5e-324",
            "0.05e-322",
            "12345e+304",
            "0.000e+999",
        ],
    );
    all_refused(
        FLOAT8,
        &[
            "1e+309",
            "-1e+309",
            "10e+308",
            "3e+308",
            "0.003e+311",
            "3e-324",
            "9e-325",
            "0.5e-324",
            "0.00001e-320",
            "1e+4294967295",
            "1e-4294967296",
        ],
    );
    all_read(
        FLOAT4,
        &[
            "3.4028235e+38",
            "1e-45",
            "100000000000000000000000000000000000000",
            "3.40282e+38",
        ],
    );
    all_refused(
        FLOAT4,
        &[
            "1e+39",
            "9e-46",
            "1e+308",
            "1000000000000000000000000000000000000000",
            "4e+38",
            "0.9e-45",
        ],
    );
}

#[test]
fn quoted_numbers_are_checked_too() {
    let quoted = |type_oid, text: &str| {
        let mut out = Vec::new();
        let encoder = Encoder::new(type_oid, 0, AsStrings::ALL).unwrap();
        encoder.encode(text.as_bytes(), &mut out).ok()?;
        String::from_utf8(out).ok()
    };
    assert_eq!(quoted(INT8, "-7").as_deref(), Some("\"-7\""));
    assert_eq!(quoted(NUMERIC, "NaN").as_deref(), Some("\"NaN\""));
    assert_eq!(quoted(INT8, "9223372036854775808"), None);
    assert_eq!(quoted(NUMERIC, "-0.50").as_deref(), Some("\"-0.50\""));
    assert_eq!(quoted(NUMERIC, "1E+2").as_deref(), Some("\"100\""));
    assert_eq!(quoted(NUMERIC, "1x"), None);
}
