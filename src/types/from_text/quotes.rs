//! Values inside other values: quoted where `array_out`, `record_out`, `range_out` or `hstore_out` must quote them,
//! bare elsewhere.
//!
//! ```text
//! array, hstore       "a\"b\\c"     preceded by a backslash
//! composite, range    "a""b\\c"     doubled
//! ```
//! The server writes quotes and backslashes in no other way, so other text is not read: no lone backslash, no quote in
//! the middle of a bare value.

use super::scanner::Scanner;
use crate::memory;
use crate::types::nested::push;
use alloc::borrow::Cow;
use alloc::vec::Vec;

/// How the quotes and backslashes in a value are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Quotes {
    /// Preceded by a backslash.
    Escaped,
    /// Doubled.
    Doubled,
}

/// How values are quoted, and the bytes that, besides blanks, a bare value does not contain: the special ones, and the
/// one between values.
#[derive(Clone, Copy)]
pub(super) struct Syntax {
    pub quotes: Quotes,
    pub special: &'static [u8],
    pub delimiter: u8,
}

/// In an array. Its delimiter is that of its elements' type.
pub(super) const ARRAY: Syntax = Syntax {
    quotes: Quotes::Escaped,
    special: b"\"\\{}",
    delimiter: b',',
};
/// In a composite.
pub(super) const RECORD: Syntax = Syntax {
    quotes: Quotes::Doubled,
    special: b"\"\\()",
    delimiter: b',',
};
/// In a range.
pub(super) const RANGE: Syntax = Syntax {
    quotes: Quotes::Doubled,
    special: b"\"\\()[]",
    delimiter: b',',
};

/// A value as it is written, without the quotes around it.
#[derive(Clone, Copy)]
pub(super) struct Value<'a> {
    raw: &'a [u8],
    is_quoted: bool,
    has_escapes: bool,
}

impl<'a> Value<'a> {
    /// Returns the value if it is written without quotes.
    pub(super) fn bare(&self) -> Option<&'a [u8]> {
        (!self.is_quoted).then_some(self.raw)
    }

    /// Returns the value itself. Copies it only if something in it was escaped; `None` if there is no memory for the
    /// copy.
    #[inline(never)]
    pub(super) fn text(&self) -> Option<Cow<'a, [u8]>> {
        if self.has_escapes {
            unescaped(self.raw).map(Cow::Owned)
        } else {
            Some(Cow::Borrowed(self.raw))
        }
    }
}

impl<'a> Scanner<'a> {
    /// Reads the next value, which may be empty. A bare value ends before the first byte that only a quoted one may
    /// contain.
    #[inline(never)]
    pub(super) fn value(&mut self, syntax: Syntax) -> Option<Value<'a>> {
        if self.0.first() == Some(&b'"') {
            return self.quoted(syntax.quotes);
        }
        let is_blank = |byte: u8| matches!(byte, b' ' | 9..=13);
        let raw = self.until(|byte| {
            byte == syntax.delimiter || is_blank(byte) || syntax.special.contains(&byte)
        });
        Some(Value {
            raw,
            is_quoted: false,
            has_escapes: false,
        })
    }

    /// Reads the next value, which must be between quotes.
    #[inline(never)]
    pub(super) fn quoted(&mut self, quotes: Quotes) -> Option<Value<'a>> {
        self.eat(b"\"")?;
        let start = self.0;
        let mut has_escapes = false;
        loop {
            self.until(|byte| matches!(byte, b'"' | b'\\'));
            let raw = start.get(..start.len().checked_sub(self.0.len())?)?;
            match (self.next()?, self.0.first()) {
                (b'\\', Some(b'\\')) => {}
                (b'\\', Some(b'"')) if quotes == Quotes::Escaped => {}
                (b'"', Some(b'"')) if quotes == Quotes::Doubled => {}
                (b'"', _) => {
                    return Some(Value {
                        raw,
                        is_quoted: true,
                        has_escapes,
                    });
                }
                _ => return None,
            }
            has_escapes = true;
            self.next();
        }
    }
}

/// Removes the first of the two bytes of each escape.
fn unescaped(raw: &[u8]) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    if !memory::reserve(&mut value, raw.len()) {
        return None;
    }
    let mut bytes = raw.iter();
    while let Some(mut byte) = bytes.next() {
        if matches!(byte, b'"' | b'\\') {
            byte = bytes.next()?;
        }
        push(&mut value, *byte);
    }
    Some(value)
}
