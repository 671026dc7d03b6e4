//! Values made of other values, of any depth: arrays, composites and records, ranges and multiranges.
//!
//! ```text
//! record       int32 number of fields, per field: uint32 type, int32 length (-1: NULL), bytes
//! range        uint8 flags, per bound that is there: int32 length, bytes
//! multirange   int32 number of ranges, per range: int32 length, bytes
//! ```
//! A record is an object, with the names of its type or `f1`, `f2`, …; a range is a string in the server's text form,
//! whose bounds are text too (`2024-01-01 00:00:00`, where JSON has a `T`). Arrays and records say of which types they
//! are made: of others than the catalog said, the type has changed.

use super::catalog::{Attribute, Kind, Types};
use super::output::{Target, Writer};
use super::rare::{append_number, bare, ended, field, fixed, put};
use super::{Outcome, Scalar, Strings, UNKNOWN_TYPE, WRONG_LENGTH, array, json_string};
use alloc::vec::Vec;
use core::cell::Cell;

/// Deeper than any type that people make, shallower than the stack.
pub(super) const MAX_DEPTH: u32 = 64;

/// Flags of a range.
const EMPTY: u8 = 0x01;
const LOWER_INCLUSIVE: u8 = 0x02;
const UPPER_INCLUSIVE: u8 = 0x04;
const LOWER_INFINITE: u8 = 0x08;
const UPPER_INFINITE: u8 = 0x10;

/// What holds at every depth of one value.
pub(super) struct Nest<'a> {
    pub types: &'a Types,
    pub strings: Strings,
    /// Behind [`UNKNOWN_TYPE`]: which one.
    pub unknown: Cell<u32>,
}

impl<'a> Nest<'a> {
    pub(super) fn new(types: &'a Types, strings: Strings) -> Nest<'a> {
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
            Some(Kind::Array(element)) => array::append_rare(out, value, element, |out, value| {
                self.append(element, value, out, depth.saturating_add(1))
            }),
            Some(Kind::Composite(attributes)) => {
                self.append_record(type_oid, attributes, value, out, depth.saturating_add(1))
            }
            Some(Kind::Range(subtype)) => self.append_range(subtype, value, out),
            Some(Kind::Multirange(range)) => self.append_multirange(range, value, out),
            None => self.refuse(type_oid),
        }
    }

    fn refuse(&self, type_oid: u32) -> Outcome {
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
        let count = u32::from_be_bytes(fixed(&mut rest)?);
        if attributes.is_some_and(|attributes| attributes.len() != count as usize) {
            return self.refuse(record_oid);
        }
        put(out, "{");
        for index in 0..count {
            let type_oid = u32::from_be_bytes(fixed(&mut rest)?);
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
            match field(&mut rest)? {
                Some(value) => self.append(type_oid, value, out, depth)?,
                None => put(out, "null"),
            }
        }
        put(out, "}");
        ended(rest)
    }

    fn append_range(&self, subtype_oid: u32, value: &[u8], out: &mut Writer<'_>) -> Outcome {
        let Some(subtype) = self.types.subtype(subtype_oid) else {
            return self.refuse(subtype_oid);
        };
        if is_plain(subtype) {
            put(out, "\"");
            append_plain_range(subtype, value, out)?;
            put(out, "\"");
            return Ok(());
        }
        let mut text = Vec::new();
        range_text(subtype, value, &mut text)?;
        json_string::append(out, &text);
        Ok(())
    }

    fn append_multirange(&self, range: u32, value: &[u8], out: &mut Writer<'_>) -> Outcome {
        let Some(Kind::Range(subtype_oid)) = self.types.kind(range) else {
            return self.refuse(range);
        };
        let Some(subtype) = self.types.subtype(subtype_oid) else {
            return self.refuse(subtype_oid);
        };
        if is_plain(subtype) {
            put(out, "\"{");
            for_each_range(value, |index, range| {
                put(out, if index == 0 { "" } else { "," });
                append_plain_range(subtype, range, out)
            })?;
            put(out, "}\"");
            return Ok(());
        }
        let mut text = Vec::from(*b"{");
        for_each_range(value, |index, range| {
            if index != 0 {
                push(&mut text, b',');
            }
            range_text(subtype, range, &mut text)
        })?;
        push(&mut text, b'}');
        json_string::append(out, &text);
        Ok(())
    }
}

