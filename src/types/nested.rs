//! Values made of other values, of any depth: arrays, composites and records, ranges and multiranges.
//!
//! ```text
//! record       int32 number of fields, per field: uint32 type, int32 length (-1: NULL), bytes
//! range        uint8 flags, per bound that is there: int32 length, bytes
//! multirange   int32 number of ranges, per range: int32 length, bytes
//! ```
//! A record is an object, with the names of its type or `f1`, `f2`, …; a range is a string in the server's text form, whose bounds are
//! text too (`2024-01-01 00:00:00`, where JSON has a `T`). Arrays and records say of which types they are made: of others than the
//! catalog said, the type has changed.

use super::catalog::{Attribute, Kind, Types};
use super::output::{Target, Writer};
use super::rare::{append_number, ended, field, fixed, put};
use super::{Outcome, Scalar, Strings, UNKNOWN_TYPE, WRONG_LENGTH, array, json_string};
use alloc::vec::Vec;
use core::cell::Cell;

/// Deeper than any type that people make, shallower than the stack.
const MAX_DEPTH: u32 = 64;

/// Flags of a range.
const EMPTY: u8 = 0x01;
const LOWER_INCLUSIVE: u8 = 0x02;
const UPPER_INCLUSIVE: u8 = 0x04;
const LOWER_INFINITE: u8 = 0x08;
const UPPER_INFINITE: u8 = 0x10;

/// What holds at every depth of one value.
pub(super) struct Nest<'a> {
    types: &'a Types,
    strings: Strings,
    /// Behind [`UNKNOWN_TYPE`]: which one.
    pub unknown: Cell<u32>,
}

impl<'a> Nest<'a> {
    pub(super) fn new(types: &'a Types, strings: Strings) -> Nest<'a> {
        Nest {
            types,
            strings,
            unknown: Cell::new(0),
        }
    }

    #[inline(never)]
    pub(super) fn append(
        &self,
        type_oid: u32,
        value: &[u8],
        out: &mut Writer<'_>,
        depth: u32,
    ) -> Outcome {
        if depth > MAX_DEPTH {
            return Err("nested too deeply");
        }
        match self.types.kind(type_oid) {
            Some(Kind::Scalar(scalar)) => scalar.append_as(value, self.strings, out),
            Some(Kind::Array(element)) => array::append_rare(out, value, element, |out, value| {
                self.append(element, value, out, depth.saturating_add(1))
            }),
            Some(Kind::Composite(attributes)) => {
                self.append_record(type_oid, attributes, value, out, depth.saturating_add(1))
            }
            Some(Kind::Range(subtype)) => {
                let mut text = Vec::new();
                self.range_text(subtype, value, &mut text)?;
                json_string::append(out, &text);
                Ok(())
            }
            Some(Kind::Multirange(range)) => self.append_multirange(range, value, out),
            None => self.refuse(type_oid),
        }
    }

    fn refuse(&self, type_oid: u32) -> Outcome {
        self.unknown.set(type_oid);
        Err(UNKNOWN_TYPE)
    }

    fn append_record(
        &self,
        record_oid: u32,
        attributes: Option<&[Attribute]>,
        value: &[u8],
        out: &mut Writer<'_>,
        depth: u32,
    ) -> Outcome {
        let mut rest = value;
        let count = u32::from_be_bytes(fixed(&mut rest)?);
        if attributes.is_some_and(|attributes| attributes.len() != count as usize) {
            return self.refuse(record_oid);
        }
        put(out, "{");
        for index in 0..count {
            let type_oid = u32::from_be_bytes(fixed(&mut rest)?);
            if index != 0 {
                put(out, ",");
            }
            match attributes.map(|attributes| attributes.get(index as usize)) {
                Some(Some(attribute @ [known, ..])) if *known == type_oid => {
                    json_string::append(out, self.types.name(attribute));
                }
                Some(_) => return self.refuse(record_oid),
                None => {
                    put(out, "\"f");
                    append_number(out, u64::from(index) + 1);
                    put(out, "\"");
                }
            }
            put(out, ":");
            match field(&mut rest)? {
                Some(value) => self.append(type_oid, value, out, depth)?,
                None => put(out, "null"),
            }
        }
        put(out, "}");
        ended(rest)
    }

    fn append_multirange(&self, range: u32, value: &[u8], out: &mut Writer<'_>) -> Outcome {
        let Some(Kind::Range(subtype)) = self.types.kind(range) else {
            return self.refuse(range);
        };
        let mut rest = value;
        let mut text = Vec::from(*b"{");
        for index in 0..u32::from_be_bytes(fixed(&mut rest)?) {
            if index != 0 {
                push(&mut text, b',');
            }
            let range = field(&mut rest)?.ok_or(WRONG_LENGTH)?;
            self.range_text(subtype, range, &mut text)?;
        }
        push(&mut text, b'}');
        json_string::append(out, &text);
        ended(rest)
    }

    fn range_text(&self, subtype_oid: u32, value: &[u8], text: &mut Vec<u8>) -> Outcome {
        let Some(subtype) = self.types.subtype(subtype_oid) else {
            return self.refuse(subtype_oid);
        };
        let (&flags, mut rest) = value.split_first().ok_or(WRONG_LENGTH)?;
        let has = |flag: u8| flags & flag != 0;
        if flags >= 0x20 {
            return Err("unknown flags of a range");
        }
        if has(EMPTY) {
            text.extend_from_slice(b"empty");
            return ended(rest);
        }
        push(text, if has(LOWER_INCLUSIVE) { b'[' } else { b'(' });
        if !has(LOWER_INFINITE) {
            append_bound(subtype, field(&mut rest)?.ok_or(WRONG_LENGTH)?, text)?;
        }
        push(text, b',');
        if !has(UPPER_INFINITE) {
            append_bound(subtype, field(&mut rest)?.ok_or(WRONG_LENGTH)?, text)?;
        }
        push(text, if has(UPPER_INCLUSIVE) { b']' } else { b')' });
        ended(rest)
    }
}

/// Appends a bound, made of its JSON, as `range_out` quotes it.
#[inline(never)]
fn append_bound(subtype: Scalar, value: &[u8], text: &mut Vec<u8>) -> Outcome {
    let mut json = Vec::new();
    json.write(|out| subtype.append(value, out))?;
    let is_text = subtype == Scalar::Text;
    let is_moment = matches!(subtype, Scalar::Timestamp | Scalar::Timestamptz);
    let body = match json.as_slice() {
        _ if is_text => value,
        [b'"', body @ .., b'"'] => body,
        number => number,
    };
    let is_special = |byte: &u8| match byte {
        b'T' => is_moment,
        b'"' | b'\\' | b'(' | b')' | b'[' | b']' | b',' | b' ' | 9..=13 => true,
        _ => false,
    };
    let quotes = body.is_empty() || body.iter().any(is_special);
    if quotes {
        push(text, b'"');
    }
    let mut bytes = body.iter().copied();
    while let Some(mut byte) = bytes.next() {
        match byte {
            b'\\' if !is_text => byte = bytes.next().unwrap_or(byte),
            b'T' if is_moment => byte = b' ',
            // `+00:00` is `+00` here.
            b':' if text.ends_with(b"+00") && is_moment => {
                bytes.nth(1);
                continue;
            }
            _ => {}
        }
        if matches!(byte, b'"' | b'\\') {
            push(text, byte);
        }
        push(text, byte);
    }
    if quotes {
        push(text, b'"');
    }
    Ok(())
}

#[inline(never)]
fn push(text: &mut Vec<u8>, byte: u8) {
    text.push(byte);
}
