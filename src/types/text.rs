//! text, varchar, bpchar, name, and whatever arrives as the server's text; `"char"`, which is one byte.

use alloc::vec::Vec;

use super::{Outcome, WRONG_LENGTH, json_string};

/// Appends a JSON string. The bytes are the server's, in UTF-8 (`client_encoding`), and pass through unchecked.
#[inline]
pub(super) fn append(out: &mut Vec<u8>, value: &[u8]) -> Outcome {
    json_string::append(out, value);
    Ok(())
}

/// Appends a binary `"char"`: as the type's output function, zero is the empty string and a byte from 0x80 on `\ooo`.
pub(super) fn append_char(out: &mut Vec<u8>, value: &[u8]) -> Outcome {
    match *value {
        [0] => json_string::append(out, b""),
        [byte @ 0x80..=0xff] => {
            let octal = |shift: u32| b'0' + ((byte >> shift) & 7);
            json_string::append(out, &[b'\\', octal(6), octal(3), octal(0)]);
        }
        [_] => json_string::append(out, value),
        _ => return Err(WRONG_LENGTH),
    }
    Ok(())
}
