//! Arrays of any built-in element, any number of dimensions: nested JSON arrays; NULL is `null`, lower bounds are dropped.
//!
//! ```text
//! int32 ndim | int32 flags (1: has NULLs) | uint32 element type
//! ndim x (int32 size, int32 lower bound)
//! product of sizes x (int32 length, -1 = NULL; bytes), last dimension fastest
//! ```

use alloc::vec::Vec;

use super::{Outcome, WRONG_LENGTH};

/// MAXDIM of the server.
const MAX_DIMENSIONS: usize = 6;

const BAD_HEADER: &str = "array header out of range";
const BAD_ELEMENT: &str = "array element runs past the end of the value";

/// Appends the binary form; its text form is a plain string. `append_element` writes one element that is not NULL.
#[inline]
pub(super) fn append(
    out: &mut Vec<u8>,
    value: &[u8],
    element_oid: u32,
    mut append_element: impl FnMut(&mut Vec<u8>, &[u8]) -> Outcome,
) -> Outcome {
    let shape = Shape::parse(value, element_oid)?;
    let mut elements = shape.elements;
    if shape.count == 0 {
        out.extend_from_slice(b"[]");
    }
    for index in 0..shape.count {
        shape.append_opening(out, index);
        let (length, rest) = elements.split_first_chunk().ok_or(BAD_ELEMENT)?;
        elements = match i32::from_be_bytes(*length) {
            -1 => {
                out.extend_from_slice(b"null");
                rest
            }
            length => {
                let length = usize::try_from(length).map_err(|_| BAD_ELEMENT)?;
                let (element, rest) = rest.split_at_checked(length).ok_or(BAD_ELEMENT)?;
                append_element(out, element)?;
                rest
            }
        };
        shape.append_closing(out, index);
    }
    if elements.is_empty() {
        Ok(())
    } else {
        Err(WRONG_LENGTH)
    }
}

/// What the header says, checked against the bytes that are there.
struct Shape<'a> {
    /// Elements inside one bracket of each depth, outermost first: the count of all, then divided by each size in turn.
    spans: [usize; MAX_DIMENSIONS],
    dimensions: usize,
    count: usize,
    elements: &'a [u8],
}

impl<'a> Shape<'a> {
    fn parse(value: &'a [u8], element_oid: u32) -> Result<Shape<'a>, &'static str> {
        let (dimensions, rest) = value.split_first_chunk().ok_or(WRONG_LENGTH)?;
        let (flags, rest) = rest.split_first_chunk().ok_or(WRONG_LENGTH)?;
        let (oid, mut rest) = rest.split_first_chunk().ok_or(WRONG_LENGTH)?;
        let dimensions = u32::from_be_bytes(*dimensions) as usize;
        if dimensions > MAX_DIMENSIONS || u32::from_be_bytes(*flags) > 1 {
            return Err(BAD_HEADER);
        }
        if u32::from_be_bytes(*oid) != element_oid {
            return Err("array of another element type");
        }
        let mut sizes = [1; MAX_DIMENSIONS];
        for size in sizes.iter_mut().take(dimensions) {
            let (bytes, behind) = rest.split_first_chunk::<8>().ok_or(WRONG_LENGTH)?;
            let [a, b, c, d, ..] = *bytes;
            *size = u32::from_be_bytes([a, b, c, d]) as usize;
            rest = behind;
        }
        // Each element takes at least its length field: a lie about the count costs nothing.
        let mut count = usize::from(dimensions > 0);
        for size in sizes {
            count = count
                .checked_mul(size)
                .filter(|count| *count <= rest.len() / 4)
                .ok_or(BAD_HEADER)?;
        }
        let mut spans = [count; MAX_DIMENSIONS];
        let mut span = count;
        for (slot, size) in spans.iter_mut().zip(sizes) {
            *slot = span;
            span = span.checked_div(size).unwrap_or(0);
        }
        Ok(Shape {
            spans,
            dimensions,
            count,
            elements: rest,
        })
    }

    /// The comma and the brackets before element `index`.
    #[inline]
    fn append_opening(&self, out: &mut Vec<u8>, index: usize) {
        if index > 0 {
            out.push(b',');
        }
        for span in self.spans.iter().take(self.dimensions) {
            if index.is_multiple_of(*span) {
                out.push(b'[');
            }
        }
    }

    /// The brackets behind element `index`.
    #[inline]
    fn append_closing(&self, out: &mut Vec<u8>, index: usize) {
        for span in self.spans.iter().take(self.dimensions) {
            if (index + 1).is_multiple_of(*span) {
                out.push(b']');
            }
        }
    }
}
