//! bytea, from the server's text, under both settings of `bytea_output`.
//!
//! ```text
//! hex       \x00ff
//! escape    a\\b\000    a backslash is doubled, a byte outside printable ASCII is three octal digits
//! ```
//! No text has both forms: in escape form no lone backslash precedes an x.

use super::scanner::Scanner;
use crate::types::json_string;
use crate::types::output::Writer;
use crate::types::rare::{append_hex, put};

/// Works byte by byte, because there may be no memory for a copy of the value.
pub(super) fn append(out: &mut Writer<'_>, text: &[u8]) -> Option<()> {
    if let Some(digits) = text.strip_prefix(b"\\x") {
        let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        json_string::append(out, text);
        return (digits.len().is_multiple_of(2) && digits.iter().all(is_hex)).then_some(());
    }
    let mut rest = Scanner(text);
    put(out, "\"\\\\x");
    while let Some(mut byte) = rest.next() {
        if !matches!(byte, b' '..=b'~') {
            return None;
        }
        if byte == b'\\' && rest.eat(b"\\").is_none() {
            byte = 0;
            for _ in 0..3 {
                let digit = rest.next().filter(|digit| matches!(digit, b'0'..=b'7'))?;
                // Fails for more than the eight bits of a byte.
                byte = byte.checked_mul(8)? | (digit & 7);
            }
        }
        append_hex(out, byte);
    }
    put(out, "\"");
    Some(())
}

#[cfg(test)]
mod tests {
    use crate::types::oid::BYTEA;
    use crate::types::tests::{json, text_json, text_refused};
    use alloc::format;
    use alloc::string::String;
    use alloc::vec::Vec;

    #[test]
    fn every_byte_in_both_forms() {
        let all: Vec<u8> = (0..=255).collect();
        let hex: String = all.iter().map(|byte| format!("{byte:02x}")).collect();
        let escaped: String = all
            .iter()
            .map(|byte| match byte {
                b'\\' => String::from("\\\\"),
                b' '..=b'~' => String::from(char::from(*byte)),
                _ => format!("\\{byte:03o}"),
            })
            .collect();
        let expected = json(BYTEA, &all);
        assert_eq!(text_json(BYTEA, &format!("\\x{hex}")), expected);
        assert_eq!(text_json(BYTEA, &escaped), expected);
        assert_eq!(text_json(BYTEA, ""), "\"\\\\x\"");
        assert_eq!(text_json(BYTEA, "\\x"), "\"\\\\x\"");
        assert_eq!(text_json(BYTEA, "\\\\x00"), "\"\\\\x5c783030\"");
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "\\x0", "\\x0g", "\\", "a\\", "\\0", "\\400", "\\008", "\\a", "é", "\n", "\u{7f}",
        ] {
            text_refused(BYTEA, text);
        }
    }
}
