//! A value as a cell of CSV (RFC 4180): the text that its JSON form stands for, between quotes where it must be.
//!
//! Quoted is what holds a quote, a comma, CR or LF, and the empty text, which else would be a NULL. No escape characters.

use crate::types::output::{BLOCK, Writer, padded, picked, places, put_short};
use crate::types::{Cell, Encoder, InvalidValue, oid};

/// What a column's value is in CSV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// Its JSON.
    Json,
    /// Its JSON, without quotes where it has some: NaN, and numbers as strings.
    Number,
    /// What [`append`] makes of it.
    Cell,
}

impl Style {
    pub(super) fn new(type_oid: u32) -> Style {
        match type_oid {
            oid::BOOL | oid::INT2 | oid::INT4 | oid::OID => Style::Json,
            oid::INT8 | oid::FLOAT4 | oid::FLOAT8 | oid::NUMERIC => Style::Number,
            _ => Style::Cell,
        }
    }
}

/// Takes the quotes from the number that was written since `start`, if there are any.
#[inline(always)]
pub(super) fn unquote_number(out: &mut Writer<'_>, start: usize) {
    if let [b'"', ..] = out.written_since(start) {
        out.lend(|out| unquote_json(out, start));
    }
}

/// Appends one value that is not NULL.
#[inline(never)]
pub(super) fn append(
    encoder: &Encoder,
    value: &[u8],
    out: &mut Writer<'_>,
) -> Result<(), InvalidValue> {
    match encoder.cell(value) {
        Cell::Text(text) => append_text(out, text),
        Cell::Plain => out.without_quotes(|out| encoder.append_rarely(value, out))?,
        Cell::Array => append_array(encoder, value, out)?,
        Cell::Json => {
            let start = out.position();
            encoder.append_rarely(value, out)?;
            // Numbers, true and false are cells already.
            if let [b'"' | b'[' | b'{', ..] = out.written_since(start) {
                unquote_json(out, start);
            }
        }
    }
    Ok(())
}

/// An array that needs quotes only around it, and these only where it has a comma: nearly always.
fn append_array(encoder: &Encoder, value: &[u8], out: &mut Writer<'_>) -> Result<(), InvalidValue> {
    let start = out.position();
    out.put(b"\"");
    encoder.append_rarely(value, out)?;
    let cell = out.written_since(start);
    #[expect(
        clippy::manual_contains,
        reason = "`contains` is a word-wise search, and the first comma is near"
    )]
    let has_comma = cell.iter().any(|byte| *byte == b',');
    if has_comma {
        out.put(b"\"");
    } else {
        cell.copy_within(1.., 0);
        out.truncate(out.position() - 1);
    }
    Ok(())
}

/// Appends a text: as it is until something in it wants quotes, then once more from its start, between them.
#[inline(never)]
pub(super) fn append_text(out: &mut Writer<'_>, text: &[u8]) {
    out.lend(|out| {
        let start = out.position();
        let mut quoted = text.is_empty();
        if quoted {
            out.put(b"\"");
        }
        let mut rest = text;
        loop {
            let last;
            let (block, behind) = match rest.split_first_chunk() {
                Some(first) => first,
                None => {
                    last = padded(rest);
                    (&last, Default::default())
                }
            };
            let quotes = places(block, b'"');
            let others = places(block, b',') | places(block, b'\r') | places(block, b'\n');
            if !quoted && quotes | others != 0 {
                quoted = true;
                out.truncate(start);
                out.put(b"\"");
                rest = text;
                continue;
            }
            append_doubled(out, block, rest.len().min(BLOCK), quotes);
            if rest.len() < BLOCK {
                break;
            }
            rest = behind;
        }
        if quoted {
            out.put(b"\"");
        }
    });
}

/// Appends the first `length` bytes of `block`, those twice that are `quotes`: bit i is byte i. JSON is full of them: four bytes at a
/// time, however many of these there are, beat the way from quote to quote.
#[inline(always)]
fn append_doubled(out: &mut Writer<'_>, block: &[u8; BLOCK], length: usize, mut quotes: u32) {
    if quotes == 0 {
        return out.put_block(block, length);
    }
    let doubled = length.wrapping_add(quotes.count_ones() as usize);
    let end = out.position().wrapping_add(doubled);
    put_short!(out, |out| {
        let (mut from, mut indices_from) = (0, 0);
        while from < length {
            let indices = DOUBLED.get(quotes as usize % 16).copied().unwrap_or(0);
            let count = 4_u32.wrapping_add((quotes % 16).count_ones());
            out.put_block(&picked(block, indices | indices_from), count as usize);
            quotes >>= 4;
            from = from.wrapping_add(4);
            indices_from = indices_from.wrapping_add(0x0404_0404_0404_0404);
        }
    });
    out.truncate(end);
}

