//! Values made of other values, from the server's text: arrays, composites, ranges and multiranges, hstore.
//!
//! ```text
//! array        {1,NULL,"a,\"b"}   {{1,2},{3,4}}   [2:3]={1,2}   a box has ; between its elements
//! vectors      1 2 3              int2vector, oidvector
//! composite    (1,"a ""b\\",)     nothing between commas is NULL
//! range        ["2024-01-01 00:00:00+05:30",)   empty
//! multirange   {[1,3),[5,9)}
//! hstore       "a"=>"1", "b"=>NULL
//! ```
//! They come out as `nested.rs` writes them from binary. What a record holds only its type says, so one without is not
//! read here.

use super::append_scalar;
use super::scanner::{Scanner, unescaped};
use crate::types::catalog::{Attribute, Kind};
use crate::types::geometry::Geometry;
use crate::types::json_string;
use crate::types::nested::{Nest, push};
use crate::types::output::Writer;
use crate::types::range::append_bound;
use crate::types::rare::{Rare, put};
use crate::types::scalar::Scalar;
use alloc::vec::Vec;

/// MAXDIM of the server.
const MAX_DIMENSIONS: usize = 6;

impl Nest<'_> {
    pub(super) fn read_array(
        &self,
        element: u32,
        text: &[u8],
        out: &mut Writer<'_>,
        depth: u32,
    ) -> Option<()> {
        let scalar = match self.types.kind(element) {
            Some(Kind::Scalar(scalar)) => Some(scalar),
            _ => None,
        };
        let mut array = Array {
            nest: self,
            element,
            // As from binary: only in an array that is in nothing else.
            json_as_string: depth == 0
                && self.strings.json
                && scalar.is_some_and(|scalar| scalar.is_json()),
            delimiter: match scalar {
                Some(Scalar::Rare(Rare::Geometry(Geometry::Box))) => b';',
                // What is no array is a vector.
                Some(Scalar::Int2 | Scalar::Oid) if !matches!(text, [b'[' | b'{', ..]) => b' ',
                _ => b',',
            },
            depth: depth.saturating_add(1),
            rest: Scanner(text),
            levels: 0,
        };
        match text {
            b"" | b"{}" if !text.is_empty() || array.delimiter == b' ' => {
                put(out, "[]");
                return Some(());
            }
            [b'[', ..] => {
                array.rest.raw(*b"==")?;
                array.rest.next();
            }
            _ => {}
        }
        array.append_level(0, out)?;
        array.rest.end()
    }

    /// With as many fields as the type has attributes: else it is another type by now.
    pub(super) fn read_record(
        &self,
        record_oid: u32,
        attributes: &[Attribute],
        text: &[u8],
        out: &mut Writer<'_>,
        depth: u32,
    ) -> Option<()> {
        let mut rest = Scanner(text);
        rest.eat(b"(")?;
        let (mut ahead, mut count) = (rest, usize::from(!attributes.is_empty() || text != b"()"));
        while ahead.raw(*b",)").is_some() && ahead.next() == Some(b',') {
            count = count.wrapping_add(1);
        }
        if count != attributes.len() {
            return self.refuse_text(record_oid);
        }
        put(out, "{");
        for (index, attribute) in attributes.iter().enumerate() {
            if index > 0 {
                put(out, ",");
                // A parenthesis would be the end, and then no attribute was left.
                rest.next();
            }
            json_string::append(out, self.types.name(attribute));
            put(out, ":");
            let [type_oid, ..] = *attribute;
            match rest.raw(*b",)")? {
                b"" => put(out, "null"),
                raw => self.read_raw(type_oid, raw, out, depth)?,
            }
        }
        put(out, "}");
        rest.eat(b")")?;
        rest.end()
    }

    /// A range, or a multirange: the text itself, but for its bounds, which are as from binary.
    #[inline(never)]
    pub(super) fn read_ranges(
        &self,
        subtype: u32,
        text: &[u8],
        out: &mut Writer<'_>,
    ) -> Option<()> {
        let Some(subtype) = self.types.subtype(subtype) else {
            return self.refuse_text(subtype);
        };
        let mut rest = Scanner(text);
        let mut ranges = Vec::new();
        while let Some(byte) = rest.next() {
            push(&mut ranges, byte);
            match byte {
                b'[' | b'(' => {
                    for ends in [*b",,", *b"])"] {
                        let raw = rest.raw(ends)?;
                        if !raw.is_empty() {
                            append_bound(subtype, &unescaped(raw)?, append_scalar, &mut ranges)
                                .ok()?;
                        }
                        push(&mut ranges, rest.next()?);
                    }
                }
                // Of a multirange, and of `empty`.
                b'{' | b'}' | b',' | b'a'..=b'z' => {}
                _ => return None,
            }
        }
        json_string::append(out, &ranges);
        Some(())
    }

    /// Reads a value that may have quotes and backslashes.
    #[inline(never)]
    fn read_raw(&self, type_oid: u32, raw: &[u8], out: &mut Writer<'_>, depth: u32) -> Option<()> {
        self.read(type_oid, &unescaped(raw)?, out, depth)
    }
}

