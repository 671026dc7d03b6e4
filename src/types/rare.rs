//! Rarely used types and their encoding: bit strings, transaction ids, tid, pg_lsn, jsonpath, ltree, hstore, vector.
//!
//! Code size matters here, not speed: nothing is inlined, and every piece of text goes through [`put`].

use super::geometry::{self, Geometry};
use super::output::{Writer, put_short};
use super::{Outcome, Scalar, WRONG_LENGTH, digits, json_string, network, oid};

/// Rarely used types with a binary form of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rare {
    Geometry(Geometry),
    Inet,
    Cidr,
    Macaddr,
    Macaddr8,
    /// bit and varbit.
    Bits,
    Lsn,
    /// xid and cid, strings in `to_json`.
    Xid,
    /// The same, with eight bytes.
    Xid8,
    Tid,
    /// jsonpath, ltree, lquery, ltxtquery: text after a version.
    Versioned,
    Hstore,
    Vector,
}

impl Rare {
    pub(super) fn from_oid(type_oid: u32) -> Option<Rare> {
        Some(match type_oid {
            oid::POINT => Rare::Geometry(Geometry::Point),
            oid::LSEG => Rare::Geometry(Geometry::Lseg),
            oid::PATH => Rare::Geometry(Geometry::Path),
            oid::BOX => Rare::Geometry(Geometry::Box),
            oid::POLYGON => Rare::Geometry(Geometry::Polygon),
            oid::LINE => Rare::Geometry(Geometry::Line),
            oid::CIRCLE => Rare::Geometry(Geometry::Circle),
            oid::CIDR => Rare::Cidr,
            oid::INET => Rare::Inet,
            oid::MACADDR8 => Rare::Macaddr8,
            oid::MACADDR => Rare::Macaddr,
            oid::BIT | oid::VARBIT => Rare::Bits,
            oid::PG_LSN => Rare::Lsn,
            oid::XID | oid::CID => Rare::Xid,
            oid::XID8 => Rare::Xid8,
            oid::TID => Rare::Tid,
            oid::JSONPATH => Rare::Versioned,
            oid::HSTORE => Rare::Hstore,
            oid::VECTOR => Rare::Vector,
            _ => return None,
        })
    }

    #[inline(never)]
    pub(super) fn append(self, value: &[u8], out: &mut Writer<'_>) -> Outcome {
        match self {
            Rare::Geometry(geometry) => geometry::append(out, geometry, value),
            Rare::Inet => network::append(out, false, value),
            Rare::Cidr => network::append(out, true, value),
            Rare::Macaddr => network::append_hardware(out, 6, value),
            Rare::Macaddr8 => network::append_hardware(out, 8, value),
            Rare::Bits => append_bits(out, value),
            Rare::Lsn => append_lsn(out, value),
            Rare::Xid => {
                let bytes = value.try_into().map_err(|_| WRONG_LENGTH)?;
                append_unsigned(out, u32::from_be_bytes(bytes).into())
            }
            Rare::Xid8 => {
                let bytes = value.try_into().map_err(|_| WRONG_LENGTH)?;
                append_unsigned(out, u64::from_be_bytes(bytes))
            }
            Rare::Tid => append_tid(out, value),
            Rare::Versioned => match value {
                [1, text @ ..] => {
                    json_string::append(out, text);
                    Ok(())
                }
                _ => Err("unknown version"),
            },
            Rare::Hstore => append_hstore(out, value),
            Rare::Vector => append_vector(out, value),
        }
    }
}

/// Appends text as it is.
#[inline(never)]
pub(super) fn put(out: &mut Writer<'_>, text: &str) {
    out.put_slice(text.as_bytes());
}

/// Appends a decimal number.
#[inline(never)]
pub(super) fn append_number(out: &mut Writer<'_>, number: u64) {
    put_short!(out, |out| digits::append_u64(out, number));
}

/// Appends a byte as two hexadecimal digits.
#[inline(never)]
pub(super) fn append_hex(out: &mut Writer<'_>, byte: u8) {
    out.put_block(&digits::hex([byte, 0, 0, 0]), 2);
}

