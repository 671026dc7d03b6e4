//! Ranges and multiranges: a string in the server's text form. Their bounds are text too (`2024-01-01 00:00:00`, where
//! JSON has a `T`).
//!
//! ```text
//! range        uint8 flags, per bound that is there: int32 length, bytes
//! multirange   int32 number of ranges, per range: int32 length, bytes
//! ```
//! Bounds whose text contains nothing that JSON escapes are written in place. Other ranges are composed as text first,
//! and that text is then escaped.

use super::catalog::Kind;
use super::nested::{Nest, push};
use super::output::{Target, Writer};
use super::rare::{bare, expect_end, next_field, next_four, put};
use super::{Outcome, Scalar, WRONG_LENGTH, json_string};
use alloc::vec::Vec;

/// Flags of a range.
const EMPTY: u8 = 0x01;
const LOWER_INCLUSIVE: u8 = 0x02;
const UPPER_INCLUSIVE: u8 = 0x04;
const LOWER_INFINITE: u8 = 0x08;
const UPPER_INFINITE: u8 = 0x10;

impl Nest<'_> {
    pub(super) fn append_range(
        &self,
        subtype_oid: u32,
        value: &[u8],
        out: &mut Writer<'_>,
    ) -> Outcome {
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

    pub(super) fn append_multirange(
        &self,
        range: u32,
        value: &[u8],
        out: &mut Writer<'_>,
    ) -> Outcome {
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
    for index in 0..u32::from_be_bytes(next_four(&mut rest)?) {
        append(index, next_field(&mut rest)?.ok_or(WRONG_LENGTH)?)?;
    }
    expect_end(rest)
}

/// The bounds of a range that is not empty; `None`: there is no such bound.
struct Bounds<'a> {
    flags: u8,
    lower: Option<&'a [u8]>,
    upper: Option<&'a [u8]>,
}

impl<'a> Bounds<'a> {
    /// Returns `None` if the range is empty.
    fn parse(value: &'a [u8]) -> Result<Option<Bounds<'a>>, &'static str> {
        let (&flags, mut rest) = value.split_first().ok_or(WRONG_LENGTH)?;
        if flags >= 0x20 {
            return Err("unknown flags of a range");
        }
        if flags & EMPTY != 0 {
            expect_end(rest)?;
            return Ok(None);
        }
        let mut bound = |infinite: u8| match flags & infinite {
            0 => Ok::<_, &'static str>(Some(next_field(&mut rest)?.ok_or(WRONG_LENGTH)?)),
            _ => Ok(None),
        };
        let (lower, upper) = (bound(LOWER_INFINITE)?, bound(UPPER_INFINITE)?);
        expect_end(rest)?;
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

/// Appends the server's text of a range to `text`.
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

// -- ranges of numbers and times, written in place -------------------------------------------------------------------

/// Returns whether the text of a bound contains nothing that JSON escapes.
fn is_plain(subtype: Scalar) -> bool {
    use Scalar as S;
    matches!(
        subtype,
        S::Int2 | S::Int4 | S::Int8 | S::Numeric | S::Float4 | S::Float8
    ) || is_day(subtype)
}

/// Returns whether the text of a bound may contain a space, which then puts quotes around it.
fn is_day(subtype: Scalar) -> bool {
    matches!(
        subtype,
        Scalar::Date | Scalar::Timestamp | Scalar::Timestamptz
    )
}

/// Appends the server's text of a range as it appears inside a JSON string.
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

/// Appends a bound. JSON has `2024-01-02T00:00:00+00:00 BC` where the server's text has `"2024-01-02 00:00:00+00 BC"`.
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

/// Longer than `"294276-12-31T23:59:59.999999+00:00 BC"`.
const LONGEST_DAY: usize = 48;

/// Appends a bound, quoted as `range_out` quotes it. Its text is made from the JSON that `append` writes.
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
            // The server's text has `+00` instead of `+00:00`.
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

#[cfg(test)]
mod tests {
    use crate::types::nested::tests::{sized, with_types};
    use crate::types::tests::{json, refused};
    use alloc::format;
    use alloc::vec::Vec;

    fn range(flags: u8, bounds: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::from([flags]);
        for bound in bounds {
            bytes.extend(sized(Some(bound)));
        }
        bytes
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

    /// The text that `range_out` writes for a range over text.
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
