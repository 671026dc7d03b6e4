//! Arrays of any element type and any number of dimensions, as nested JSON arrays. NULL is `null`; lower bounds are
//! dropped.
//!
//! ```text
//! int32 ndim | int32 flags (1: has NULLs) | uint32 element type
//! ndim x (int32 size, int32 lower bound)
//! product of sizes x (int32 length, -1 = NULL; bytes), last dimension fastest
//! ```

use super::output::Writer;
use super::rare::{expect_end, next_field, put};
use super::{Outcome, WRONG_LENGTH, integer, oid};

/// MAXDIM of the server.
const MAX_DIMENSIONS: usize = 6;

const BAD_HEADER: &str = "array header out of range";
const BAD_ELEMENT: &str = "array element runs past the end of the value";

/// Appends the binary form. `append_element` writes one element that is not NULL. int4 in one dimension, by far the
/// most frequent array, has a loop of its own.
#[inline(always)]
pub(super) fn append(
    out: &mut Writer<'_>,
    value: &[u8],
    element_oid: u32,
    append_element: impl FnMut(&mut Writer<'_>, &[u8]) -> Outcome,
) -> Outcome {
    let shape = Shape::parse(value, element_oid)?;
    let rest = match (shape.count, shape.dimensions) {
        (0, _) => {
            out.put(b"[]");
            shape.elements
        }
        (_, 1) if element_oid == oid::INT4 => out.lend(|out| append_flat_int4(out, &shape))?,
        _ => append_elements(out, &shape, append_element)?,
    };
    if rest.is_empty() {
        Ok(())
    } else {
        Err(WRONG_LENGTH)
    }
}

/// Same output as [`append`] from less code, for arrays whose code size matters more than their speed.
pub(super) fn append_rare(
    out: &mut Writer<'_>,
    value: &[u8],
    element_oid: u32,
    append_element: impl Fn(&mut Writer<'_>, &[u8]) -> Outcome,
) -> Outcome {
    let shape = Shape::parse(value, element_oid)?;
    let mut rest = shape.elements;
    let spans = shape.spans();
    let spans = spans.get(..shape.dimensions).unwrap_or_default();
    let bracket = |out: &mut Writer<'_>, index: usize, bracket| {
        for span in spans {
            if index.is_multiple_of(*span) {
                put(out, bracket);
            }
        }
    };
    if shape.count == 0 {
        put(out, "[]");
    }
    for index in 0..shape.count {
        if index > 0 {
            put(out, ",");
        }
        bracket(out, index, "[");
        match next_field(&mut rest)? {
            Some(element) => append_element(out, element)?,
            None => put(out, "null"),
        }
        bracket(out, index.wrapping_add(1), "]");
    }
    expect_end(rest)
}

#[inline(always)]
fn append_flat_int4<'a>(out: &mut Writer<'_>, shape: &Shape<'a>) -> Result<&'a [u8], &'static str> {
    let mut elements = shape.elements;
    out.put(b"[");
    for index in 0..shape.count {
        if index > 0 {
            out.put(b",");
        }
        elements = append_next(out, elements, &mut integer::append_int4)?;
    }
    out.put(b"]");
    Ok(elements)
}

/// Handles any number of dimensions. Inside the outermost bracket, a bracket opens and closes where the index is a
/// multiple of the number of elements that it contains.
#[inline(always)]
fn append_elements<'a>(
    out: &mut Writer<'_>,
    shape: &Shape<'a>,
    mut append_element: impl FnMut(&mut Writer<'_>, &[u8]) -> Outcome,
) -> Result<&'a [u8], &'static str> {
    let mut elements = shape.elements;
    let spans = shape.spans();
    let inner = spans.get(1..shape.dimensions).unwrap_or_default();
    let brackets = |index: usize| {
        let all = inner.iter();
        all.filter(|span| index.is_multiple_of(**span)).count()
    };
    out.put(b"[");
    for index in 0..shape.count {
        if index > 0 {
            out.put(b",");
        }
        if !inner.is_empty() {
            out.put_block(b"[[[[[", brackets(index));
        }
        elements = append_next(out, elements, &mut append_element)?;
        if !inner.is_empty() {
            out.put_block(b"]]]]]", brackets(index + 1));
        }
    }
    out.put(b"]");
    Ok(elements)
}

/// Writes the first of `elements` and returns the others.
#[inline(always)]
fn append_next<'a>(
    out: &mut Writer<'_>,
    elements: &'a [u8],
    append_element: &mut impl FnMut(&mut Writer<'_>, &[u8]) -> Outcome,
) -> Result<&'a [u8], &'static str> {
    let (length, rest) = elements.split_first_chunk().ok_or(BAD_ELEMENT)?;
    let length = i32::from_be_bytes(*length);
    if length == -1 {
        out.put(b"null");
        return Ok(rest);
    }
    let length = usize::try_from(length).map_err(|_| BAD_ELEMENT)?;
    let (element, rest) = rest.split_at_checked(length).ok_or(BAD_ELEMENT)?;
    append_element(out, element)?;
    Ok(rest)
}

