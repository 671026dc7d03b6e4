//! point, lseg, box, path, polygon, line, circle: float8 coordinates between the type's own brackets.
//!
//! ```text
//! point      x, y                       (x,y)
//! lseg, box  two points                 [(x,y),(x,y)]   (x,y),(x,y)
//! path       uint8 closed | int32 n | n points   ((x,y),…) or, open, [(x,y),…]
//! polygon    int32 n | n points         ((x,y),…)
//! line       A, B, C                    {A,B,C}
//! circle     point, r                   <(x,y),r>
//! ```

use super::output::Writer;
use super::rare::{bare, put};
use super::{Outcome, Scalar, WRONG_LENGTH};

/// The geometric types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Geometry {
    Point,
    Lseg,
    Box,
    Path,
    Polygon,
    Line,
    Circle,
}

/// Appends the binary form.
pub(super) fn append(out: &mut Writer<'_>, geometry: Geometry, value: &[u8]) -> Outcome {
    use Geometry as G;
    let (points, [open, close]) = match (geometry, value) {
        (G::Point, points) if points.len() == 16 => (points, ["\"", "\""]),
        (G::Box, points) if points.len() == 32 => (points, ["\"", "\""]),
        (G::Lseg, points) if points.len() == 32 => (points, ["\"[", "]\""]),
        (G::Path, [0, points @ ..]) => (counted(points)?, ["\"[", "]\""]),
        (G::Path, [1, points @ ..]) | (G::Polygon, points) => (counted(points)?, ["\"(", ")\""]),
        (G::Line, numbers) if numbers.len() == 24 => {
            put(out, "\"{");
            append_floats(out, numbers)?;
            put(out, "}\"");
            return Ok(());
        }
        (G::Circle, numbers) if numbers.len() == 24 => {
            let (center, radius) = numbers.split_at(16);
            put(out, "\"<");
            append_points(out, center)?;
            put(out, ",");
            append_floats(out, radius)?;
            put(out, ">\"");
            return Ok(());
        }
        _ => return Err(WRONG_LENGTH),
    };
    put(out, open);
    append_points(out, points)?;
    put(out, close);
    Ok(())
}

/// Returns the points after their number, which is at least one.
fn counted(value: &[u8]) -> Result<&[u8], &'static str> {
    let (count, points) = value.split_first_chunk().ok_or(WRONG_LENGTH)?;
    let count = u32::from_be_bytes(*count) as usize;
    if count == 0 || count != points.len() / 16 || !points.len().is_multiple_of(16) {
        return Err(WRONG_LENGTH);
    }
    Ok(points)
}

fn append_points(out: &mut Writer<'_>, points: &[u8]) -> Outcome {
    let mut before = "(";
    for point in points.chunks(16) {
        put(out, before);
        append_floats(out, point)?;
        put(out, ")");
        before = ",(";
    }
    Ok(())
}

fn append_floats(out: &mut Writer<'_>, numbers: &[u8]) -> Outcome {
    let mut before = "";
    for number in numbers.chunks(8) {
        put(out, before);
        bare(out, Scalar::Float8, number)?;
        before = ",";
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::types::tests::{json, refused};
    use alloc::vec::Vec;

    fn floats(numbers: &[f64]) -> Vec<u8> {
        numbers
            .iter()
            .flat_map(|number| number.to_be_bytes())
            .collect()
    }

    #[test]
    #[rustfmt::skip]
    fn each_in_its_brackets() {
        let two = floats(&[1.0, -0.5, f64::NAN, f64::NEG_INFINITY]);
        assert_eq!(json(600, floats(&[1.0, 1e20])), "\"(1,1e+20)\"");
        assert_eq!(json(601, &two), "\"[(1,-0.5),(NaN,-Infinity)]\"");
        assert_eq!(json(603, &two), "\"(1,-0.5),(NaN,-Infinity)\"");
        assert_eq!(json(602, [&[0, 0, 0, 0, 2][..], &two].concat()), "\"[(1,-0.5),(NaN,-Infinity)]\"");
        assert_eq!(json(602, [&[1, 0, 0, 0, 2][..], &two].concat()), "\"((1,-0.5),(NaN,-Infinity))\"");
        assert_eq!(json(604, [&[0, 0, 0, 2][..], &two].concat()), "\"((1,-0.5),(NaN,-Infinity))\"");
        assert_eq!(json(628, floats(&[1.0, 2.0, 3.0])), "\"{1,2,3}\"");
        assert_eq!(json(718, floats(&[1.0, 2.0, 3.0])), "\"<(1,2),3>\"");
    }

    #[test]
    fn lies_are_refused() {
        let two = floats(&[1.0, -0.5, 0.0, 0.0]);
        for type_oid in [600, 628, 718] {
            refused(type_oid, &two);
        }
        refused(603, &two[..31]);
        refused(602, &[&[2, 0, 0, 0, 2][..], &two].concat());
        refused(602, &[0, 0, 0, 0, 0]);
        refused(604, &[&[0, 0, 0, 3][..], &two].concat());
        refused(604, &[&[0, 0, 0, 2][..], &two, &[0]].concat());
    }
}
