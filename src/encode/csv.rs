//! Writes a value as a cell of CSV (RFC 4180): the text that its JSON form stands for.
//!
//! A cell is quoted if it contains a quote, a comma, CR or LF, if it is the empty text, which would otherwise be a
//! NULL, or if it is the two bytes that end a COPY. There are no escape characters. json and jsonb are written as
//! their text (a JSON string keeps its quotes, as in COPY), arrays as their JSON, times as in JSON.

use super::Column;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
use crate::types::output::vector;
use crate::types::output::{BLOCK, Writer, padded, picked, places, put_short};
use crate::types::{Cell, Encoder, InvalidValue, oid};

/// Before PostgreSQL 18, COPY stops reading at a line that is only this, and the rest is lost without an error.
const END_OF_COPY: &[u8] = b"\\.";

/// How the values of a column are written in CSV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// As their JSON.
    Json,
    /// As their JSON, without the quotes that NaN and numbers as strings have.
    Number,
    /// As their own bytes, which are the text.
    Text,
    /// As [`append`] writes them.
    Cell,
}

impl Style {
    /// `escape`: no value may begin like a formula.
    pub(super) fn new(type_oid: u32, encoder: &Encoder, escape: bool) -> Style {
        if escape {
            return Style::Cell;
        }
        match type_oid {
            oid::BOOL | oid::INT2 | oid::INT4 | oid::OID => Style::Json,
            oid::INT8 | oid::FLOAT4 | oid::FLOAT8 | oid::NUMERIC => Style::Number,
            _ if matches!(encoder.cell(b""), Cell::Text(_)) => Style::Text,
            _ => Style::Cell,
        }
    }
}

/// Removes the quotes around the number that was written since `start`, if there are any.
#[inline(always)]
pub(super) fn unquote_number(out: &mut Writer<'_>, start: usize) {
    if out.is_quote(start) {
        out.lend(|out| unquote_json(out, start));
    }
}

/// Appends one value that is not NULL. Where formulas are escaped, a value that begins like a formula gets an
/// apostrophe.
#[inline(never)]
pub(super) fn append(
    column: &Column,
    value: &[u8],
    out: &mut Writer<'_>,
) -> Result<(), InvalidValue> {
    let start = out.position();
    append_cell(&column.encoder, value, out)?;
    if column.escape_formulas {
        escape_formula(out, start);
    }
    Ok(())
}

