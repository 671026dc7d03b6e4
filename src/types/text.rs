//! text, varchar, bpchar, name, and every value that arrives as the server's text; also `"char"`, which is one byte.

use super::output::Writer;
use super::{Outcome, WRONG_LENGTH, json_string};

/// Appends a JSON string. The bytes are the server's, in UTF-8 (`client_encoding`), and pass through unchecked.
#[inline(always)]
pub(super) fn append(out: &mut Writer<'_>, value: &[u8]) -> Outcome {
    json_string::append(out, value);
    Ok(())
}

/// Like [`append`]. `readable` begins with `value` and may continue after it.
#[inline(always)]
pub(super) fn append_within(out: &mut Writer<'_>, value: &[u8], readable: &[u8]) -> Outcome {
    json_string::append_within(out, value, readable);
    Ok(())
}

/// Appends a binary `"char"`. Like the type's output function, it writes zero as the empty string and a byte from 0x80
/// on as `\ooo`.
#[inline(always)]
pub(super) fn append_char(out: &mut Writer<'_>, value: &[u8]) -> Outcome {
    let (text, length) = match *value {
        [0] => ([0; 4], 0),
        [byte @ 0x80..=0xff] => {
            let octal = |shift: u32| b'0' | ((byte >> shift) & 7);
            ([b'\\', octal(6), octal(3), octal(0)], 4)
        }
        [byte] => ([byte, 0, 0, 0], 1),
        _ => return Err(WRONG_LENGTH),
    };
    let text = text.get(..length).unwrap_or_default();
    out.lend(|out| json_string::append(out, text));
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::types::oid::{CHAR, TEXT};
    use crate::types::tests::{json, refused, text_json};

    #[test]
    fn char_is_one_byte() {
        assert_eq!(json(CHAR, b"x"), "\"x\"");
        assert_eq!(json(CHAR, [0]), "\"\"");
        assert_eq!(json(CHAR, b"\n"), "\"\\n\"");
        assert_eq!(json(CHAR, [0xc3]), "\"\\\\303\"");
        refused(CHAR, b"");
        refused(CHAR, b"xy");
    }

    #[test]
    fn text_of_a_known_or_unknown_type_is_a_string() {
        assert_eq!(json(TEXT, ""), "\"\"");
        assert_eq!(json(TEXT, "ünï \u{7f}"), "\"ünï \u{7f}\"");
        let unknown_to_all = 999_999;
        assert_eq!(text_json(unknown_to_all, "(1,\"x\")"), "\"(1,\\\"x\\\")\"");
    }
}
