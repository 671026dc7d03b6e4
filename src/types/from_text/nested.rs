//! Values made of other values, from the server's text: composites, ranges and multiranges, hstore. Arrays are in
//! arrays.rs.
//!
//! ```text
//! composite    (1,"a ""b\\",)     nothing between commas is NULL
//! range        ["2024-01-01 00:00:00+05:30",)   empty
//! multirange   {[1,3),[5,9)}
//! hstore       "a"=>"1", "b"=>NULL
//! ```
//! They are written as `nested.rs` writes them from binary. Only its type says what a record contains. For a record
//! without a type only the form is checked, and the text stays.

use super::append_scalar;
use super::quotes::{Quotes, RANGE, RECORD};
use super::scanner::Scanner;
use crate::types::catalog::{Attribute, Kind};
use crate::types::json_string;
use crate::types::nested::{Nest, push};
use crate::types::output::Writer;
use crate::types::range::append_bound;
use crate::types::rare::put;
use crate::types::scalar::Scalar;
use alloc::vec::Vec;

impl Nest<'_> {
    /// Reads a record with as many fields as its type has attributes. Another number of fields means that the type has
    /// changed.
    pub(super) fn read_record(
        &self,
        record_oid: u32,
        attributes: &[Attribute],
        text: &[u8],
        out: &mut Writer<'_>,
        depth: u32,
    ) -> Option<()> {
        if attributes.is_empty() && text == b"()" {
            put(out, "{}");
            return Some(());
        }
        if count_fields(text)? != attributes.len() {
            return self.refuse_text(record_oid);
        }
        let mut rest = Scanner(text);
        let mut before = "{";
        for attribute in attributes {
            put(out, before);
            before = ",";
            json_string::append(out, self.types.name(attribute));
            put(out, ":");
            // Skips the parenthesis at the start, or the comma between fields.
            rest.next();
            let value = rest.value(RECORD)?;
            let [type_oid, ..] = *attribute;
            match value.bare() {
                Some(b"") => put(out, "null"),
                _ => self.read(type_oid, &value.text()?, out, depth)?,
            }
        }
        put(out, "}");
        Some(())
    }

    #[inline(never)]
    pub(super) fn read_range(&self, subtype: u32, text: &[u8], out: &mut Writer<'_>) -> Option<()> {
        let Some(subtype) = self.types.subtype(subtype) else {
            return self.refuse_text(subtype);
        };
        if text == b"empty" {
            json_string::append(out, text);
            return Some(());
        }
        let mut rest = Scanner(text);
        let mut range = Vec::new();
        append_range(subtype, &mut rest, &mut range)?;
        rest.end()?;
        json_string::append(out, &range);
        Some(())
    }

    /// Reads a multirange. None of its ranges is empty, because the server leaves empty ones out.
    #[inline(never)]
    pub(super) fn read_multirange(
        &self,
        range: u32,
        text: &[u8],
        out: &mut Writer<'_>,
    ) -> Option<()> {
        let Some(Kind::Range(subtype)) = self.types.kind(range) else {
            return self.refuse_text(range);
        };
        let Some(subtype) = self.types.subtype(subtype) else {
            return self.refuse_text(subtype);
        };
        if text == b"{}" {
            json_string::append(out, text);
            return Some(());
        }
        let mut rest = Scanner(text);
        let mut ranges = Vec::from(*b"{");
        rest.eat(b"{")?;
        loop {
            append_range(subtype, &mut rest, &mut ranges)?;
            let byte = rest.next()?;
            push(&mut ranges, byte);
            match byte {
                b',' => {}
                b'}' => break,
                _ => return None,
            }
        }
        rest.end()?;
        json_string::append(out, &ranges);
        Some(())
    }
}

/// Counts the fields of a composite or a record; an empty one has one field, which is NULL. Returns `None` if the text
/// is neither.
pub(super) fn count_fields(text: &[u8]) -> Option<usize> {
    let mut rest = Scanner(text);
    rest.eat(b"(")?;
    let mut count = 1_usize;
    loop {
        rest.value(RECORD)?;
        match rest.next()? {
            b',' => count = count.wrapping_add(1),
            b')' => break,
            _ => return None,
        }
    }
    rest.end()?;
    Some(count)
}

/// Reads a range that is not empty. Appends its text, with the bounds written as from binary.
fn append_range(subtype: Scalar, rest: &mut Scanner<'_>, range: &mut Vec<u8>) -> Option<()> {
    let opening = rest.next()?;
    push(range, opening);
    let has_lower = append_side(subtype, rest, range)?;
    rest.eat(b",")?;
    push(range, b',');
    let has_upper = append_side(subtype, rest, range)?;
    let closing = rest.next()?;
    push(range, closing);
    // A range never includes a bound that it does not have.
    let is_opening = opening == b'(' || (opening == b'[' && has_lower);
    let is_closing = closing == b')' || (closing == b']' && has_upper);
    (is_opening && is_closing).then_some(())
}

/// Appends a bound, or nothing if the range has none on this side. Returns whether there was one.
fn append_side(subtype: Scalar, rest: &mut Scanner<'_>, range: &mut Vec<u8>) -> Option<bool> {
    let value = rest.value(RANGE)?;
    if value.bare() == Some(b"") {
        return Some(false);
    }
    append_bound(subtype, &value.text()?, append_scalar, range).ok()?;
    Some(true)
}

/// Appends an hstore as its cast to json writes it.
pub(super) fn append_hstore(out: &mut Writer<'_>, text: &[u8]) -> Option<()> {
    let mut rest = Scanner(text);
    put(out, "{");
    let mut is_open = !text.is_empty();
    while is_open {
        append_quoted(out, &mut rest)?;
        rest.eat(b"=>")?;
        put(out, ": ");
        match rest.eat(b"NULL") {
            Some(()) => put(out, "null"),
            None => append_quoted(out, &mut rest)?,
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
fn append_quoted(out: &mut Writer<'_>, rest: &mut Scanner<'_>) -> Option<()> {
    json_string::append(out, &rest.quoted(Quotes::Escaped)?.text()?);
    Some(())
}