fn for_each_range(value: &[u8], mut append: impl FnMut(u32, &[u8]) -> Outcome) -> Outcome {
    let mut rest = value;
    for index in 0..u32::from_be_bytes(fixed(&mut rest)?) {
        append(index, field(&mut rest)?.ok_or(WRONG_LENGTH)?)?;
    }
    ended(rest)
}

/// A range that is not empty. `None`: there is no such bound.
struct Bounds<'a> {
    flags: u8,
    lower: Option<&'a [u8]>,
    upper: Option<&'a [u8]>,
}

impl<'a> Bounds<'a> {
    /// `None`: the range is empty.
    fn parse(value: &'a [u8]) -> Result<Option<Bounds<'a>>, &'static str> {
        let (&flags, mut rest) = value.split_first().ok_or(WRONG_LENGTH)?;
        if flags >= 0x20 {
            return Err("unknown flags of a range");
        }
        if flags & EMPTY != 0 {
            ended(rest)?;
            return Ok(None);
        }
        let mut bound = |infinite: u8| match flags & infinite {
            0 => Ok::<_, &'static str>(Some(field(&mut rest)?.ok_or(WRONG_LENGTH)?)),
            _ => Ok(None),
        };
        let (lower, upper) = (bound(LOWER_INFINITE)?, bound(UPPER_INFINITE)?);
        ended(rest)?;
        Ok(Some(Bounds {
            flags,
            lower,
            upper,
        }))
    }

    fn opening(&self) -> &'static str {
        if self.flags & LOWER_INCLUSIVE != 0 {
            "["
        } else {
            "("
        }
    }

    fn closing(&self) -> &'static str {
        if self.flags & UPPER_INCLUSIVE != 0 {
            "]"
        } else {
            ")"
        }
    }
}

/// The server's text of a range.
fn range_text(subtype: Scalar, value: &[u8], text: &mut Vec<u8>) -> Outcome {
    let Some(bounds) = Bounds::parse(value)? else {
        text.extend_from_slice(b"empty");
        return Ok(());
    };
    text.extend_from_slice(bounds.opening().as_bytes());
    if let Some(lower) = bounds.lower {
        append_bound(subtype, lower, Scalar::append, text)?;
    }
    push(text, b',');
    if let Some(upper) = bounds.upper {
        append_bound(subtype, upper, Scalar::append, text)?;
    }
    text.extend_from_slice(bounds.closing().as_bytes());
    Ok(())
}

// -- ranges of numbers and times, without a text of their own -------------------------------------------------------

/// Whether the text of such a bound holds nothing that JSON escapes.
fn is_plain(subtype: Scalar) -> bool {
    use Scalar as S;
    matches!(
        subtype,
        S::Int2 | S::Int4 | S::Int8 | S::Numeric | S::Float4 | S::Float8
    ) || is_day(subtype)
}

/// Has a space in its text, perhaps, and then quotes around it.
fn is_day(subtype: Scalar) -> bool {
    matches!(
        subtype,
        Scalar::Date | Scalar::Timestamp | Scalar::Timestamptz
    )
}

/// Appends the server's text of a range as it stands in a JSON string.
fn append_plain_range(subtype: Scalar, value: &[u8], out: &mut Writer<'_>) -> Outcome {
    let Some(bounds) = Bounds::parse(value)? else {
        put(out, "empty");
        return Ok(());
    };
    put(out, bounds.opening());
    if let Some(lower) = bounds.lower {
        append_plain_bound(subtype, lower, out)?;
    }
    put(out, ",");
    if let Some(upper) = bounds.upper {
        append_plain_bound(subtype, upper, out)?;
    }
    put(out, bounds.closing());
    Ok(())
}

