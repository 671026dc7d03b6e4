//! uuid: 16 bytes as `"xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"`.

use super::digits::hex;
use super::output::{Writer, put_short};
use super::{Outcome, WRONG_LENGTH};

/// Appends the binary form.
#[inline(always)]
pub(super) fn append(out: &mut Writer<'_>, value: &[u8]) -> Outcome {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] =
        value.try_into().map_err(|_| WRONG_LENGTH)?;
    put_short!(out, |out| {
        let [q, r, s, t, u, v, w, x] = hex([a, b, c, d]);
        out.put(&[b'"', q, r, s, t, u, v, w, x]);
        let [q, r, s, t, u, v, w, x] = hex([e, f, g, h]);
        out.put(&[b'-', q, r, s, t, b'-', u, v, w, x]);
        let [q, r, s, t, u, v, w, x] = hex([i, j, k, l]);
        out.put(&[b'-', q, r, s, t, b'-', u, v, w, x]);
        out.put(&hex([m, n, o, p]));
        out.put(b"\"");
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::types::oid::UUID;
    use crate::types::tests::{json, refused};

    #[test]
    fn hyphens_and_lower_case() {
        let bytes = 0x550e_8400_e29b_41d4_a716_4466_5544_0000_u128.to_be_bytes();
        assert_eq!(
            json(UUID, bytes),
            "\"550e8400-e29b-41d4-a716-446655440000\""
        );
        refused(UUID, &bytes[..15]);
        refused(UUID, &[0; 17]);
    }
}
