//! Text in, JSON out: what nobody writes by accident. That the server's own text gives what its binary form gives is
//! the business of tests/oracle.rs.

use crate::types::oid::{DATE, INTERVAL, TIMESTAMP, TIMESTAMPTZ};
use crate::types::tests::{text_json, text_refused};
use crate::types::{Encoder, InvalidValue, Strings, Types, oid};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Every text becomes the JSON beside it, a string.
fn strings(type_oid: u32, pairs: &[(&str, &str)]) {
    for (text, expected) in pairs {
        assert_eq!(
            text_json(type_oid, text),
            format!("\"{expected}\""),
            "{text}"
        );
    }
}

fn all_refused(type_oid: u32, texts: &[&str]) {
    for text in texts {
        text_refused(type_oid, text);
    }
}

#[test]
fn dates() {
    strings(
        DATE,
        &[
            ("2024-02-29", "2024-02-29"),
            ("2000-02-29", "2000-02-29"),
            ("0044-03-15 BC", "0044-03-15 BC"),
            ("0001-02-29 BC", "0001-02-29 BC"),
            ("4714-11-24 BC", "4714-11-24 BC"),
            ("10000-01-01", "10000-01-01"),
            ("5874897-12-31", "5874897-12-31"),
            ("infinity", "infinity"),
            ("-infinity", "-infinity"),
        ],
    );
    all_refused(
        DATE,
        &[
            // DateStyle SQL, German, Postgres.
            "01/02/2024",
            "01.02.2024",
            "01-02-2024",
            "2024-02-30",
            "2023-02-29",
            "1900-02-29",
            "2024-00-01",
            "2024-13-01",
            "2024-01-00",
            "2024-1-01",
            "0000-01-01",
            "24-01-01",
            "2024-01-01 ",
            "2024-01-01 AD",
            " 2024-01-01",
            "-2024-01-01",
            "4714-11-23 BC",
            "5874898-06-03",
            // As many days as stand for infinity.
            "5881580-07-11",
            "9999999999-01-01",
            "99999999999-01-01",
            "",
            "today",
        ],
    );
}

#[test]
fn timestamps() {
    strings(
        TIMESTAMP,
        &[
            ("2024-01-02 03:04:05", "2024-01-02T03:04:05"),
            ("2024-01-02 03:04:05.1", "2024-01-02T03:04:05.1"),
            ("2024-01-02 03:04:05.100000", "2024-01-02T03:04:05.1"),
            ("1999-12-31 23:59:59.999999", "1999-12-31T23:59:59.999999"),
            ("0044-03-15 12:00:00 BC", "0044-03-15T12:00:00 BC"),
            (
                "294276-12-31 23:59:59.999999",
                "294276-12-31T23:59:59.999999",
            ),
            ("4714-11-24 00:00:00 BC", "4714-11-24T00:00:00 BC"),
            ("infinity", "infinity"),
        ],
    );
    all_refused(
        TIMESTAMP,
        &[
            "Thu Feb 01 03:04:05 2024",
            "01/02/2024 03:04:05",
            "2024-01-02",
            "2024-01-02T03:04:05",
            "2024-01-02 24:00:00",
            "2024-01-02 03:60:05",
            "2024-01-02 03:04:60",
            "2024-01-02 03:04",
            "2024-01-02 03:04:05.",
            "2024-01-02 03:04:05.1234567",
            "2024-01-02 03:04:05+00",
            "2024-01-02 03:04:05 BC ",
            "294277-01-01 00:00:00",
            // As many microseconds as stand for infinity, and more.
            "294277-01-09 04:00:54.775807",
            "9999999999-01-01 00:00:00",
        ],
    );
}

