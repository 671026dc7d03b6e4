//! inet, cidr, macaddr, macaddr8.
//!
//! ```text
//! inet, cidr   uint8 family (2: IPv4, 3: IPv6) | uint8 bits | uint8 is cidr | uint8 length | the address
//! macaddr      6 bytes, macaddr8 8
//! ```
//! IPv6 is written like the server's `inet_net_ntop` (BIND's) writes it: the first of the longest runs of at least two
//! zero words is `::`, and an address that looks like it embeds an IPv4 address ends in dotted form.

use super::output::Writer;
use super::rare::{append_hex, append_number, hexadecimal, put};
use super::{Outcome, WRONG_LENGTH};

/// Appends an inet, or a cidr, which always shows its number of bits.
pub(super) fn append(out: &mut Writer<'_>, is_cidr: bool, value: &[u8]) -> Outcome {
    put(out, "\"");
    let (bits, most) = match *value {
        [2, bits, 0 | 1, 4, a, b, c, d] => {
            append_ipv4(out, [a, b, c, d]);
            (bits, 32)
        }
        [3, bits, 0 | 1, 16, ref address @ ..] => {
            append_ipv6(out, address.try_into().map_err(|_| WRONG_LENGTH)?);
            (bits, 128)
        }
        _ => return Err(WRONG_LENGTH),
    };
    if bits > most {
        return Err("more bits than the address has");
    }
    if is_cidr || bits < most {
        put(out, "/");
        append_number(out, bits.into());
    }
    put(out, "\"");
    Ok(())
}

fn append_ipv4(out: &mut Writer<'_>, address: [u8; 4]) {
    let mut before = "";
    for byte in address {
        put(out, before);
        append_number(out, byte.into());
        before = ".";
    }
}

fn append_ipv6(out: &mut Writer<'_>, address: &[u8; 16]) {
    let (pairs, _) = address.as_chunks();
    let words = || pairs.iter().map(|pair| u16::from_be_bytes(*pair));
    let (mut first, mut longest, mut run) = (usize::MAX, 1, 0);
    for (index, word) in words().enumerate() {
        run = if word == 0 { run + 1 } else { 0 };
        if run > longest {
            (first, longest) = (index + 1 - run, run);
        }
    }
    let has_ipv4 = first == 0 && (longest == 6 || (longest == 5 && words().nth(5) == Some(0xffff)));
    for (index, word) in words().enumerate() {
        if (first..first.saturating_add(longest)).contains(&index) {
            if index == first {
                put(out, ":");
            }
            continue;
        }
        if index != 0 {
            put(out, ":");
        }
        if index == 6
            && has_ipv4
            && let Some(tail) = address.last_chunk()
        {
            return append_ipv4(out, *tail);
        }
        hexadecimal(out, word.into(), b'a');
    }
    if first.saturating_add(longest) == 8 {
        put(out, ":");
    }
}

/// Appends a macaddr or a macaddr8.
pub(super) fn append_hardware(out: &mut Writer<'_>, length: usize, value: &[u8]) -> Outcome {
    if value.len() != length {
        return Err(WRONG_LENGTH);
    }
    let mut before = "\"";
    for byte in value {
        put(out, before);
        append_hex(out, *byte);
        before = ":";
    }
    put(out, "\"");
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::types::tests::{json, refused};
    use alloc::format;
    use alloc::vec::Vec;

    fn ipv6(bits: u8, words: [u16; 8]) -> Vec<u8> {
        let mut value = Vec::from([3, bits, 0, 16]);
        value.extend(words.iter().flat_map(|word| word.to_be_bytes()));
        value
    }

    #[test]
    fn bits_are_shown_where_they_say_something() {
        assert_eq!(json(869, [2, 32, 0, 4, 10, 0, 0, 1]), "\"10.0.0.1\"");
        assert_eq!(json(869, [2, 8, 0, 4, 10, 0, 0, 1]), "\"10.0.0.1/8\"");
        assert_eq!(json(650, [2, 32, 1, 4, 10, 0, 0, 1]), "\"10.0.0.1/32\"");
        assert_eq!(json(869, ipv6(64, [1; 8])), "\"1:1:1:1:1:1:1:1/64\"");
    }

    #[test]
    #[rustfmt::skip]
    fn zeros_and_addresses_inside_addresses() {
        for (words, expected) in [
            ([0; 8], "::"),
            ([0, 0, 0, 0, 0, 0, 0, 1], "::1"),
            ([0, 0, 0, 0, 0, 0, 0, 2], "::2"),
            ([0, 0, 0, 0, 0, 0, 0x0102, 0x0304], "::1.2.3.4"),
            ([0, 0, 0, 0, 0, 0xffff, 0x0102, 0x0304], "::ffff:1.2.3.4"),
            ([0x2001, 0xdb8, 0, 0, 1, 0, 0, 1], "2001:db8::1:0:0:1"),
            ([1, 0, 2, 3, 4, 5, 6, 7], "1:0:2:3:4:5:6:7"),
            ([1, 2, 3, 4, 5, 6, 0, 0], "1:2:3:4:5:6::"),
        ] {
            assert_eq!(json(869, ipv6(128, words)), format!("\"{expected}\""));
        }
    }

    #[test]
    fn hardware_addresses() {
        assert_eq!(json(829, [8, 0, 0x2b, 1, 2, 3]), "\"08:00:2b:01:02:03\"");
        assert_eq!(json(774, [0xff; 8]), "\"ff:ff:ff:ff:ff:ff:ff:ff\"");
        refused(829, &[0; 8]);
        refused(774, &[0; 6]);
    }

    #[test]
    fn lies_are_refused() {
        refused(869, &[2, 33, 0, 4, 10, 0, 0, 1]);
        refused(869, &[2, 32, 0, 4, 10, 0, 0]);
        refused(869, &[2, 32, 0, 16, 10, 0, 0, 1]);
        refused(869, &[4, 32, 0, 4, 10, 0, 0, 1]);
        refused(650, &ipv6(129, [0; 8]));
        refused(650, &ipv6(128, [0; 8])[..19]);
    }
}
