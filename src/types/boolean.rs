//! bool: one byte, 0 or 1 (text form `f` or `t`).

use super::output::Writer;
use super::rare::put;
use super::{Outcome, WRONG_LENGTH};

/// Appends the binary form.
#[inline(always)]
pub(super) fn append(out: &mut Writer<'_>, value: &[u8]) -> Outcome {
    match value {
        [1] => out.put(b"true"),
        [0] => out.put(b"false"),
        [_] => return Err("bool is neither 0 nor 1"),
        _ => return Err(WRONG_LENGTH),
    }
    Ok(())
}

/// Appends the text form.
pub(super) fn append_text(out: &mut Writer<'_>, value: &[u8]) -> Option<()> {
    match value {
        // PostgreSQL does not write the longer words: immudb sends them, and `pg` reads them.
        b"t" | b"true" => put(out, "true"),
        b"f" | b"false" => put(out, "false"),
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use crate::types::oid::BOOL;
    use crate::types::tests::{json, refused, text_json, text_refused};

    #[test]
    fn both_values_in_both_forms() {
        assert_eq!(json(BOOL, [1]), "true");
        assert_eq!(json(BOOL, [0]), "false");
        assert_eq!(text_json(BOOL, "t"), "true");
        assert_eq!(text_json(BOOL, "f"), "false");
        assert_eq!(text_json(BOOL, "true"), "true");
        assert_eq!(text_json(BOOL, "false"), "false");
    }

    #[test]
    fn anything_else_is_refused() {
        for bytes in [&[][..], &[2], &[0, 1]] {
            refused(BOOL, bytes);
        }
        text_refused(BOOL, "yes");
    }
}