#[test]
fn moments_come_in_utc() {
    strings(
        TIMESTAMPTZ,
        &[
            ("2024-01-02 03:04:05+00", "2024-01-02T03:04:05+00:00"),
            ("2024-01-02 03:04:05.5+02", "2024-01-02T01:04:05.5+00:00"),
            ("2024-01-01 00:00:00+05:30", "2023-12-31T18:30:00+00:00"),
            ("2024-01-01 22:00:00-03:30", "2024-01-02T01:30:00+00:00"),
            ("1900-01-01 00:19:32+00:19:32", "1900-01-01T00:00:00+00:00"),
            ("1900-01-01 00:00:00-00:00:01", "1900-01-01T00:00:01+00:00"),
            ("0001-01-01 01:00:00+02", "0001-12-31T23:00:00+00:00 BC"),
            ("0044-03-15 12:00:00+01 BC", "0044-03-15T11:00:00+00:00 BC"),
            ("10000-01-01 00:00:00+14", "9999-12-31T10:00:00+00:00"),
            ("-infinity", "-infinity"),
        ],
    );
    all_refused(
        TIMESTAMPTZ,
        &[
            "2024-01-02 03:04:05",
            "2024-01-02 03:04:05 UTC",
            "2024-01-02 03:04:05Z",
            "2024-01-02 03:04:05+2",
            "2024-01-02 03:04:05+02:3",
            "2024-01-02 03:04:05+02:30:15:00",
            "4714-11-24 00:00:00+01 BC",
        ],
    );
}

#[test]
fn intervals_of_both_styles() {
    for (postgres, iso) in [
        ("1 year 2 mons -3 days +04:05:06.789", "P1Y2M-3DT4H5M6.789S"),
        (
            "-1 years -2 mons +3 days -04:05:06.7",
            "P-1Y-2M3DT-4H-5M-6.7S",
        ),
        ("00:00:00", "PT0S"),
        ("-00:00:00.5", "PT-0.5S"),
        ("-00:00:00.000001", "PT-0.000001S"),
        ("1 day -01:00:00", "P1DT-1H"),
        ("1 mon", "P1M"),
        ("00:01:00", "PT1M"),
        ("100:00:00", "PT100H"),
        ("24:00:00", "PT24H"),
        ("-178956970 years -8 mons", "P-178956970Y-8M"),
        ("-2147483648 days", "P-2147483648D"),
        ("2562047788:00:54.775807", "PT2562047788H54.775807S"),
        ("-2562047788:00:54.775808", "PT-2562047788H-54.775808S"),
        ("infinity", "infinity"),
        ("-infinity", "-infinity"),
    ] {
        strings(INTERVAL, &[(postgres, iso), (iso, iso)]);
    }
    all_refused(
        INTERVAL,
        &[
            // IntervalStyle postgres_verbose and sql_standard.
            "@ 1 year 2 mons",
            "@ 0",
            "@ 1 day ago",
            "0",
            "1-2",
            "+1-2 -3 +4:05:06",
            "3 4:05:06",
            "1 day 1 year",
            "1 day 1 day",
            "1 day ",
            "1 week",
            "1 daylight",
            "01:00:00 1 day",
            "01:60:00",
            "01:00",
            "2147483648 days",
            "178956970 years 8 mons",
            "2562047788:00:54.775808",
            "9999999999:00:00",
            "-P1Y",
            "",
        ],
    );
}

