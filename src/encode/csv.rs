//! A value as a cell of CSV (RFC 4180): the text that its JSON form stands for, between quotes where it must be.
//!
//! Quoted is what holds a quote, a comma, CR or LF, and the empty text, which else would be a NULL. No escape characters.

use crate::types::output::{BLOCK, Writer, holds, padded, put_short};
use crate::types::{Cell, Encoder, InvalidValue, Strings, oid};

/// Whether a type's JSON is its cell too. Not floats and numeric: their NaN is a JSON string.
pub(super) fn is_json(type_oid: u32, strings: Strings) -> bool {
    match type_oid {
        oid::INT8 => !strings.int8,
        oid::BOOL | oid::INT2 | oid::INT4 | oid::OID => true,
        _ => false,
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
    if cell.contains(&b',') {
        out.put(b"\"");
    } else {
        cell.copy_within(1.., 0);
        out.truncate(out.position() - 1);
    }
    Ok(())
}

/// Appends a text.
#[inline(never)]
pub(super) fn append_text(out: &mut Writer<'_>, text: &[u8]) {
    if !needs_quotes(text) {
        return out.put_slice(text);
    }
    out.lend(|out| {
        out.put(b"\"");
        let (blocks, rest) = text.as_chunks::<BLOCK>();
        for block in blocks {
            append_doubled(out, block, BLOCK);
        }
        append_doubled(out, &padded(rest), rest.len());
        out.put(b"\"");
    });
}

/// Appends the first `length` bytes of `block`, quotes twice. JSON is full of quotes, so byte by byte beats from quote to quote.
#[inline(always)]
fn append_doubled(out: &mut Writer<'_>, block: &[u8; BLOCK], length: usize) {
    put_short!(out, |out| {
        for byte in block.iter().take(length) {
            out.put_block(&[*byte, b'"'], 1 + usize::from(*byte == b'"'));
        }
    });
}

fn needs_quotes(text: &[u8]) -> bool {
    let (blocks, rest) = text.as_chunks::<BLOCK>();
    let has_special = |block: &[u8; BLOCK]| holds(block, b"\",\r\n");
    text.is_empty() || blocks.iter().any(has_special) || has_special(&padded(rest))
}

/// Turns the JSON that was written since `start` into a cell, in its place.
#[inline(never)]
fn unquote_json(out: &mut Writer<'_>, start: usize) {
    let json = out.written_since(start);
    let length = match json {
        [b'"', ..] => unescape(json),
        _ => json.len(),
    };
    out.truncate(start + length);
    if !needs_quotes(out.written_since(start)) {
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
    use crate::types::json_string;
    use crate::types::output::{Output, Target};
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