#[inline(always)]
fn append_cell(encoder: &Encoder, value: &[u8], out: &mut Writer<'_>) -> Result<(), InvalidValue> {
    match encoder.cell(value) {
        Cell::Text(text) => append_text(out, text),
        Cell::Plain => out.without_quotes(|out| encoder.append_rarely(value, out))?,
        Cell::Array => append_array(encoder, value, out)?,
        Cell::JsonText => append_json(encoder, value, out)?,
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

/// Appends a column's name.
pub(super) fn append_name(out: &mut Writer<'_>, name: &[u8], escape: bool) {
    let start = out.position();
    append_text(out, name);
    if escape {
        escape_formula(out, start);
    }
}

/// Puts an apostrophe before the cell's text that was written since `start`, and quotes around both, if a spreadsheet
/// would take the text for a formula (OWASP, "CSV Injection"). Some spreadsheets skip a tab or a line break before a
/// formula.
fn escape_formula(out: &mut Writer<'_>, start: usize) {
    let cell = out.written_since(start);
    let text = cell.strip_prefix(b"\"").unwrap_or(cell);
    if !matches!(
        text,
        [b'=' | b'+' | b'-' | b'@' | b'\t' | b'\r' | b'\n', ..]
    ) {
        return;
    }
    let is_quoted = text.len() < cell.len();
    let text = text.to_vec();
    out.truncate(start);
    out.put(b"\"'");
    out.put_slice(&text);
    out.put_block(b"\"", usize::from(!is_quoted));
}

/// Appends the text of a json value, without the line breaks between its tokens. Only the few values that have some are
/// copied.
fn append_json(encoder: &Encoder, value: &[u8], out: &mut Writer<'_>) -> Result<(), InvalidValue> {
    if !value.is_empty() && !has_line_breaks(value) {
        append_text(out, value);
        return Ok(());
    }
    let start = out.position();
    encoder.append_rarely(value, out)?;
    let text = out.written_since(start).to_vec();
    out.truncate(start);
    append_text(out, &text);
    Ok(())
}

fn has_line_breaks(text: &[u8]) -> bool {
    let (blocks, rest) = text.as_chunks::<BLOCK>();
    let in_block = |block: &[u8; BLOCK]| places(block, b'\r') | places(block, b'\n') != 0;
    blocks.iter().any(in_block) || in_block(&padded(rest))
}

/// Appends an array in whose JSON there is no quote: the cell needs quotes only around it, and only if it contains a
/// comma, as nearly all arrays do.
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

/// Appends a text. `readable` begins with `text` and may continue after it, as a row does after a field: then a short
/// text is one load.
#[inline(always)]
pub(super) fn append_within(out: &mut Writer<'_>, text: &[u8], readable: &[u8]) {
    let length = text.len();
    match readable.first_chunk() {
        Some(block)
            if length != 0
                && length <= BLOCK
                && special(block) & !(u32::MAX << length) == 0
                && text != END_OF_COPY =>
        {
            out.put_block(block, length);
        }
        _ => out.lend(|out| append_text(out, text)),
    }
}

/// Appends a text unquoted. If a byte in it requires quotes, starts again from the beginning of the text, with quotes.
#[inline(never)]
pub(super) fn append_text(out: &mut Writer<'_>, text: &[u8]) {
    out.lend(|out| {
        let start = out.position();
        let mut rest = text;
        let mut plain = !text.is_empty() && text != END_OF_COPY;
        while plain {
            let Some((block, after)) = rest.split_first_chunk() else {
                // The zeros after the text are not special.
                let last = padded(rest);
                if special(&last) != 0 {
                    break;
                }
                return out.put_block(&last, rest.len());
            };
            out.put(block);
            rest = after;
            plain = special(block) == 0;
        }
        out.truncate(start);
        out.put(b"\"");
        rest = text;
        while let Some((block, after)) = rest.split_first_chunk() {
            append_doubled(out, block, BLOCK);
            rest = after;
        }
        append_doubled(out, &padded(rest), rest.len());
        out.put(b"\"");
    });
}

/// Returns which bytes of the block make a text require quotes: bit i is byte i. The low halves of the four special
/// bytes differ, so a table of sixteen says which of them a byte could be.
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
#[inline(always)]
fn special(block: &[u8; BLOCK]) -> u32 {
    use core::arch::wasm32::{
        u8x16, u8x16_bitmask, u8x16_eq, u8x16_splat, u8x16_swizzle, v128_and,
    };
    #[rustfmt::skip]
    let candidates = u8x16(1, 0, b'"', 0, 0, 0, 0, 0, 0, 0, b'\n', 0, b',', b'\r', 0, 0);
    let bytes = vector(block);
    let candidate = u8x16_swizzle(candidates, v128_and(bytes, u8x16_splat(0x0f)));
    u8x16_bitmask(u8x16_eq(candidate, bytes)).into()
}

#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
fn special(block: &[u8; BLOCK]) -> u32 {
    places(block, b'"') | places(block, b',') | places(block, b'\r') | places(block, b'\n')
}

/// Appends the first `length` bytes of `block`, each quote doubled. JSON is full of quotes: taking eight bytes at a
/// time, however many of them are quotes, was faster than going from quote to quote.
#[inline(always)]
fn append_doubled(out: &mut Writer<'_>, block: &[u8; BLOCK], length: usize) {
    let mut quotes = places(block, b'"');
    if quotes == 0 {
        return out.put_block(block, length);
    }
    let doubled = length.wrapping_add(quotes.count_ones() as usize);
    let end = out.position().wrapping_add(doubled);
    put_short!(out, |out| {
        let (mut from, mut first) = (0, 0);
        while from < length {
            let low = DOUBLED.get(quotes as usize % 16).copied().unwrap_or(0);
            let high = DOUBLED
                .get((quotes >> 4) as usize % 16)
                .copied()
                .unwrap_or(0);
            let high = high | 0x0404_0404_0404_0404;
            // The first four bytes become four to eight; what `high` has beyond its own bytes is overwritten. The shift
            // is made in two steps, because a shift by 64 shifts by 0.
            let half = 16_u32.wrapping_add(4 * (quotes % 16).count_ones());
            let indices = [
                low | high.wrapping_shl(half).wrapping_shl(half) | first,
                high.wrapping_shr(64_u32.wrapping_sub(2 * half)) | first,
            ];
            let count = 8_u32.wrapping_add((quotes % 256).count_ones());
            out.put_block(&picked(block, indices), count as usize);
            quotes >>= 8;
            from = from.wrapping_add(8);
            first = 0x0808_0808_0808_0808;
        }
    });
    out.truncate(end);
}

/// For each mask of four bytes: the indices of these bytes, twice where the mask has a bit.
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

/// Turns the JSON that was written since `start` into a cell, in place.
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
    // The cell grows, so it is written again from a copy. This allocates per value, for arrays and for text that JSON
    // has escaped.
    let text = out.written_since(start).to_vec();
    out.truncate(start);
    append_text(out, &text);
}

/// Decodes a JSON string, quotes included, to its text at the front of the same bytes; returns the text's length. The
/// escapes are those that we write: of one byte each, in lower-case hexadecimal if the byte has no letter.
fn unescape(json: &mut [u8]) -> usize {
    let digit = |digit: u8| char::from(digit).to_digit(16).unwrap_or(0) as u8;
    let (mut from, mut to) = (1, 0);
    while let Some(&[byte, next, ..]) = json.get(from..) {
        let (text, length) = match (byte, next) {
            (b'\\', b'b') => (0x08, 2),
            (b'\\', b'f') => (0x0c, 2),
            (b'\\', b'n') => (b'\n', 2),
            (b'\\', b'r') => (b'\r', 2),
            (b'\\', b't') => (b'\t', 2),
            (b'\\', b'u') => match json.get(from..) {
                Some(&[_, _, _, _, high, low, ..]) => (digit(high) << 4 | digit(low), 6),
                _ => break,
            },
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::output::{Output, Target};
    use crate::types::{AsStrings, json_string};
    use alloc::string::String;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn written(write: impl FnOnce(&mut Writer<'_>)) -> String {
        let mut out = Output::default();
        out.write(write);
        String::from_utf8(Vec::from(out)).unwrap()
    }

    /// The cell as RFC 4180 defines it, and as COPY can read it.
    fn expected(text: &str) -> String {
        if text.is_empty() || text == "\\." || text.contains(['"', ',', '\r', '\n']) {
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
            "\\.",
            "\\",
            "\\.a",
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
            let encoder = Encoder::new(type_oid, 1, AsStrings::NONE).unwrap();
            written(|out| append_cell(&encoder, value, out).unwrap())
        };
        assert_eq!(cell(oid::DATE, &[0; 4]), "2000-01-01");
        assert_eq!(cell(oid::BYTEA, b"\0\xff"), "\\x00ff");
        assert_eq!(cell(oid::INT4, &[0, 0, 0, 7]), "7");
        assert_eq!(cell(oid::JSONB, b"\x01{\"a\": 1}"), "\"{\"\"a\"\": 1}\"");
        assert_eq!(cell(oid::FLOAT8, &f64::NAN.to_be_bytes()), "NaN");
    }

    #[test]
    fn every_byte_comes_back_from_its_escape() {
        for byte in 0..0x80_u8 {
            let text = String::from_utf8([b'a', byte, b'b'].to_vec()).unwrap();
            let cell = written(|out| {
                json_string::append(out, text.as_bytes());
                unquote_json(out, 0);
            });
            assert_eq!(cell, expected(&text));
        }
    }

    #[test]
    fn json_is_its_text() {
        let cell = |type_oid, format_code, value: &[u8]| {
            let encoder = Encoder::new(type_oid, format_code, AsStrings::NONE).unwrap();
            written(|out| append_cell(&encoder, value, out).unwrap())
        };
        assert_eq!(cell(oid::JSONB, 1, b"\x01\"a\""), "\"\"\"a\"\"\"");
        for (type_oid, format_code) in [(oid::JSON, 0), (oid::JSON, 1), (oid::JSONB, 0)] {
            let json = |value: &str| cell(type_oid, format_code, value.as_bytes());
            assert_eq!(json("\"a\""), "\"\"\"a\"\"\"");
            assert_eq!(json(" [1,2]"), "\" [1,2]\"");
            assert_eq!(json(" \"\\u00e9\""), "\" \"\"\\u00e9\"\"\"");
            assert_eq!(json("\n7"), "7");
            assert_eq!(json("[1,\r\n2]"), "\"[1,2]\"");
            assert_eq!(
                json("[1, \"longer than a block\",\n2]"),
                "\"[1, \"\"longer than a block\"\",2]\""
            );
            assert_eq!(json("-5"), "-5");
        }
        let encoder = Encoder::new(oid::JSON, 1, AsStrings::NONE).unwrap();
        written(|out| assert!(append_cell(&encoder, b"", out).is_err()));
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