#[test]
fn arrays() {
    for (type_oid, text, expected) in [
        (oid::INT4_ARRAY, "{}", "[]"),
        (oid::INT4_ARRAY, "{1,NULL,-3}", "[1,null,-3]"),
        (oid::INT4_ARRAY, "{{1,2},{3,4}}", "[[1,2],[3,4]]"),
        (oid::INT4_ARRAY, "[2:3]={7,8}", "[7,8]"),
        (oid::INT4_ARRAY, "[-3:-2][0:0]={{7},{8}}", "[[7],[8]]"),
        (oid::INT4_ARRAY, "{{{{{{1},{2}}}}}}", "[[[[[[1],[2]]]]]]"),
        (
            oid::TEXT_ARRAY,
            "{\"\",\"NULL\",NULL,null,\"a,b\",\"{}\",\"q\\\"\",\"\\\\\",\"}\",ünï}",
            "[\"\",\"NULL\",null,\"null\",\"a,b\",\"{}\",\"q\\\"\",\"\\\\\",\"}\",\"ünï\"]",
        ),
        (oid::BOOL_ARRAY, "{t,f}", "[true,false]"),
        (
            oid::BYTEA_ARRAY,
            "{\"\\\\x00ff\",\"a\\\\\\\\\\\\000\"}",
            "[\"\\\\x00ff\",\"\\\\x615c00\"]",
        ),
        (
            oid::FLOAT8_ARRAY,
            "{-0,NaN,-Infinity,1e+20}",
            "[-0,\"NaN\",\"-Infinity\",1e+20]",
        ),
        (oid::JSONB_ARRAY, "{\"{\\\"a\\\": 1}\"}", "[{\"a\": 1}]"),
        (1020, "{(3,4),(1,2);NULL}", "[\"(3,4),(1,2)\",null]"),
        (oid::INT2VECTOR, "1 -2 3", "[1,-2,3]"),
        (oid::OIDVECTOR, "", "[]"),
        (1006, "{\"1 2\",\"\"}", "[[1,2],[]]"),
    ] {
        assert_eq!(text_json(type_oid, text), expected);
    }
    all_refused(
        oid::INT4_ARRAY,
        &[
            "",
            "1",
            "{",
            "}",
            "{1",
            "{1}}",
            "{1} ",
            "{1,}",
            "{,}",
            "{1,{2}}",
            "{{1},2}",
            "{{},{}}",
            "{{1}{2}}",
            "{1;2}",
            "{a}",
            "{\"1}",
            "{1\\",
            "[1:2]",
            "[1:1]{1}",
            "{{{{{{{1}}}}}}}",
            "1 2",
        ],
    );
    text_refused(oid::INT4_ARRAY, &"{".repeat(100_000));
    all_refused(oid::INT2VECTOR, &["1  2", " 1", "1 ", "a"]);
}

#[test]
fn ranges() {
    strings(
        3904,
        &[("[1,10)", "[1,10)"), ("empty", "empty"), ("(,)", "(,)")],
    );
    strings(
        3910,
        &[
            (
                "[\\\"2024-01-01 05:30:00+05:30\\\",)"
                    .replace("\\\"", "\"")
                    .as_str(),
                "[\\\"2024-01-01 00:00:00+00\\\",)",
            ),
            ("(-infinity,infinity]", "(-infinity,infinity]"),
        ],
    );
    strings(3912, &[("[2024-01-01,)", "[2024-01-01,)")]);
    strings(
        4451,
        &[
            ("{}", "{}"),
            ("{[1,3),[5,9)}", "{[1,3),[5,9)}"),
            ("{(,)}", "{(,)}"),
        ],
    );
    all_refused(
        3912,
        &[
            "[",
            "[2024-01-01",
            "[2024-01-01,",
            "[2024-01-01,)1",
            "[01/02/2024,)",
            "{2024-01-01,)",
            "[2024-01-01)",
            "EMPTY",
        ],
    );
    all_refused(4451, &["{[1,3", "{[1,x)}", "{[1,3)};"]);
}

#[test]
fn hstores() {
    for (text, expected) in [
        ("", "{}"),
        ("\"a\"=>\"1\", \"b\"=>NULL", "{\"a\": \"1\", \"b\": null}"),
        (
            "\"\"=>\"NULL\", \"=>\"=>\"a\\\"b\\\\, \"",
            "{\"\": \"NULL\", \"=>\": \"a\\\"b\\\\, \"}",
        ),
    ] {
        assert_eq!(text_json(oid::HSTORE, text), expected);
    }
    all_refused(
        oid::HSTORE,
        &[
            "\"a\"",
            "\"a\"=>",
            "a=>\"1\"",
            "\"a\"=>1",
            "\"a\"=>\"1",
            "\"a\"=>\"1\\\"",
            "\"a\"=>\"1\",",
            "\"a\"=>\"1\", ",
            "\"a\"=>\"1\" ",
            "NULL=>\"1\"",
        ],
    );
}