/// One array, and what is left of its text.
struct Array<'a> {
    nest: &'a Nest<'a>,
    element: u32,
    json_as_string: bool,
    delimiter: u8,
    /// Of its elements.
    depth: u32,
    rest: Scanner<'a>,
    /// How many levels there are, 0 until the first element: all elements stand in the last.
    levels: usize,
}

impl Array<'_> {
    /// A row of elements or rows, from its brace on. `level`: how many it is in.
    fn append_level(&mut self, level: usize, out: &mut Writer<'_>) -> Option<()> {
        let is_vector = self.delimiter == b' ';
        if level >= MAX_DIMENSIONS {
            return None;
        }
        if !is_vector {
            self.rest.eat(b"{")?;
        }
        put(out, "[");
        loop {
            if let [b'{', ..] = self.rest.0 {
                self.append_level(level.wrapping_add(1), out)?;
            } else {
                let raw = self.rest.raw([self.delimiter, b'}'])?;
                let levels = level.wrapping_add(1);
                if self.levels == 0 {
                    self.levels = levels;
                }
                if self.levels != levels {
                    return None;
                }
                self.append_element(raw, out)?;
            }
            match self.rest.next() {
                Some(byte) if byte == self.delimiter => put(out, ","),
                Some(b'}') if !is_vector => break,
                None if is_vector => break,
                _ => return None,
            }
        }
        put(out, "]");
        Some(())
    }

    fn append_element(&self, raw: &[u8], out: &mut Writer<'_>) -> Option<()> {
        match raw {
            b"NULL" => put(out, "null"),
            b"" => return None,
            _ if self.json_as_string => json_string::append(out, &unescaped(raw)?),
            _ => {
                return self.nest.read_raw(self.element, raw, out, self.depth);
            }
        }
        Some(())
    }
}

/// As the cast to json writes it.
pub(super) fn append_hstore(out: &mut Writer<'_>, text: &[u8]) -> Option<()> {
    let mut rest = Scanner(text);
    put(out, "{");
    let mut is_open = !text.is_empty();
    while is_open {
        append_quoted(out, rest.raw(*b"==")?)?;
        rest.eat(b"=>")?;
        put(out, ": ");
        match rest.raw(*b",,")? {
            b"NULL" => put(out, "null"),
            raw => append_quoted(out, raw)?,
        }
        is_open = rest.eat(b", ").is_some();
        if is_open {
            put(out, ", ");
        }
    }
    put(out, "}");
    rest.end()
}

#[inline(never)]
fn append_quoted(out: &mut Writer<'_>, raw: &[u8]) -> Option<()> {
    raw.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    json_string::append(out, &unescaped(raw)?);
    Some(())
}