/// Which of four bytes come, and twice where a bit says so.
#[expect(
    clippy::indexing_slicing,
    reason = "the compiler evaluates it: an index out of bounds does not build"
)]
const DOUBLED: [u64; 16] = {
    let mut doubled = [0; 16];
    let mut quotes = 0;
    while quotes < 16 {
        let (mut byte, mut shift) = (0, 0);
        while byte < 4 {
            let times = 1 + (quotes >> byte & 1);
            let mut time = 0;
            while time < times {
                doubled[quotes] |= byte << shift;
                shift += 8;
                time += 1;
            }
            byte += 1;
        }
        quotes += 1;
    }
    doubled
};

/// Turns the JSON that was written since `start` into a cell, in its place.
#[inline(never)]
fn unquote_json(out: &mut Writer<'_>, start: usize) {
    let json = out.written_since(start);
    let length = match json {
        [b'"', ..] => unescape(json),
        _ => json.len(),
    };
    out.truncate(start + length);
    let cell = out.written_since(start);
    if !cell.is_empty()
        && !cell
            .iter()
            .any(|byte| matches!(byte, b'"' | b',' | b'\r' | b'\n'))
    {
        return;
    }
    // It grows, so it is written again from a copy: the one place that allocates per value (arrays and what JSON has escaped).
    let text = out.written_since(start).to_vec();
    out.truncate(start);
    append_text(out, &text);
}

/// From a JSON string, quotes and all, to its text, at the front of the same bytes. Only escapes that `json_string` writes occur.
fn unescape(json: &mut [u8]) -> usize {
    let (mut from, mut to) = (1, 0);
    while let Some(&[byte, next, ..]) = json.get(from..) {
        let (text, length) = match (byte, next) {
            (b'\\', b'b') => (0x08, 2),
            (b'\\', b'f') => (0x0c, 2),
            (b'\\', b'n') => (b'\n', 2),
            (b'\\', b'r') => (b'\r', 2),
            (b'\\', b't') => (b'\t', 2),
            (b'\\', b'u') => (hexadecimal(json.get(from + 4..from + 6)), 6),
            (b'\\', _) => (next, 2),
            _ => (byte, 1),
        };
        if let Some(place) = json.get_mut(to) {
            *place = text;
        }
        to += 1;
        from += length;
    }
    to
}

fn hexadecimal(digits: Option<&[u8]>) -> u8 {
    digits.unwrap_or_default().iter().fold(0, |value, digit| {
        value << 4
            | if *digit > b'9' {
                digit - b'a' + 10
            } else {
                digit - b'0'
            }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::output::{Output, Target};
    use crate::types::{Strings, json_string};
    use alloc::string::String;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn written(write: impl FnOnce(&mut Writer<'_>)) -> String {
        let mut out = Output::default();
        out.write(write);
        String::from_utf8(Vec::from(out)).unwrap()
    }

    /// As RFC 4180 says it, byte by byte.
    fn expected(text: &str) -> String {
        if text.is_empty() || text.contains(['"', ',', '\r', '\n']) {
            ["\"", &text.replace('"', "\"\""), "\""].concat()
        } else {
            text.into()
        }
    }

    #[test]
    fn quotes_where_they_must_be() {
        for text in [
            "",
            "a",
            " a ",
            "a,b",
            "a\"b",
            "\"",
            "\"\"",
            "a\r",
            "a\nb",
            "0123456789abcdef,",
            "0123456789abcdef0123\"456789abcdef",
        ] {
            assert_eq!(
                written(|out| append_text(out, text.as_bytes())),
                expected(text)
            );
        }
    }

    #[test]
    fn a_binary_value_loses_its_json_quotes() {
        let cell = |type_oid, value: &[u8]| {
            let encoder = Encoder::new(type_oid, 1, Strings::NONE).unwrap();
            written(|out| append(&encoder, value, out).unwrap())
        };
        assert_eq!(cell(oid::DATE, &[0; 4]), "2000-01-01");
        assert_eq!(cell(oid::BYTEA, b"\0\xff"), "\\x00ff");
        assert_eq!(cell(oid::INT4, &[0, 0, 0, 7]), "7");
        assert_eq!(cell(oid::JSONB, b"\x01{\"a\": 1}"), "\"{\"\"a\"\": 1}\"");
        assert_eq!(cell(oid::FLOAT8, &f64::NAN.to_be_bytes()), "NaN");
    }

    proptest! {
        #[test]
        fn any_text(text in "\\PC{0,40}|[\",\r\n\\\\a\u{1}\t]{0,40}") {
            prop_assert_eq!(written(|out| append_text(out, text.as_bytes())), expected(&text));
            prop_assert_eq!(written(|out| {
                out.put(b"before");
                let start = out.position();
                json_string::append(out, text.as_bytes());
                unquote_json(out, start);
            }), ["before", &expected(&text)].concat());
        }
    }
}