/// JSON has `2024-01-02T00:00:00+00:00 BC` where the server's text has `"2024-01-02 00:00:00+00 BC"`.
fn append_plain_bound(subtype: Scalar, value: &[u8], out: &mut Writer<'_>) -> Outcome {
    let start = out.position();
    bare(out, subtype, value)?;
    if !is_day(subtype) {
        return Ok(());
    }
    let json = out.written_since(start);
    let mut copy = [0; LONGEST_DAY];
    let Some(text) = copy.get_mut(..json.len()) else {
        return Err(WRONG_LENGTH);
    };
    text.copy_from_slice(json);
    let at = |byte: u8| text.iter().position(|found| *found == byte);
    let (separator, era) = (at(b'T'), at(b' '));
    if separator.is_none() && era.is_none() {
        return Ok(());
    }
    out.truncate(start);
    put(out, "\\\"");
    let (day, rest) = text.split_at(separator.unwrap_or(0));
    if let [b'T', time @ ..] = rest {
        out.put_slice(day);
        put(out, " ");
        let zone = time.iter().position(|byte| *byte == b'+');
        let (clock, zone) = time.split_at(zone.unwrap_or(time.len()));
        out.put_slice(clock);
        if let [b'+', b'0', b'0', b':', b'0', b'0', era @ ..] = zone {
            put(out, "+00");
            out.put_slice(era);
        }
    } else {
        out.put_slice(rest);
    }
    put(out, "\\\"");
    Ok(())
}

/// More than `"294276-12-31T23:59:59.999999+00:00 BC"`.
const LONGEST_DAY: usize = 48;