/// 20000 a domain over int8, 20001 an enum, 20002 their composite, 20003 an array of that, 20004 a range of text, 20005
/// its multirange, 20006 a range of bytea, 20007 one of interval, 20008 a composite of one attribute, 20009 of none,
/// 20010 one with a type that nobody knows, 20011 an array of domains over an array, 20012 that domain, 20013 a composite of
/// json.
#[rustfmt::skip]
fn types() -> Types {
    Types::new(
        &[20000, 0, 20, 0, 20001, 0, 25, 0, 20002, 4, 2, 0, 20003, 1, 20002, 0, 20004, 2, 25, 0, 20005, 3, 20004, 0, 20006, 2, 17, 0,
          20007, 2, 1186, 0, 20008, 4, 1, 2, 20009, 4, 0, 0, 20010, 4, 1, 3, 20011, 1, 20012, 0, 20012, 0, 1007, 0, 20013, 4, 1, 4],
        &[20000, 0, 2, 20001, 2, 3, 20003, 0, 1, 30000, 0, 1, 114, 0, 1],
        "idm",
    )
}

fn read(type_oid: u32, text: &str) -> Result<String, InvalidValue> {
    let mut out = Vec::new();
    let encoder = Encoder::with_types(type_oid, 0, Strings::ALL, &types()).unwrap();
    encoder.encode(text.as_bytes(), &mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

#[test]
fn types_of_a_database() {
    for (type_oid, text, expected) in [
        (20000, "7", "\"7\""),
        (20001, "sad \"", "\"sad \\\"\""),
        (20002, "(5,x)", "{\"id\":\"5\",\"m\":\"x\"}"),
        (20002, "(,)", "{\"id\":null,\"m\":null}"),
        (20002, "(,\"\")", "{\"id\":null,\"m\":\"\"}"),
        (
            20002,
            "(5,\"a \"\"b\\\\,)(\")",
            "{\"id\":\"5\",\"m\":\"a \\\"b\\\\,)(\"}",
        ),
        (20002, "(5,NULL)", "{\"id\":\"5\",\"m\":\"NULL\"}"),
        (
            20003,
            "{\"(5,\\\"a \\\"\\\"b\\\\\\\\,\\\")\",NULL}",
            "[{\"id\":\"5\",\"m\":\"a \\\"b\\\\,\"},null]",
        ),
        (
            20008,
            "(\"{\"\"(5,\\\\\"\"\\\\\"\"\\\\\"\"\\\\\"\")\"\"}\")",
            "{\"i\":[{\"id\":\"5\",\"m\":\"\\\"\"}]}",
        ),
        (20008, "()", "{\"i\":null}"),
        (20009, "()", "{}"),
        (
            20004,
            "[\"a b\",\"c\"\"\\\\\")",
            "\"[\\\"a b\\\",\\\"c\\\"\\\"\\\\\\\\\\\")\"",
        ),
        (20004, "[\"\",a)", "\"[\\\"\\\",a)\""),
        (20005, "{[a,b),(c,)}", "\"{[a,b),(c,)}\""),
        (20006, "[\"\\\\\\\\\",)", "\"[\\\"\\\\\\\\x5c\\\",)\""),
        (20007, "[\"1 day\",01:00:00)", "\"[P1D,PT1H)\""),
        // What is not known stays the text.
        (20010, "(1)", "\"(1)\""),
        (30000, "{1}", "\"{1}\""),
        (20011, "{\"{1,2}\",\"{}\",NULL}", "[[1,2],[],null]"),
        (20013, "(\"[1,\n2]\")", "{\"i\":[1,2]}"),
        (oid::RECORD, "(1,a)", "\"(1,a)\""),
        (2287, "{\"(1,a)\"}", "\"{\\\"(1,a)\\\"}\""),
    ] {
        assert_eq!(read(type_oid, text).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn another_composite_than_the_catalog_said_is_unknown() {
    for (type_oid, text) in [
        (20002, "(5)"),
        (20002, "(5,x,)"),
        (20002, "()"),
        (20008, "(,)"),
        (20009, "(1)"),
        (20003, "{\"(5)\"}"),
    ] {
        let error = read(type_oid, text).unwrap_err();
        assert!(error.is_unknown_type(), "{text}");
        assert_eq!(
            error.type_oid,
            if type_oid == 20003 { 20002 } else { type_oid }
        );
    }
    for text in ["", "5,x", "(5,x", "(5,x)y", "(x,5)", "(5,\"x)", "(5,x\\"] {
        let error = read(20002, text).unwrap_err();
        assert!(!error.is_unknown_type(), "{text}");
        assert_eq!(error.type_oid, 20002);
    }
}

#[test]
fn json_in_an_array_is_text_where_the_caller_says_so() {
    let strings = Strings {
        json: true,
        ..Strings::NONE
    };
    for (type_oid, text, expected) in [
        (
            oid::JSON_ARRAY,
            "{\"{\\\"a\\\":\n1}\",NULL}",
            "[\"{\\\"a\\\":\\n1}\",null]",
        ),
        (20013, "(1)", "{\"i\":1}"),
    ] {
        let mut out = Vec::new();
        let encoder = Encoder::with_types(type_oid, 0, strings, &types()).unwrap();
        encoder.encode(text.as_bytes(), &mut out).unwrap();
        assert_eq!(str::from_utf8(&out), Ok(expected));
    }
}

/// As deep as the same value may be in binary.
#[test]
fn nesting_ends_at_a_bound() {
    // 20000 to 20199: composites, each of an array of the next; the last of int4.
    let (mut types, mut attributes) = (Vec::new(), Vec::new());
    for index in 0..20 {
        let composite = 20000 + 2 * index;
        types.extend([composite, 4, 1, index]);
        types.extend([composite + 1, 1, composite + 2, 0]);
        attributes.extend([composite + 1, 0, 0]);
    }
    types.extend([20040, 0, 23, 0]);
    let types = Types::new(&types, &attributes, "");
    let encoder = |type_oid| Encoder::with_types(type_oid, 0, Strings::NONE, &types).unwrap();
    // Too many for a description: it is not read at all.
    let mut out = Vec::new();
    encoder(20000).encode(b"(\"{}\")", &mut out).unwrap();
    assert_eq!(out, b"\"(\\\"{}\\\")\"");
    let mut out = Vec::new();
    encoder(20030)
        .encode(b"(\"{\"\"({})\"\"}\")", &mut out)
        .unwrap();
    assert_eq!(out, b"{\"\":[{\"\":[]}]}");
}

#[test]
fn what_is_not_read_can_be_kept() {
    let kept = |type_oid, text: &str| {
        let mut out = Vec::from(*b"before");
        let mut encoder = Encoder::with_types(type_oid, 0, Strings::ALL, &types()).unwrap();
        encoder.keep_unread();
        encoder.encode(text.as_bytes(), &mut out)?;
        Ok(String::from_utf8(out.split_off(6)).unwrap())
    };
    for (type_oid, text, expected) in [
        (DATE, "2024-01-01", "\"2024-01-01\""),
        (DATE, "01/02/2024", "\"01/02/2024\""),
        (
            oid::DATE_ARRAY,
            "{2024-01-01,01.02.2024}",
            "\"{2024-01-01,01.02.2024}\"",
        ),
        (INTERVAL, "@ 1 day", "\"@ 1 day\""),
        (oid::BYTEA_ARRAY, "{\"\\\\x0\"}", "\"{\\\"\\\\\\\\x0\\\"}\""),
        (20002, "(5)", "\"(5)\""),
        (
            20003,
            "{\"(5,x)\",\"(x,5)\"}",
            "\"{\\\"(5,x)\\\",\\\"(x,5)\\\"}\"",
        ),
        (20000, "7", "\"7\""),
    ] {
        assert_eq!(kept(type_oid, text).as_deref(), Ok(expected));
    }
    for type_oid in [
        oid::BOOL,
        oid::INT4,
        oid::FLOAT8,
        oid::NUMERIC,
        20000,
        oid::BYTEA,
    ] {
        assert_eq!(
            kept(type_oid, "\\").map_err(|error: InvalidValue| error.type_oid),
            Err(type_oid)
        );
    }
    // Bytes are no text.
    let mut encoder = Encoder::with_types(20002, 1, Strings::NONE, &types()).unwrap();
    encoder.keep_unread();
    assert!(encoder.encode(b"(5)", &mut Vec::new()).is_err());
}
