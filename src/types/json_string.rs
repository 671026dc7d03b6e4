//! JSON strings, escaped exactly as PostgreSQL's `escape_json` does: `\"`, `\\`, `\b`, `\f`, `\n`, `\r`, `\t`, and
//! other bytes below 0x20 as `\u00xx` (lower-case hexadecimal). Everything else is unchanged, including 0x7f and all of
//! UTF-8.
//!
//! Works on blocks of 16 bytes. One look at a block says which of its bytes need an escape (mostly none). The block is
//! then written as a whole, or as the runs between its escapes. Knows nothing of types; the caller knows what the bytes
//! mean.

use super::output::{BLOCK, Writer, padded, put_short};

/// Appends `value` as a JSON string. `readable` begins with `value` and may continue after it, as a row does after a
/// field: then a short value is one load, whatever its length.
#[inline(always)]
pub(crate) fn append_within(out: &mut Writer<'_>, value: &[u8], readable: &[u8]) {
    match readable.first_chunk() {
        Some(block) if value.len() <= BLOCK => append_block(out, block, value.len()),
        _ => out.lend(|out| append(out, value)),
    }
}

/// Appends the first `length` bytes of `block` as a JSON string; the bytes after them are ignored.
#[inline(always)]
fn append_block(out: &mut Writer<'_>, block: &[u8; BLOCK], length: usize) {
    let mask = escape_mask(block) & !(u32::MAX << length);
    if mask == 0 {
        put_short!(out, |out| {
            out.put(b"\"");
            out.put_block(block, length);
            out.put(b"\"");
        });
    } else {
        out.lend(|out| append(out, block.get(..length).unwrap_or_default()));
    }
}

/// Appends `value`, of any length, as a JSON string.
#[inline(never)]
pub(crate) fn append(out: &mut Writer<'_>, value: &[u8]) {
    out.lend(|out| {
        out.put(b"\"");
        let mut rest = value;
        while let Some((block, after)) = rest.split_first_chunk::<BLOCK>() {
            let mask = escape_mask(block);
            if mask == 0 {
                out.put(block);
                rest = after;
                continue;
            }
            if let Some(window) = rest.first_chunk()
                && has_letters(block, mask)
            {
                append_letters(out, window, mask);
                rest = after;
                continue;
            }
            // Continues at the byte after the escape, wherever that is: cheaper than going through the block byte by
            // byte.
            let clean = mask.trailing_zeros() as usize;
            out.put_block(block, clean);
            let Some((&byte, after)) = rest.get(clean..).and_then(<[u8]>::split_first) else {
                break;
            };
            append_escape(out, byte);
            rest = after;
        }
        let block = padded(rest);
        let mask = escape_mask(&block) & !(u32::MAX << rest.len());
        if mask == 0 {
            out.put_block(&block, rest.len());
        } else {
            append_masked(out, rest, mask);
        }
        out.put(b"\"");
    });
}

/// Returns the positions of the bits in a mask, lowest first.
#[inline(always)]
fn places_of(mask: u32) -> impl Iterator<Item = usize> {
    core::iter::successors(Some(mask), |mask| Some(mask & mask.wrapping_sub(1)))
        .take_while(|mask| *mask != 0)
        .map(|mask| mask.trailing_zeros() as usize)
}

/// Returns whether no escape in the block is one by number: then each escape takes only two bytes.
#[inline(always)]
fn has_letters(block: &[u8; BLOCK], mask: u32) -> bool {
    places_of(mask).all(|place| letter(byte_at(block, place)) != b'u')
}

/// Appends the first block of the window. `mask` has its escapes: run, escape, run, escape …
#[inline(always)]
fn append_letters(out: &mut Writer<'_>, window: &[u8; 2 * BLOCK], mask: u32) {
    put_short!(out, |out| {
        let mut start = 0;
        for place in places_of(mask) {
            out.put_block(block_at(window, start), place.wrapping_sub(start));
            out.put(&[b'\\', letter(byte_at(window, place))]);
            start = place.wrapping_add(1);
        }
        out.put_block(block_at(window, start), BLOCK.wrapping_sub(start));
    });
}

/// `place` is a position in a block: the remainder never changes it, and saves a check.
#[inline(always)]
fn byte_at<const N: usize>(bytes: &[u8; N], place: usize) -> u8 {
    bytes.get(place % BLOCK).copied().unwrap_or_default()
}

/// Returns the block that begins at `start`, which is a position in the first block or right after it.
#[inline(always)]
fn block_at(window: &[u8; 2 * BLOCK], start: usize) -> &[u8; BLOCK] {
    let block = window.get(start..).and_then(<[u8]>::first_chunk);
    block.unwrap_or(&[0; BLOCK])
}

#[inline(always)]
fn letter(byte: u8) -> u8 {
    LETTERS.get(usize::from(byte)).copied().unwrap_or_default()
}

/// For each byte: the letter after the backslash, `u` for an escape by number, 0 for a byte that is not escaped.
#[expect(clippy::indexing_slicing, reason = "runs in the compiler")]
const LETTERS: [u8; 256] = {
    let mut letters = [0; 256];
    let mut byte = 0;
    while byte < 0x20 {
        letters[byte] = b'u';
        byte += 1;
    }
    letters[0x08] = b'b';
    letters[0x0c] = b'f';
    letters[b'\n' as usize] = b'n';
    letters[b'\r' as usize] = b'r';
    letters[b'\t' as usize] = b't';
    letters[b'"' as usize] = b'"';
    letters[b'\\' as usize] = b'\\';
    letters
};