/// Appends a bound as `range_out` quotes it, made of the JSON that `append` makes of it.
#[inline(never)]
pub(super) fn append_bound(
    subtype: Scalar,
    value: &[u8],
    append: fn(Scalar, &[u8], &mut Writer<'_>) -> Outcome,
    text: &mut Vec<u8>,
) -> Outcome {
    let mut json = Vec::new();
    json.write(|out| append(subtype, value, out))?;
    let is_text = subtype == Scalar::Text;
    let is_moment = matches!(subtype, Scalar::Timestamp | Scalar::Timestamptz);
    let body = match json.as_slice() {
        _ if is_text => value,
        [b'"', body @ .., b'"'] => body,
        number => number,
    };
    let is_special = |byte: &u8| match byte {
        b'T' => is_moment,
        b'"' | b'\\' | b'(' | b')' | b'[' | b']' | b',' | b' ' | 9..=13 => true,
        _ => false,
    };
    let quotes = body.is_empty() || body.iter().any(is_special);
    if quotes {
        push(text, b'"');
    }
    let mut bytes = body.iter().copied();
    while let Some(mut byte) = bytes.next() {
        match byte {
            b'\\' if !is_text => byte = bytes.next().unwrap_or(byte),
            b'T' if is_moment => byte = b' ',
            // `+00:00` is `+00` here.
            b':' if text.ends_with(b"+00") && is_moment => {
                bytes.nth(1);
                continue;
            }
            _ => {}
        }
        if matches!(byte, b'"' | b'\\') {
            push(text, byte);
        }
        push(text, byte);
    }
    if quotes {
        push(text, b'"');
    }
    Ok(())
}

#[inline(never)]
pub(super) fn push(text: &mut Vec<u8>, byte: u8) {
    text.push(byte);
}

#[cfg(test)]
mod tests {
    use crate::types::tests::{json, objects_json, refused};
    use crate::types::{Encoder, InvalidValue, Strings, Types};
    use alloc::format;
    use alloc::string::String;
    use alloc::vec::Vec;

    fn sized(value: Option<&[u8]>) -> Vec<u8> {
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

    fn range(flags: u8, bounds: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::from([flags]);
        for bound in bounds {
            bytes.extend(sized(Some(bound)));
        }
        bytes
    }

    /// 20000 a domain over int8, 20001 an enum, 20002 their composite, 20003 an array of that, 20004 a range of text
    /// and 20005 its multirange, 20006 a domain over itself, 20007 a composite with a type that nobody knows, 20008 one
    /// whose names lead nowhere.
    #[rustfmt::skip]
    fn types() -> Types {
        Types::new(
            &[20000, 0, 20, 0, 20001, 0, 25, 0, 20002, 4, 2, 0, 20003, 1, 20002, 0, 20004, 2, 25, 0,
              20005, 3, 20004, 0, 20006, 0, 20006, 0, 20007, 4, 2, 1, 20008, 4, 1, 9],
            &[20000, 0, 2, 20001, 2, 3, 30000, 0, 1],
            "idm",
        )
    }

    fn with_types(type_oid: u32, value: &[u8]) -> Result<String, InvalidValue> {
        let mut out = Vec::new();
        let encoder = Encoder::with_types(type_oid, 1, Strings::ALL, &types()).unwrap();
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
        let encoder = Encoder::new(2249, 1, Strings::NONE).unwrap();
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

    #[test]
    fn ranges() {
        let (one, ten) = (1_i32.to_be_bytes(), 10_i32.to_be_bytes());
        assert_eq!(json(3904, range(0x02, &[&one, &ten])), "\"[1,10)\"");
        assert_eq!(json(3904, range(0x01, &[])), "\"empty\"");
        assert_eq!(json(3904, range(0x0c, &[&ten])), "\"(,10]\"");
        assert_eq!(json(3904, range(0x18, &[])), "\"(,)\"");
        let moment = |moment: i64| range(0x12, &[&moment.to_be_bytes()]);
        assert_eq!(json(3908, moment(0)), "\"[\\\"2000-01-01 00:00:00\\\",)\"");
        assert_eq!(
            json(3910, moment(500_000)),
            "\"[\\\"2000-01-01 00:00:00.5+00\\\",)\""
        );
        assert_eq!(json(3910, moment(i64::MAX)), "\"[infinity,)\"");
        for value in [
            range(0x02, &[&one]),
            range(0x02, &[&one, &ten, &ten]),
            range(0x01, &[&one]),
            range(0x20, &[&one, &ten]),
            range(0x02, &[&one, &[0; 5]]),
            Vec::from([0x02, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            Vec::new(),
        ] {
            refused(3904, &value);
        }
    }

    #[test]
    fn multiranges() {
        let one = range(0x02, &[&[0, 0, 0, 1], &[0, 0, 0, 3]]);
        let two = [&[0, 0, 0, 2][..], &sized(Some(&one)), &sized(Some(&one))].concat();
        assert_eq!(json(4451, &two), "\"{[1,3),[1,3)}\"");
        assert_eq!(json(4451, [0; 4]), "\"{}\"");
        refused(4451, &[0, 0, 0, 2]);
        refused(4451, &[0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff]);
        refused(4451, &[&two[..], &[0]].concat());
    }

    /// As `range_out` of a range over text says it.
    #[test]
    fn bounds_are_quoted_where_they_must_be() {
        for (bound, expected) in [
            ("a", "a"),
            ("", "\"\""),
            ("a b", "\"a b\""),
            ("T", "T"),
            ("+00:00", "+00:00"),
            ("a\"b", "\"a\"\"b\""),
            ("a\\b", "\"a\\\\b\""),
            ("(", "\"(\""),
            ("a\nb", "\"a\nb\""),
        ] {
            let text = with_types(20004, &range(0x12, &[bound.as_bytes()])).unwrap();
            let expected = serde_json::to_string(&format!("[{expected},)")).unwrap();
            assert_eq!(text, expected);
        }
    }
}
