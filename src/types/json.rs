//! json and jsonb, passed on raw. The server has checked the syntax; we only keep a row on one line.

use super::Outcome;
use super::output::{BLOCK, Writer, padded, places};

/// The only version of jsonb's binary form.
const VERSION: u8 = 1;

/// Appends a json value without its CR and LF. They occur only between tokens: a JSON string contains no raw control
/// character.
#[inline(never)]
pub(super) fn append(out: &mut Writer<'_>, value: &[u8]) -> Outcome {
    if value.is_empty() {
        return Err("json value is empty");
    }
    out.lend(|out| {
        let (blocks, rest) = value.as_chunks::<BLOCK>();
        for block in blocks {
            append_block(out, block, BLOCK);
        }
        append_block(out, &padded(rest), rest.len());
    });
    Ok(())
}

/// Appends the first `length` bytes of `block` without CR and LF.
#[inline(always)]
fn append_block(out: &mut Writer<'_>, block: &[u8; BLOCK], length: usize) {
    if places(block, b'\r') | places(block, b'\n') == 0 {
        return out.put_block(block, length);
    }
    for byte in block.iter().take(length) {
        out.put_block(&[*byte], usize::from(!matches!(byte, b'\r' | b'\n')));
    }
}

/// Appends the binary form of a jsonb value: a version byte, then the text, which the server writes on one line.
/// `readable` begins with `value` and may continue after it.
#[inline(always)]
pub(super) fn append_jsonb(out: &mut Writer<'_>, value: &[u8], readable: &[u8]) -> Outcome {
    match (value, readable) {
        ([VERSION, text @ ..], [_, readable @ ..]) if !text.is_empty() => {
            out.put_within(readable, text.len());
            Ok(())
        }
        ([VERSION] | [], _) => Err("jsonb value is empty"),
        _ => Err("unknown version of jsonb"),
    }
}

#[cfg(test)]
mod tests {
    use crate::types::oid::{JSON, JSONB};
    use crate::types::tests::{json, refused, text_json};

    #[test]
    fn raw_but_on_one_line() {
        assert_eq!(
            json(JSON, "{\"b\": 1,  \"a\":[1,\t2]}"),
            "{\"b\": 1,  \"a\":[1,\t2]}"
        );
        assert_eq!(json(JSON, "\r\n{\"a\\n\":\n\n1}\n"), "{\"a\\n\":1}");
        assert_eq!(text_json(JSON, "[\n]"), "[]");
        let lines = "[\n  1234567890,\r\n  \"a text of more than a block\"\n]";
        assert_eq!(json(JSON, lines), lines.replace(['\r', '\n'], ""));
        refused(JSON, b"");
    }

    #[test]
    fn jsonb_has_a_version() {
        assert_eq!(json(JSONB, "\u{1}{\"a\": [1, 2]}"), "{\"a\": [1, 2]}");
        assert_eq!(text_json(JSONB, "null"), "null");
        refused(JSONB, b"");
        refused(JSONB, b"\x01");
        refused(JSONB, b"\x02{}");
        refused(JSONB, b"{}");
    }
}
