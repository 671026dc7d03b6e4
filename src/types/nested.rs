//! Values made of other values, to any depth: arrays, composites and records. Ranges are in range.rs.
//!
//! ```text
//! record       int32 number of fields, per field: uint32 type, int32 length (-1: NULL), bytes
//! ```
//! A record is an object whose keys are the attributes of its type, or `f1`, `f2`, …. Arrays and records state the
//! types they are made of. If these are not the types that the catalog stated, the type has changed.

use super::catalog::{Attribute, Kind, Types};
use super::output::Writer;
use super::rare::{append_number, expect_end, next_field, next_four, put};
use super::{AsStrings, Outcome, UNKNOWN_TYPE, array, json_string};
use alloc::vec::Vec;
use core::cell::Cell;

/// Deeper than any type in use, shallow enough for the stack.
pub(super) const MAX_DEPTH: u32 = 64;

/// The values that are the same at every depth of one value.
pub(super) struct Nest<'a> {
    pub types: &'a Types,
    pub strings: AsStrings,
    /// The unknown type, after [`UNKNOWN_TYPE`].
    pub unknown: Cell<u32>,
}

impl<'a> Nest<'a> {
    pub(super) fn new(types: &'a Types, strings: AsStrings) -> Nest<'a> {
        Nest {
            types,
            strings,
            unknown: Cell::new(0),
        }
    }

    #[inline(never)]
    pub(super) fn append(
        &self,
        type_oid: u32,
        value: &[u8],
        out: &mut Writer<'_>,
        depth: u32,
    ) -> Outcome {
        if depth > MAX_DEPTH {
            return Err("nested too deeply");
        }
        match self.types.kind(type_oid) {
            Some(Kind::Scalar(scalar)) => scalar.append_as(value, self.strings, out),
            Some(Kind::Array(element) | Kind::Vector(element)) => {
                array::append_rare(out, value, element, |out, value| {
                    self.append(element, value, out, depth.saturating_add(1))
                })
            }
            Some(Kind::Composite(attributes)) => {
                self.append_record(type_oid, attributes, value, out, depth.saturating_add(1))
            }
            Some(Kind::Range(subtype)) => self.append_range(subtype, value, out),
            Some(Kind::Multirange(range)) => self.append_multirange(range, value, out),
            Some(Kind::Text(_)) | None => self.refuse(type_oid),
        }
    }

    pub(super) fn refuse(&self, type_oid: u32) -> Outcome {
        self.unknown.set(type_oid);
        Err(UNKNOWN_TYPE)
    }

    fn append_record(
        &self,
        record_oid: u32,
        attributes: Option<&[Attribute]>,
        value: &[u8],
        out: &mut Writer<'_>,
        depth: u32,
    ) -> Outcome {
        let mut rest = value;
        let count = u32::from_be_bytes(next_four(&mut rest)?);
        if attributes.is_some_and(|attributes| attributes.len() != count as usize) {
            return self.refuse(record_oid);
        }
        put(out, "{");
        for index in 0..count {
            let type_oid = u32::from_be_bytes(next_four(&mut rest)?);
            if index != 0 {
                put(out, ",");
            }
            match attributes.map(|attributes| attributes.get(index as usize)) {
                Some(Some(attribute @ [known, ..])) if *known == type_oid => {
                    json_string::append(out, self.types.name(attribute));
                }
                Some(_) => return self.refuse(record_oid),
                None => {
                    put(out, "\"f");
                    append_number(out, u64::from(index) + 1);
                    put(out, "\"");
                }
            }
            put(out, ":");
            match next_field(&mut rest)? {
                Some(value) => self.append(type_oid, value, out, depth)?,
                None => put(out, "null"),
            }
        }
        put(out, "}");
        expect_end(rest)
    }
}

#[inline(never)]
pub(super) fn push(text: &mut Vec<u8>, byte: u8) {
    text.push(byte);
}

#[cfg(test)]
pub(super) mod tests {
    use crate::types::tests::{json, objects_json, refused};
    use crate::types::{AsStrings, Encoder, InvalidValue, Types};
    use alloc::string::String;
    use alloc::vec::Vec;

    pub(in crate::types) fn sized(value: Option<&[u8]>) -> Vec<u8> {
        let length = value.map_or(-1, |value| value.len() as i32);
        [&length.to_be_bytes()[..], value.unwrap_or_default()].concat()
    }

    fn record(fields: &[(u32, Option<&[u8]>)]) -> Vec<u8> {
        let mut bytes = (fields.len() as u32).to_be_bytes().to_vec();
        for (type_oid, value) in fields {
            bytes.extend(type_oid.to_be_bytes());
            bytes.extend(sized(*value));
        }
        bytes
    }

