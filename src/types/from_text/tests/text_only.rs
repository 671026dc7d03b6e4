//! Types of which only the text is known here: arrays of them are split, composites with them stay text.

use super::{all_refused, read_with};
use crate::types::tests::text_json;
use crate::types::{AsStrings, Encoder, Types, has_binary_encoder, oid};
use alloc::vec::Vec;

/// 20000 is a base type whose arrays have `:` between their elements, 20001 its array, 20002 a domain over it, 20003 an
/// array of that. 20004 is a composite of int8 and money, 20005 an array of that, 20006 a range of 20000.
#[rustfmt::skip]
fn types() -> Types {
    Types::new(
        &[20000, 5, 58, 0, 20001, 1, 20000, 0, 20002, 0, 20000, 0, 20003, 1, 20002, 0, 20004, 4, 2, 0, 20005, 1, 20004, 0,
          20006, 2, 20000, 0],
        &[20, 0, 2, 790, 2, 3],
        "idm",
    )
}

#[test]
fn built_in_arrays_hold_their_elements_texts() {
    for (type_oid, text, expected) in [
        (
            791,
            "{$1.00,\"$1,000.00\",NULL}",
            "[\"$1.00\",\"$1,000.00\",null]",
        ),
        (3643, "{\"'a':1 'b'\",\"\"}", "[\"'a':1 'b'\",\"\"]"),
        (
            2210,
            "{{pg_class},{pg_type}}",
            "[[\"pg_class\"],[\"pg_type\"]]",
        ),
        (143, "{\"<a b=\\\"c\\\"/>\"}", "[\"<a b=\\\"c\\\"/>\"]"),
        (5039, "{10:20:,10:20:10}", "[\"10:20:\",\"10:20:10\"]"),
        (1034, "[0:1]={=r/a,b=w/a}", "[\"=r/a\",\"b=w/a\"]"),
        (4192, "{}", "[]"),
        (
            6442,
            "{5,18446744073709551615}",
            "[\"5\",\"18446744073709551615\"]",
        ),
    ] {
        assert!(!has_binary_encoder(type_oid));
        assert_eq!(text_json(type_oid, text), expected);
    }
    // The elements are checked as the type alone is.
    all_refused(791, &["{one}", "{\"\"}", "$1.00"]);
    all_refused(5039, &["{1}"]);
    all_refused(3643, &["{a b}", "{a", "a"]);
}

#[test]
fn types_of_a_database_are_split_where_their_text_says() {
    for (type_oid, text, expected) in [
        (20000, "POINT(1 2)", "\"POINT(1 2)\""),
        (20001, "{01,02:NULL:\"a:b\"}", "[\"01,02\",null,\"a:b\"]"),
        (20003, "{a:b}", "[\"a\",\"b\"]"),
        // The text of a composite does not say the types of its attributes, which may have changed.
        (20004, "(5,$1.00)", "\"(5,$1.00)\""),
        (20005, "{\"(5,$1.00)\"}", "\"{\\\"(5,$1.00)\\\"}\""),
        // The bounds of a range cannot be written from text alone.
        (20006, "[a,b)", "\"[a,b)\""),
    ] {
        assert!(!types().has_binary_encoder(type_oid));
        assert_eq!(
            read_with(&types(), type_oid, text).as_deref(),
            Ok(expected),
            "{text}"
        );
    }
    // A comma does not separate these elements.
    assert!(read_with(&types(), 20001, "{\"a\",\"b\"}").is_err());
}

#[test]
fn in_binary_they_are_unknown() {
    for type_oid in [791, 20000, 20001, 20004] {
        assert!(Encoder::with_types(type_oid, 1, AsStrings::NONE, &types()).is_err());
    }
    // A record in binary may hold one.
    let record = Encoder::with_types(oid::RECORD, 1, AsStrings::NONE, &types()).unwrap();
    let mut value = Vec::new();
    for word in [1, 790, 0] {
        value.extend_from_slice(&u32::to_be_bytes(word));
    }
    let error = record.encode(&value, &mut Vec::new()).unwrap_err();
    assert_eq!((error.is_unknown_type(), error.type_oid), (true, 790));
}
