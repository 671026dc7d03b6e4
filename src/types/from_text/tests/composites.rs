//! Composites, hstore, and other types of a database.

use super::{all_refused, read};
use crate::types::tests::text_json;
use crate::types::{AsStrings, Encoder, Types, oid};
use alloc::vec::Vec;

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
        // A value with an unknown type stays text.
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
    for text in [
        "",
        "5,x",
        "(5,x",
        "(5,x)y",
        "(5,x))",
        "((5,x)",
        "(x,5)",
        "(5,\"x)",
        "(5,x\\",
        "(5,x\\\\)",
        "(5,x\"\"y)",
        "(5,\"x\"y)",
        "(5,y\"x\")",
        "(5,\"x\\\"\")",
        "(5,\"\\x\")",
        "(5, x)",
        "(5,x )",
        "(5,x(y)",
        "{5,x}",
    ] {
        let error = read(20002, text).unwrap_err();
        assert!(!error.is_unknown_type(), "{text}");
        assert_eq!(error.type_oid, 20002);
    }
}

/// The bound is the same as for the binary form.
#[test]
fn nesting_ends_at_a_bound() {
    // 20000 to 20039: composites, each made of an array of the next; the last array is of a domain over int4.
    let (mut types, mut attributes) = (Vec::new(), Vec::new());
    for index in 0..20 {
        let composite = 20000 + 2 * index;
        types.extend([composite, 4, 1, index]);
        types.extend([composite + 1, 1, composite + 2, 0]);
        attributes.extend([composite + 1, 0, 0]);
    }
    types.extend([20040, 0, 23, 0]);
    let types = Types::new(&types, &attributes, "");
    let encoder = |type_oid| Encoder::with_types(type_oid, 0, AsStrings::NONE, &types).unwrap();
    // Too many levels for a description: the value is not read.
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
            "\"a\"b\"=>\"1\"",
            "\"a\"\"b\"=>\"1\"",
            "\"\\a\"=>\"1\"",
            "\"a\\\"=>\"1\"",
            "\"a\"=>\"1\"\"b\"=>\"2\"",
            "\"a\"=>\"1\",\"b\"=>\"2\"",
            "\"a\"=>\"1\", \"b\"",
            "\"a\"=>NULLx",
            "\"a\"=>null",
            "\"a\" => \"1\"",
            " ",
        ],
    );
}

/// The text stays, but it must be that of a record.
#[test]
fn an_anonymous_record_has_the_form_of_one() {
    for text in ["()", "(1)", "(1,a)", "(,)", "(\"a \"\"b\\\\\",)"] {
        let expected = serde_json::to_string(text).unwrap();
        assert_eq!(text_json(oid::RECORD, text), expected);
    }
    all_refused(
        oid::RECORD,
        &[
            "", "1,a", "(1,a", "1,a)", "(1,a)b", "(1,\"a)", "(1, a)", "[1,a]",
        ],
    );
}

/// Parts that are nested deeper than a type can be do not overflow the stack.
#[test]
fn deep_nesting_is_refused() {
    // A composite of an array of itself.
    let types = Types::new(&[20000, 4, 1, 0, 20001, 1, 20000, 0], &[20001, 0, 0], "");
    assert!(!types.has_binary_encoder(20000));
    let encoder = Encoder::with_types(20001, 0, AsStrings::NONE, &types).unwrap();
    let mut out = Vec::new();
    encoder.encode(b"{()}", &mut out).unwrap();
    assert_eq!(out, b"\"{()}\"");
    all_refused(oid::INT4_ARRAY, &[&"{".repeat(1_000_000)]);
    all_refused(oid::RECORD, &[&"(".repeat(1_000_000)]);
    all_refused(3904, &[&"[".repeat(1_000_000)]);
}
