//! json and jsonb: raw. The server has checked the syntax; we only keep a row on one line.

use alloc::vec::Vec;

use super::{Outcome, copy};

/// The only version of jsonb's binary form.
const VERSION: u8 = 1;

/// Appends a json value, CR and LF dropped. They can only stand between tokens: a JSON string holds no raw control character.
#[inline]
pub(super) fn append(out: &mut Vec<u8>, value: &[u8]) -> Outcome {
    if value.is_empty() {
        return Err("json value is empty");
    }
    let mut rest = value;
    while let Some((line, tail)) =
        memchr::memchr2(b'\n', b'\r', rest).and_then(|at| rest.split_at_checked(at))
    {
        out.extend_from_slice(line);
        rest = tail.get(1..).unwrap_or_default();
    }
    copy::append(out, rest);
    Ok(())
}

/// Appends the binary form of a jsonb value: a version byte, then the text, which the server writes on one line.
#[inline]
pub(super) fn append_jsonb(out: &mut Vec<u8>, value: &[u8]) -> Outcome {
    match value {
        [VERSION, text @ ..] if !text.is_empty() => {
            copy::append(out, text);
            Ok(())
        }
        [VERSION] | [] => Err("jsonb value is empty"),
        _ => Err("unknown version of jsonb"),
    }
}