/// Appends a hexadecimal number without leading zeros. `letter` is the digit for ten, `a` or `A`.
#[inline(never)]
pub(super) fn hexadecimal(out: &mut Writer<'_>, number: u32, letter: u8) {
    let mut shift = 28_u32.saturating_sub((number | 1).leading_zeros() & 28);
    loop {
        let digit = (number >> shift & 15) as u8;
        let base = if digit < 10 {
            b'0'
        } else {
            letter.wrapping_sub(10)
        };
        out.put(&[base.wrapping_add(digit)]);
        if shift == 0 {
            return;
        }
        shift = shift.saturating_sub(4);
    }
}

/// Appends a value without the quotes that its JSON may have.
#[inline(never)]
pub(super) fn bare(out: &mut Writer<'_>, scalar: Scalar, value: &[u8]) -> Outcome {
    let start = out.position();
    scalar.append(value, out)?;
    let text = out.written_since(start);
    if let [b'"', ..] = text {
        text.copy_within(1.., 0);
        out.truncate(out.position().saturating_sub(2));
    }
    Ok(())
}

/// Appends a bit string: int32 number of bits, then the bits, the first one highest.
fn append_bits(out: &mut Writer<'_>, value: &[u8]) -> Outcome {
    let (count, bytes) = value.split_first_chunk().ok_or(WRONG_LENGTH)?;
    let mut count = u32::from_be_bytes(*count) as usize;
    if count.div_ceil(8) != bytes.len() {
        return Err(WRONG_LENGTH);
    }
    put(out, "\"");
    for byte in bytes {
        let bits: [u8; 8] = core::array::from_fn(|bit| b'0' | (byte >> (7 - bit) & 1));
        out.put_block(&bits, count.min(8));
        count = count.saturating_sub(8);
    }
    put(out, "\"");
    Ok(())
}

fn append_lsn(out: &mut Writer<'_>, value: &[u8]) -> Outcome {
    let lsn = u64::from_be_bytes(value.try_into().map_err(|_| WRONG_LENGTH)?);
    put(out, "\"");
    hexadecimal(out, (lsn >> 32) as u32, b'A');
    put(out, "/");
    hexadecimal(out, lsn as u32, b'A');
    put(out, "\"");
    Ok(())
}

fn append_unsigned(out: &mut Writer<'_>, number: u64) -> Outcome {
    put(out, "\"");
    append_number(out, number);
    put(out, "\"");
    Ok(())
}

/// Appends a tid: uint32 block, uint16 offset.
fn append_tid(out: &mut Writer<'_>, value: &[u8]) -> Outcome {
    let &[a, b, c, d, e, f] = value.as_array().ok_or(WRONG_LENGTH)?;
    put(out, "\"(");
    append_number(out, u32::from_be_bytes([a, b, c, d]).into());
    put(out, ",");
    append_number(out, u16::from_be_bytes([e, f]).into());
    put(out, ")\"");
    Ok(())
}

/// Appends an hstore as its cast to json writes it: int32 number of pairs, each int32 length and key, int32 length (-1:
/// NULL) and value.
fn append_hstore(out: &mut Writer<'_>, value: &[u8]) -> Outcome {
    let (count, mut rest) = value.split_first_chunk().ok_or(WRONG_LENGTH)?;
    let count = u32::from_be_bytes(*count);
    put(out, "{");
    for index in 0..count {
        if index != 0 {
            put(out, ", ");
        }
        json_string::append(out, next_field(&mut rest)?.ok_or(WRONG_LENGTH)?);
        put(out, ": ");
        match next_field(&mut rest)? {
            Some(text) => json_string::append(out, text),
            None => put(out, "null"),
        }
    }
    put(out, "}");
    expect_end(rest)
}

/// Takes an int32 length and that many bytes from `rest`; -1 is NULL.
pub(super) fn next_field<'a>(rest: &mut &'a [u8]) -> Result<Option<&'a [u8]>, &'static str> {
    let length = i32::from_be_bytes(next_four(rest)?);
    if length == -1 {
        return Ok(None);
    }
    let length = usize::try_from(length).map_err(|_| WRONG_LENGTH)?;
    let (field, after) = rest.split_at_checked(length).ok_or(WRONG_LENGTH)?;
    *rest = after;
    Ok(Some(field))
}

