//! Types with few forms: uuid, `"char"`, network addresses, bit strings, transaction ids, tid, pg_lsn; and money and
//! the snapshots, which have no binary form here, and of which only the form is checked.
//!
//! ```text
//! uuid, macaddr      550e8400-e29b-41d4-a716-446655440000     08:00:2b:01:02:03
//! inet, cidr         10.0.0.1   10.0.0.0/8   ::ffff:1.2.3.4   2001:db8::/32
//! bit, varbit        101
//! xid, cid, xid8     4294967295
//! tid                (4294967295,65535)
//! pg_lsn             16/B374D848; since PostgreSQL 19 with zeros: 0/00000010
//! "char"             x, \303, nothing for zero
//! pg_snapshot        10:20:10,14,15
//! money              $1.00, or as lc_monetary writes it
//! ```
//! A value that can be written in several ways (an IPv6 address) is read leniently, written as from binary, and
//! compared.

use super::append_same;
use super::scanner::Scanner;
use crate::types::json_string;
use crate::types::oid;
use crate::types::output::Writer;
use crate::types::rare::Rare;
use crate::types::scalar::Scalar;
use core::net::IpAddr;

/// The digits of 2^63, and a zero before the point if a currency has that many fractional digits.
const MOST_DIGITS_OF_MONEY: usize = 20;

/// Returns the check for a type that has no binary form here, but whose text has a form.
pub(in crate::types) fn of_text_only(type_oid: u32) -> Option<fn(&[u8]) -> bool> {
    match type_oid {
        oid::MONEY => Some(is_money),
        oid::PG_SNAPSHOT | oid::TXID_SNAPSHOT => Some(|text| check_snapshot(text).is_some()),
        _ => None,
    }
}

/// Appends a value written in hexadecimal: a uuid, a macaddr or a macaddr8, of `length` bytes.
#[inline(never)]
pub(super) fn append_hex(
    scalar: Scalar,
    length: usize,
    out: &mut Writer<'_>,
    text: &[u8],
) -> Option<()> {
    let mut digits = text
        .iter()
        .filter_map(|byte| char::from(*byte).to_digit(16));
    let mut bytes = [0_u8; 16];
    let bytes = bytes.get_mut(..length)?;
    for byte in bytes.iter_mut() {
        *byte = (digits.next()? << 4 | digits.next()?) as u8;
    }
    append_same(scalar, bytes, out, text)
}

/// Appends an inet or a cidr.
pub(super) fn append_address(rare: Rare, out: &mut Writer<'_>, text: &[u8]) -> Option<()> {
    let mut rest = Scanner(text);
    let address = rest.until(|byte| byte == b'/');
    let address: IpAddr = str::from_utf8(address).ok()?.parse().ok()?;
    let (family, most, bytes) = match address {
        IpAddr::V4(address) => (2, 32, &address.octets()[..]),
        IpAddr::V6(address) => (3, 128, &address.octets()[..]),
    };
    let bits = match rest.eat(b"/") {
        Some(()) => u8::try_from(rest.unsigned()?).ok()?,
        None => most,
    };
    rest.end()?;
    if rare == Rare::Cidr && !is_network(bytes, bits) {
        return None;
    }
    let mut binary = [0; 20];
    let (head, after) = binary.split_first_chunk_mut()?;
    *head = [family, bits, 0, bytes.len() as u8];
    after.get_mut(..bytes.len())?.copy_from_slice(bytes);
    let binary = binary.get(..bytes.len().wrapping_add(4))?;
    append_same(Scalar::Rare(rare), binary, out, text)
}

/// Returns whether no bit after the first `bits` is set.
fn is_network(address: &[u8], bits: u8) -> bool {
    let mut left = u32::from(bits);
    address.iter().all(|byte| {
        let host = byte.checked_shl(left).unwrap_or(0);
        left = left.saturating_sub(8);
        host == 0
    })
}

pub(super) fn append_bits(out: &mut Writer<'_>, text: &[u8]) -> Option<()> {
    let is_bits = text.iter().all(|byte| matches!(byte, b'0' | b'1'));
    is_bits.then(|| json_string::append(out, text))
}

/// Appends a number up to `most`.
pub(super) fn append_unsigned(out: &mut Writer<'_>, text: &[u8], most: u64) -> Option<()> {
    let mut rest = Scanner(text);
    let number = rest.unsigned()?;
    rest.end()?;
    (number <= most).then(|| json_string::append(out, text))
}

pub(super) fn append_tid(out: &mut Writer<'_>, text: &[u8]) -> Option<()> {
    let mut rest = Scanner(text);
    rest.eat(b"(")?;
    let block = rest.unsigned()?;
    rest.eat(b",")?;
    let offset = rest.unsigned()?;
    rest.eat(b")")?;
    rest.end()?;
    let exists = block <= u32::MAX.into() && offset <= u16::MAX.into();
    exists.then(|| json_string::append(out, text))
}

pub(super) fn append_lsn(out: &mut Writer<'_>, text: &[u8]) -> Option<()> {
    let half = |digits: &[u8]| {
        let is_upper = |byte: &u8| matches!(byte, b'0'..=b'9' | b'A'..=b'F');
        if !(1..=8).contains(&digits.len()) || !digits.iter().all(is_upper) {
            return None;
        }
        u32::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
    };
    let mut rest = Scanner(text);
    let high = half(rest.until(|byte| byte == b'/'))?;
    rest.eat(b"/")?;
    let low = half(rest.0)?;
    let lsn = u64::from(high) << 32 | u64::from(low);
    Rare::Lsn.append(&lsn.to_be_bytes(), out).ok()
}

/// Appends a `"char"`. Before PostgreSQL 15 a byte of 0x80 or more arrives unescaped.
pub(super) fn append_char(out: &mut Writer<'_>, text: &[u8]) -> Option<()> {
    let byte = match *text {
        [] => 0,
        [0] => return None,
        [byte] => byte,
        [b'\\', a @ (b'2' | b'3'), b @ b'0'..=b'7', c @ b'0'..=b'7'] => {
            (a & 7) << 6 | (b & 7) << 3 | (c & 7)
        }
        _ => return None,
    };
    Scalar::Char.append(&[byte], out).ok()
}

/// Checks a snapshot: the first transaction that runs and the first that has not begun, then those that run between
/// them.
fn check_snapshot(text: &[u8]) -> Option<()> {
    let mut rest = Scanner(text);
    rest.unsigned()?;
    rest.eat(b":")?;
    rest.unsigned()?;
    rest.eat(b":")?;
    if rest.0.is_empty() {
        return Some(());
    }
    loop {
        rest.unsigned()?;
        if rest.eat(b",").is_none() {
            return rest.end();
        }
    }
}

/// Checks money. A locale chooses the characters around and between the digits, so only the number of digits and the
/// absence of control characters can be checked.
fn is_money(text: &[u8]) -> bool {
    let digits = text.iter().filter(|byte| byte.is_ascii_digit()).count();
    (1..=MOST_DIGITS_OF_MONEY).contains(&digits) && !text.iter().any(u8::is_ascii_control)
}
