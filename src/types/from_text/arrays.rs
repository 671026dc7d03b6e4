//! Arrays and vectors, from the server's text.
//!
//! ```text
//! array        {1,NULL,"a,\"b"}   {{1,2},{3,4}}   [2:3]={1,2}   an array of boxes has ; between its elements
//! vectors      1 2 3              int2vector, oidvector
//! ```
//! All rows of one level have the same number of elements. Bounds, which are written if a lower bound is not 1, must
//! state these numbers. Lower bounds are dropped, as from binary.

use super::append_scalar;
use super::quotes::{ARRAY, Syntax, Value};
use super::scanner::Scanner;
use crate::types::catalog::Kind;
use crate::types::geometry::Geometry;
use crate::types::json_string;
use crate::types::nested::Nest;
use crate::types::output::Writer;
use crate::types::rare::{Rare, put};
use crate::types::scalar::Scalar;

/// MAXDIM of the server.
const MAX_DIMENSIONS: usize = 6;

/// Number of elements of a row, from the outermost level on; 0 where there is no such level.
type Sizes = [usize; MAX_DIMENSIONS];

impl Nest<'_> {
    pub(super) fn read_array(
        &self,
        element: u32,
        text: &[u8],
        out: &mut Writer<'_>,
        depth: u32,
    ) -> Option<()> {
        if text == b"{}" {
            put(out, "[]");
            return Some(());
        }
        let (scalar, delimiter) = match self.types.kind(element) {
            Some(Kind::Text(delimiter)) => (None, delimiter),
            Some(Kind::Scalar(scalar @ Scalar::Rare(Rare::Geometry(Geometry::Box)))) => {
                (Some(scalar), b';')
            }
            Some(Kind::Scalar(scalar)) => (Some(scalar), b','),
            _ => (None, b','),
        };
        let mut rest = Scanner(text);
        let bounds = bounds(&mut rest)?;
        let mut array = Array {
            nest: self,
            element,
            // As from binary: only in an array that is not inside another value.
            json_as_string: depth == 0
                && self.strings.json
                && scalar.is_some_and(|scalar| scalar.is_json()),
            syntax: Syntax { delimiter, ..ARRAY },
            depth: depth.saturating_add(1),
            rest,
            levels: 0,
            sizes: [0; MAX_DIMENSIONS],
        };
        array.append_row(0, out)?;
        array.rest.end()?;
        bounds
            .is_none_or(|sizes| sizes == array.sizes)
            .then_some(())
    }
}

/// Reads `[2:3][0:1]=` as the sizes that it stands for. Without bounds the result is `Some(None)`.
fn bounds(rest: &mut Scanner<'_>) -> Option<Option<Sizes>> {
    if rest.0.first() != Some(&b'[') {
        return Some(None);
    }
    let (mut sizes, mut is_shifted) = ([0; MAX_DIMENSIONS], false);
    let mut dimensions = sizes.iter_mut();
    while rest.eat(b"[").is_some() {
        let lower = i32::try_from(rest.signed()?).ok()?;
        rest.eat(b":")?;
        let upper = i32::try_from(rest.signed()?).ok()?;
        rest.eat(b"]")?;
        let last = i64::from(upper).wrapping_sub(lower.into());
        *dimensions.next()? = usize::try_from(last).ok()?.wrapping_add(1);
        is_shifted |= lower != 1;
    }
    rest.eat(b"=")?;
    is_shifted.then_some(Some(sizes))
}

/// Reads what `int2vectorout` and `oidvectorout` write.
pub(super) fn append_vector(element: u32, text: &[u8], out: &mut Writer<'_>) -> Option<()> {
    let element = Scalar::from_oid(element)?;
    put(out, "[");
    if !text.is_empty() {
        for (index, number) in text.split(|byte| *byte == b' ').enumerate() {
            put(out, if index == 0 { "" } else { "," });
            append_scalar(element, number, out).ok()?;
        }
    }
    put(out, "]");
    Some(())
}

/// One array, and the rest of its text.
struct Array<'a> {
    nest: &'a Nest<'a>,
    element: u32,
    json_as_string: bool,
    syntax: Syntax,
    /// The depth of the elements.
    depth: u32,
    rest: Scanner<'a>,
    /// Number of levels, 0 until the first element. All elements are in the last level.
    levels: usize,
    /// Size of the first row of each level, 0 until that row has ended.
    sizes: Sizes,
}

impl Array<'_> {
    /// Appends a row of elements or of rows, from its brace on. `level` is the number of rows around it.
    fn append_row(&mut self, level: usize, out: &mut Writer<'_>) -> Option<()> {
        if level >= MAX_DIMENSIONS {
            return None;
        }
        self.rest.eat(b"{")?;
        put(out, "[");
        let mut size = 1_usize;
        loop {
            if let [b'{', ..] = self.rest.0 {
                self.append_row(level.wrapping_add(1), out)?;
            } else {
                self.append_element(level.wrapping_add(1), out)?;
            }
            match self.rest.next()? {
                byte if byte == self.syntax.delimiter => put(out, ","),
                b'}' => break,
                _ => return None,
            }
            size = size.wrapping_add(1);
        }
        put(out, "]");
        let known = self.sizes.get_mut(level)?;
        if *known == 0 {
            *known = size;
        }
        (*known == size).then_some(())
    }

    fn append_element(&mut self, levels: usize, out: &mut Writer<'_>) -> Option<()> {
        if self.levels == 0 {
            self.levels = levels;
        }
        if self.levels != levels {
            return None;
        }
        let value = self.rest.value(self.syntax)?;
        match value.bare() {
            Some(b"NULL") => {
                put(out, "null");
                Some(())
            }
            // Between quotes these would be texts.
            Some(bare) if bare.is_empty() || bare.eq_ignore_ascii_case(b"NULL") => None,
            _ => self.append_value(value, out),
        }
    }

    fn append_value(&self, value: Value<'_>, out: &mut Writer<'_>) -> Option<()> {
        let text = value.text()?;
        if self.json_as_string {
            json_string::append(out, &text);
            return Some(());
        }
        self.nest.read(self.element, &text, out, self.depth)
    }
}
