//! Geometric types and vector. The form and every number are checked; the text itself is the same as from binary.
//!
//! ```text
//! point, line, circle      (1,2)   {1,2,3}   <(1,2),3>
//! lseg, box                [(1,2),(3,4)]   (3,4),(1,2)
//! path, polygon            ((1,2),(3,4))   an open path [(1,2),(3,4)]
//! vector                   [1,2.5,-3]
//! ```

use super::numbers::{self, FLOAT4, FLOAT8};
use super::scanner::Scanner;
use crate::types::geometry::Geometry;
use crate::types::json_string;
use crate::types::output::Writer;

pub(super) fn append(out: &mut Writer<'_>, geometry: Geometry, text: &[u8]) -> Option<()> {
    use Geometry as G;
    let mut rest = Scanner(text);
    match geometry {
        G::Point => point(&mut rest)?,
        G::Box => two_points(&mut rest)?,
        G::Lseg => {
            rest.eat(b"[")?;
            two_points(&mut rest)?;
            rest.eat(b"]")?;
        }
        G::Path if rest.eat(b"[").is_some() => {
            points(&mut rest)?;
            rest.eat(b"]")?;
        }
        G::Path | G::Polygon => {
            rest.eat(b"(")?;
            points(&mut rest)?;
            rest.eat(b")")?;
        }
        G::Line => {
            rest.eat(b"{")?;
            float(&mut rest)?;
            rest.eat(b",")?;
            float(&mut rest)?;
            rest.eat(b",")?;
            float(&mut rest)?;
            rest.eat(b"}")?;
        }
        G::Circle => {
            rest.eat(b"<")?;
            point(&mut rest)?;
            rest.eat(b",")?;
            float(&mut rest)?;
            rest.eat(b">")?;
        }
    }
    rest.end()?;
    json_string::append(out, text);
    Some(())
}

/// Reads one or more points.
fn points(rest: &mut Scanner<'_>) -> Option<()> {
    loop {
        point(rest)?;
        if rest.eat(b",").is_none() {
            return Some(());
        }
    }
}

fn two_points(rest: &mut Scanner<'_>) -> Option<()> {
    point(rest)?;
    rest.eat(b",")?;
    point(rest)
}

fn point(rest: &mut Scanner<'_>) -> Option<()> {
    rest.eat(b"(")?;
    float(rest)?;
    rest.eat(b",")?;
    float(rest)?;
    rest.eat(b")")
}

#[inline(never)]
fn float(rest: &mut Scanner<'_>) -> Option<()> {
    let is_end = |byte| matches!(byte, b',' | b')' | b'}' | b'>');
    numbers::check_float(rest.until(is_end), FLOAT8)
}

/// Appends a vector. Its numbers must be finite, and there must be at least one.
pub(super) fn append_vector(out: &mut Writer<'_>, text: &[u8]) -> Option<()> {
    let numbers = text.strip_prefix(b"[")?.strip_suffix(b"]")?;
    for number in numbers.split(|byte| *byte == b',') {
        numbers::check_finite(number, FLOAT4)?;
    }
    json_string::append(out, text);
    Some(())
}