/// The values in the header, checked against the bytes that are there.
struct Shape<'a> {
    dimensions: usize,
    /// Outermost first; 1 after the last dimension.
    sizes: [usize; MAX_DIMENSIONS],
    /// The product of the sizes, 0 without dimensions.
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
        let mut count = usize::from(dimensions > 0);
        for size in sizes.iter_mut().take(dimensions) {
            let (&[a, b, c, d, _, _, _, _], after) =
                rest.split_first_chunk().ok_or(WRONG_LENGTH)?;
            *size = u32::from_be_bytes([a, b, c, d]) as usize;
            count = count.checked_mul(*size).ok_or(BAD_HEADER)?;
            rest = after;
        }
        // Each element takes at least its length field, so a false count is refused before it costs anything.
        if count > rest.len() / 4 {
            return Err(BAD_HEADER);
        }
        Ok(Shape {
            dimensions,
            sizes,
            count,
            elements: rest,
        })
    }

    /// Returns the number of elements inside one bracket of each depth, outermost first: the count of all elements,
    /// then divided by each size in turn.
    fn spans(&self) -> [usize; MAX_DIMENSIONS] {
        let mut span = self.count;
        self.sizes.map(|size| {
            let whole = span;
            span = span.checked_div(size).unwrap_or(0);
            whole
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::tests::{json, objects_json, refused};
    use alloc::vec::Vec;

    fn array(element_oid: u32, sizes: &[i32], elements: &[Option<&[u8]>]) -> Vec<u8> {
        let mut bytes: Vec<u8> = [sizes.len() as u32, 1, element_oid]
            .iter()
            .flat_map(|field| field.to_be_bytes())
            .collect();
        for size in sizes {
            bytes.extend(size.to_be_bytes());
            bytes.extend((-7_i32).to_be_bytes());
        }
        for element in elements {
            bytes.extend(
                element
                    .map_or(-1, |element| element.len() as i32)
                    .to_be_bytes(),
            );
            bytes.extend(element.unwrap_or_default());
        }
        bytes
    }

    #[test]
    fn shapes() {
        let numbers: Vec<[u8; 4]> = (1..=8_i32).map(i32::to_be_bytes).collect();
        let elements: Vec<Option<&[u8]>> = numbers.iter().map(|number| Some(&number[..])).collect();
        for (sizes, expected) in [
            (&[][..], "[]"),
            (&[0], "[]"),
            (&[3], "[1,2,3]"),
            (&[2, 2], "[[1,2],[3,4]]"),
            (&[2, 1, 1], "[[[1]],[[2]]]"),
            (&[2, 2, 2], "[[[1,2],[3,4]],[[5,6],[7,8]]]"),
            (&[1, 1, 1, 1, 1, 1], "[[[[[[1]]]]]]"),
        ] {
            let count: usize = if sizes.is_empty() {
                0
            } else {
                sizes.iter().product::<i32>() as usize
            };
            assert_eq!(
                json(oid::INT4_ARRAY, array(oid::INT4, sizes, &elements[..count])),
                expected
            );
        }
        assert_eq!(
            json(
                oid::TEXT_ARRAY,
                array(
                    oid::TEXT,
                    &[4],
                    &[Some(b"a,b"), Some(b"q\""), None, Some(b"")]
                )
            ),
            "[\"a,b\",\"q\\\"\",null,\"\"]"
        );
        assert_eq!(
            json(oid::INT2VECTOR, array(oid::INT2, &[1], &[Some(&[0, 5])])),
            "[5]"
        );
    }

    #[test]
    fn big_numbers_are_strings_in_objects() {
        let seven = 7_i64.to_be_bytes();
        assert_eq!(
            objects_json(
                oid::INT8_ARRAY,
                &array(oid::INT8, &[2], &[Some(&seven), None])
            ),
            "[\"7\",null]"
        );
        assert_eq!(
            objects_json(
                oid::INT4_ARRAY,
                &array(oid::INT4, &[1], &[Some(&[0, 0, 0, 7])])
            ),
            "[7]"
        );
        let not_a_number = [0, 0, 0, 0, 0xc0, 0, 0, 0];
        assert_eq!(
            objects_json(
                oid::NUMERIC_ARRAY,
                &array(oid::NUMERIC, &[1], &[Some(&not_a_number)])
            ),
            "[\"NaN\"]"
        );
    }

    #[test]
    fn lies_are_refused() {
        let one = Some(&[0_u8, 0, 0, 1][..]);
        let valid = array(oid::INT4, &[2], &[one, None]);
        json(oid::INT4_ARRAY, &valid);
        for length in 0..valid.len() {
            refused(oid::INT4_ARRAY, &valid[..length]);
        }
        refused(oid::INT4_ARRAY, &[&valid[..], &[0]].concat());
        // Seven dimensions, negative and huge sizes, a product that overflows, another element type, a wrong element.
        refused(oid::INT4_ARRAY, &array(oid::INT4, &[1; 7], &[one]));
        refused(oid::INT4_ARRAY, &array(oid::INT4, &[-1], &[one]));
        refused(oid::INT4_ARRAY, &array(oid::INT4, &[i32::MAX], &[one]));
        refused(oid::INT4_ARRAY, &array(oid::INT4, &[i32::MAX; 6], &[one]));
        refused(oid::INT4_ARRAY, &array(oid::INT8, &[1], &[one]));
        refused(oid::INT4_ARRAY, &array(oid::INT4, &[1], &[Some(&[0; 5])]));
        let mut negative_length = array(oid::INT4, &[1], &[None]);
        let last = negative_length.len() - 1;
        negative_length[last] = 0xfe;
        refused(oid::INT4_ARRAY, &negative_length);
    }

    #[test]
    fn the_product_of_sizes_is_bounded_by_the_bytes() {
        assert_eq!(
            Shape::parse(&array(1, &[3, 0], &[]), 1).map(|shape| shape.count),
            Ok(0)
        );
        assert_eq!(
            Shape::parse(&array(1, &[2, 1], &[None, None]), 1).map(|shape| shape.spans()),
            Ok([2, 1, 1, 1, 1, 1])
        );
        assert_eq!(
            Shape::parse(&array(1, &[2, 2], &[None, None]), 1).map(|shape| shape.count),
            Err(BAD_HEADER)
        );
    }
}
