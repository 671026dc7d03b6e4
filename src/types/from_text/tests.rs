//! Text in, JSON out: unusual text that a server writes, and text that no server writes. tests/oracle.rs tests that the
//! server's own text gives the same as its binary form.

use crate::types::tests::{text_json, text_refused};
use crate::types::{AsStrings, Encoder, InvalidValue, Types};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

mod arrays;
mod composites;
mod forms;
mod kept;
mod numbers;
mod ranges;
mod text_only;
mod times;

/// Asserts that every text becomes the JSON string beside it.
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

/// 20000 is a domain over int8, 20001 an enum, 20002 their composite, 20003 an array of that, 20004 a range of text,
/// 20005 its multirange, 20006 a range of bytea, 20007 a range of interval, 20008 a composite of one attribute, 20009 a
/// composite of none, 20010 a composite with an undescribed type, 20011 an array of domains over an array, 20012 that
/// domain, 20013 a composite of json.
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
    read_with(&types(), type_oid, text)
}

fn read_with(types: &Types, type_oid: u32, text: &str) -> Result<String, InvalidValue> {
    let mut out = Vec::new();
    let encoder = Encoder::with_types(type_oid, 0, AsStrings::ALL, types).unwrap();
    encoder.encode(text.as_bytes(), &mut out)?;
    Ok(String::from_utf8(out).unwrap())
}