/// Appends a block in which at least one byte must be escaped: bit i of `mask` is byte i.
#[inline(always)]
fn append_masked(out: &mut Writer<'_>, block: &[u8], mask: u32) {
    for (position, &byte) in block.iter().enumerate() {
        if mask & (1 << position) == 0 {
            out.put(&[byte]);
        } else {
            append_escape(out, byte);
        }
    }
}

#[inline(always)]
fn append_escape(out: &mut Writer<'_>, byte: u8) {
    let letter = letter(byte);
    if letter != b'u' {
        return out.put(&[b'\\', letter]);
    }
    let digit = |nibble: u8| {
        if nibble < 10 {
            b'0' + nibble
        } else {
            b'a' + nibble - 10
        }
    };
    out.put(&[
        b'\\',
        b'u',
        b'0',
        b'0',
        digit(byte >> 4),
        digit(byte & 0x0f),
    ]);
}

/// Returns which bytes of the block need an escape: bit i is byte i.
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
#[inline(always)]
fn escape_mask(block: &[u8; BLOCK]) -> u32 {
    use core::arch::wasm32::{u8x16_bitmask, u8x16_eq, u8x16_lt, u8x16_splat, v128_or};
    let bytes = super::output::vector(block);
    let quote = u8x16_eq(bytes, u8x16_splat(b'"'));
    let backslash = u8x16_eq(bytes, u8x16_splat(b'\\'));
    let control = u8x16_lt(bytes, u8x16_splat(0x20));
    u32::from(u8x16_bitmask(v128_or(v128_or(quote, backslash), control)))
}

/// Returns which bytes of the block need an escape: bit i is byte i.
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
#[inline(always)]
fn escape_mask(block: &[u8; BLOCK]) -> u32 {
    let (words, _) = block.as_chunks::<8>();
    words.iter().rev().fold(0, |mask, word| {
        (mask << 8) | escape_mask_word(u64::from_le_bytes(*word))
    })
}

/// Handles eight bytes at once, in one word. Exact for every byte: no carry crosses into another byte, because the
/// top bits are set aside first.
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
#[inline(always)]
fn escape_mask_word(word: u64) -> u32 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const LOW: u64 = 0x7f * ONES;
    let at_least = |bytes: u64, minimum: u64| ((bytes & LOW) + (0x80 - minimum) * ONES) | bytes;
    let differs = |byte: u8| at_least(word ^ (u64::from(byte) * ONES), 1);
    let hits = !(at_least(word, 0x20) & differs(b'"') & differs(b'\\')) & !LOW;
    // Gathers the eight top bits in one byte, first byte lowest.
    ((hits >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::output::Target;
    use alloc::format;
    use alloc::string::String;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn escaped(value: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        out.write(|out| append(out, value));
        out
    }

    #[test]
    fn each_byte_as_escape_json_writes_it() {
        for byte in 0..=255_u8 {
            let expected: Vec<u8> = match byte {
                b'"' => b"\"\\\"\"".to_vec(),
                b'\\' => b"\"\\\\\"".to_vec(),
                8 => b"\"\\b\"".to_vec(),
                9 => b"\"\\t\"".to_vec(),
                10 => b"\"\\n\"".to_vec(),
                12 => b"\"\\f\"".to_vec(),
                13 => b"\"\\r\"".to_vec(),
                0..0x20 => format!("\"\\u{byte:04x}\"").into_bytes(),
                _ => alloc::vec![b'"', byte, b'"'],
            };
            assert_eq!(escaped(&[byte]), expected);
        }
    }

    #[test]
    fn an_escape_at_every_position_of_every_length() {
        for length in 1..70 {
            for position in 0..length {
                let mut value = alloc::vec![b'x'; length];
                value[position] = b'"';
                let expected = format!(
                    "\"{}\\\"{}\"",
                    "x".repeat(position),
                    "x".repeat(length - position - 1)
                );
                assert_eq!(escaped(&value), expected.as_bytes());
            }
        }
    }

    /// Escapes one byte after the other.
    fn plainly(value: &[u8]) -> Vec<u8> {
        let mut text = alloc::vec![b'"'];
        for &byte in value {
            match byte {
                b'"' | b'\\' => text.extend([b'\\', byte]),
                0x08 => text.extend(b"\\b"),
                0x0c => text.extend(b"\\f"),
                b'\n' => text.extend(b"\\n"),
                b'\r' => text.extend(b"\\r"),
                b'\t' => text.extend(b"\\t"),
                0..0x20 => text.extend(format!("\\u{byte:04x}").bytes()),
                _ => text.push(byte),
            }
        }
        text.push(b'"');
        text
    }

    proptest! {
        /// Blocks in which many bytes are escaped, by letter and by number, next to blocks with no escape.
        #[test]
        fn dense_or_not(value in proptest::collection::vec(
            prop_oneof![8 => Just(b'x'), 4 => Just(b'"'), 2 => Just(b'\\'), 1 => Just(b'\n'), 1 => any::<u8>()],
            0..200,
        )) {
            prop_assert_eq!(escaped(&value), plainly(&value));
        }

        #[test]
        fn parses_back(value in any::<String>(), repeat in 1..20_usize) {
            let value = value.repeat(repeat);
            let parsed: String = serde_json::from_slice(&escaped(value.as_bytes())).unwrap();
            prop_assert_eq!(parsed, value);
        }
    }
}