/// Takes the next four bytes from `rest`.
pub(super) fn next_four(rest: &mut &[u8]) -> Result<[u8; 4], &'static str> {
    let (bytes, after) = rest.split_first_chunk().ok_or(WRONG_LENGTH)?;
    *rest = after;
    Ok(*bytes)
}

/// Fails if `rest` is not empty.
pub(super) fn expect_end(rest: &[u8]) -> Outcome {
    if rest.is_empty() {
        Ok(())
    } else {
        Err(WRONG_LENGTH)
    }
}

/// Appends pgvector's vector: int16 dimensions, int16 unused, then a float4 per dimension.
fn append_vector(out: &mut Writer<'_>, value: &[u8]) -> Outcome {
    let (&[a, b, 0, 0], numbers) = value.split_first_chunk().ok_or(WRONG_LENGTH)? else {
        return Err(WRONG_LENGTH);
    };
    if numbers.is_empty() || usize::from(u16::from_be_bytes([a, b])) * 4 != numbers.len() {
        return Err(WRONG_LENGTH);
    }
    let mut before = "\"[";
    for number in numbers.chunks(4) {
        put(out, before);
        bare(out, Scalar::Float4, number)?;
        before = ",";
    }
    put(out, "]\"");
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::types::oid;
    use crate::types::tests::{json, refused};
    use alloc::vec::Vec;

    #[test]
    fn bit_strings() {
        assert_eq!(json(1560, [0, 0, 0, 0]), "\"\"");
        assert_eq!(json(1560, [0, 0, 0, 3, 0b1010_0000]), "\"101\"");
        assert_eq!(json(1562, [0, 0, 0, 9, 0xf0, 0x80]), "\"111100001\"");
        refused(1560, &[0, 0, 0, 9, 0xf0]);
        refused(1560, &[0xff, 0xff, 0xff, 0xff, 0xf0]);
        refused(1560, &[0, 0, 0]);
    }

    #[test]
    fn numbers_that_are_strings() {
        assert_eq!(json(28, u32::MAX.to_be_bytes()), "\"4294967295\"");
        assert_eq!(
            json(5069, u64::MAX.to_be_bytes()),
            "\"18446744073709551615\""
        );
        assert_eq!(json(27, [0, 0, 0, 7, 0, 9]), "\"(7,9)\"");
        assert_eq!(json(3220, [0; 8]), "\"0/0\"");
        assert_eq!(
            json(3220, 0x16_b374_d848_u64.to_be_bytes()),
            "\"16/B374D848\""
        );
        refused(28, &[0; 5]);
        refused(28, &[0; 8]);
        refused(5069, &[0; 4]);
        refused(27, &[0; 7]);
        refused(3220, &[0; 4]);
    }

    #[test]
    fn versioned_text() {
        assert_eq!(json(4072, b"\x01$.\"a\""), "\"$.\\\"a\\\"\"");
        refused(4072, b"\x02$");
        refused(4072, b"");
    }

    #[test]
    fn hstore_is_an_object_of_texts() {
        let text = |text: &str| [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat();
        let two = [
            &[0, 0, 0, 2],
            &text("a")[..],
            &text("1"),
            &text("b\""),
            &[0xff; 4],
        ]
        .concat();
        assert_eq!(json(oid::HSTORE, &two), "{\"a\": \"1\", \"b\\\"\": null}");
        assert_eq!(json(oid::HSTORE, [0; 4]), "{}");
        for length in 0..two.len() {
            refused(oid::HSTORE, &two[..length]);
        }
        refused(oid::HSTORE, &[&two[..], &[0]].concat());
        refused(oid::HSTORE, &[0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff]);
    }

    /// The layout that pgvector 0.8 sends (bytes made by hand) for `'[1,2.5,-3]'`.
    #[test]
    fn vectors() {
        let mut value = Vec::from([0, 3, 0, 0]);
        value.extend([1.0_f32, 2.5, -3.0].iter().flat_map(|n| n.to_be_bytes()));
        assert_eq!(json(oid::VECTOR, &value), "\"[1,2.5,-3]\"");
        refused(oid::VECTOR, &value[..15]);
        refused(oid::VECTOR, &[0, 3, 0, 1]);
    }
}
