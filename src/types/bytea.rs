//! bytea: `"\\x…"`, lower-case hexadecimal (`bytea_output = hex`).

use super::output::{Writer, padded};
use super::{Outcome, digits};

/// Appends the binary form.
#[inline(always)]
pub(super) fn append(out: &mut Writer<'_>, value: &[u8]) -> Outcome {
    out.put(b"\"\\\\x");
    let (groups, rest) = value.as_chunks::<4>();
    for group in groups {
        out.put(&digits::hex(*group));
    }
    let [a, b, c, ..] = padded(rest);
    out.put_block(&digits::hex([a, b, c, 0]), 2 * rest.len());
    out.put(b"\"");
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::types::oid::BYTEA;
    use crate::types::tests::json;
    use alloc::format;
    use alloc::string::String;
    use alloc::vec::Vec;

    #[test]
    fn every_length() {
        let bytes: Vec<u8> = (0..=255).collect();
        for length in 0..bytes.len() {
            let digits: String = bytes[..length]
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            assert_eq!(json(BYTEA, &bytes[..length]), format!("\"\\\\x{digits}\""));
        }
    }
}