    /// 20000 is a domain over int8, 20001 an enum, 20002 their composite, 20003 an array of that, 20004 a range of
    /// text, 20005 its multirange, 20006 a domain over itself, 20007 a composite with an undescribed type, 20008 a
    /// composite whose attributes do not exist.
    #[rustfmt::skip]
    fn types() -> Types {
        Types::new(
            &[20000, 0, 20, 0, 20001, 0, 25, 0, 20002, 4, 2, 0, 20003, 1, 20002, 0, 20004, 2, 25, 0,
              20005, 3, 20004, 0, 20006, 0, 20006, 0, 20007, 4, 2, 1, 20008, 4, 1, 9],
            &[20000, 0, 2, 20001, 2, 3, 30000, 0, 1],
            "idm",
        )
    }

    pub(in crate::types) fn with_types(
        type_oid: u32,
        value: &[u8],
    ) -> Result<String, InvalidValue> {
        let mut out = Vec::new();
        let encoder = Encoder::with_types(type_oid, 1, AsStrings::ALL, &types()).unwrap();
        encoder.encode(value, &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn records_are_objects() {
        let value = record(&[(23, Some(&[0, 0, 0, 7])), (25, None), (20, Some(&[0; 8]))]);
        assert_eq!(json(2249, &value), "{\"f1\":7,\"f2\":null,\"f3\":0}");
        assert_eq!(
            objects_json(2249, &value),
            "{\"f1\":7,\"f2\":null,\"f3\":\"0\"}"
        );
        assert_eq!(json(2249, [0; 4]), "{}");
        for length in 0..value.len() {
            refused(2249, &value[..length]);
        }
        refused(2249, &[&value[..], &[0]].concat());
    }

    #[test]
    fn a_record_in_a_record_up_to_a_bound() {
        let mut value = record(&[]);
        for _ in 0..64 {
            value = record(&[(2249, Some(&value))]);
        }
        assert!(json(2249, &value).ends_with(&"}".repeat(65)));
        refused(2249, &record(&[(2249, Some(&value))]));
    }

    #[test]
    fn an_unknown_type_is_named() {
        let value = record(&[(790, Some(&[0; 8]))]);
        let mut out = Vec::new();
        let encoder = Encoder::new(2249, 1, AsStrings::NONE).unwrap();
        let error = encoder.encode(&value, &mut out).unwrap_err();
        assert!(error.is_unknown_type());
        assert_eq!(error.type_oid, 790);
    }

    #[test]
    fn composites_have_names() {
        let value = record(&[
            (20000, Some(&[0, 0, 0, 0, 0, 0, 0, 5])),
            (20001, Some(b"x")),
        ]);
        assert_eq!(
            with_types(20002, &value).unwrap(),
            "{\"id\":\"5\",\"m\":\"x\"}"
        );
        let mut array = Vec::new();
        for number in [1_u32, 0, 20002, 1, 1] {
            array.extend(number.to_be_bytes());
        }
        array.extend(sized(Some(&value)));
        assert_eq!(
            with_types(20003, &array).unwrap(),
            "[{\"id\":\"5\",\"m\":\"x\"}]"
        );
        assert_eq!(with_types(20001, b"x").unwrap(), "\"x\"");
    }

    #[test]
    fn another_composite_than_the_catalog_said_is_unknown() {
        for value in [
            record(&[(20000, None)]),
            record(&[(20000, None), (25, None)]),
            record(&[(20000, None), (20001, None), (23, None)]),
        ] {
            let error = with_types(20002, &value).unwrap_err();
            assert!(error.is_unknown_type());
            assert_eq!(error.type_oid, 20002);
        }
    }

    #[test]
    fn what_leads_nowhere_has_no_binary_form() {
        let types = types();
        for (type_oid, known) in [
            (20000, true),
            (20002, true),
            (20003, true),
            (20004, true),
            (20005, true),
            (20006, false),
            (20007, false),
            (20008, false),
            (20009, false),
        ] {
            assert_eq!(types.has_binary_encoder(type_oid), known, "{type_oid}");
        }
        assert!(!Types::new(&[20000, 0, 23], &[], "").has_binary_encoder(20000));
        assert!(!Types::new(&[20000, 4, 2, 0], &[23, 0, 0], "").has_binary_encoder(20000));
    }

    #[test]
    fn what_is_made_of_too_many_parts_has_no_binary_form() {
        let tower = |height: u32| {
            let (mut types, mut attributes) = (Vec::new(), Vec::new());
            for oid in 20000..20000 + height {
                let of = if oid + 1 == 20000 + height {
                    23
                } else {
                    oid + 1
                };
                types.extend([oid, 4, 2, attributes.len() as u32 / 3]);
                attributes.extend([of, 0, 0, of, 0, 0]);
            }
            Types::new(&types, &attributes, "")
        };
        assert!(tower(12).has_binary_encoder(20000));
        assert!(!tower(31).has_binary_encoder(20000));
    }
}
