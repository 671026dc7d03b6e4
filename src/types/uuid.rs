//! uuid: 16 bytes as `"xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"`.

use alloc::vec::Vec;

use super::digits::hex;
use super::{Outcome, WRONG_LENGTH};

/// Appends the binary form; its text form is a plain string.
pub(super) fn append(out: &mut Vec<u8>, value: &[u8]) -> Outcome {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] =
        value.try_into().map_err(|_| WRONG_LENGTH)?;
    let [q, r, s, t, u, v, w, x] = hex([a, b, c, d]);
    out.extend_from_slice(&[b'"', q, r, s, t, u, v, w, x]);
    let [q, r, s, t, u, v, w, x] = hex([e, f, g, h]);
    out.extend_from_slice(&[b'-', q, r, s, t, b'-', u, v, w, x]);
    let [q, r, s, t, u, v, w, x] = hex([i, j, k, l]);
    out.extend_from_slice(&[b'-', q, r, s, t, b'-', u, v, w, x]);
    out.extend_from_slice(&hex([m, n, o, p]));
    out.push(b'"');
    Ok(())
}
