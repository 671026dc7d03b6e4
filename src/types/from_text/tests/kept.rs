//! Text that is not read, and is kept where other settings may have written it.

use super::types;
use crate::types::oid::{DATE, INTERVAL};
use crate::types::{AsStrings, Encoder, InvalidValue, oid};
use alloc::string::String;
use alloc::vec::Vec;

#[test]
fn what_is_not_read_can_be_kept() {
    let kept = |type_oid, text: &str| {
        let mut out = Vec::from(*b"before");
        let mut encoder = Encoder::with_types(type_oid, 0, AsStrings::ALL, &types()).unwrap();
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
        (
            oid::INTERVAL_ARRAY,
            "{\"@ 1 day\"}",
            "\"{\\\"@ 1 day\\\"}\"",
        ),
        (3912, "[01/02/2024,)", "\"[01/02/2024,)\""),
        (4535, "{[01/02/2024,)}", "\"{[01/02/2024,)}\""),
        (20007, "[\"@ 1 day\",)", "\"[\\\"@ 1 day\\\",)\""),
        (oid::RECORD, "(1", "\"(1\""),
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
    // The text of these types is the same in every session.
    for type_oid in [
        oid::BOOL,
        oid::INT4,
        oid::FLOAT8,
        oid::NUMERIC,
        20000,
        oid::BYTEA,
        oid::CHAR,
        oid::UUID,
        oid::TIME,
        oid::TIMETZ,
        oid::INET,
        oid::TID,
        oid::HSTORE,
        oid::VECTOR,
        oid::MONEY,
        oid::INT4_ARRAY,
        oid::INT2VECTOR,
        oid::BYTEA_ARRAY,
        oid::TEXT_ARRAY,
        3904,
        4451,
        20005,
    ] {
        assert_eq!(
            kept(type_oid, "\\q").map_err(|error: InvalidValue| error.type_oid),
            Err(type_oid)
        );
    }
    // A value in binary is not kept as text.
    let mut encoder = Encoder::with_types(20002, 1, AsStrings::NONE, &types()).unwrap();
    encoder.keep_unread();
    assert!(encoder.encode(b"(5)", &mut Vec::new()).is_err());
}
