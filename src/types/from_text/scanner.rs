//! What is left of a text that is read from its front.
//!
//! Knows characters only: digits, and the quotes and backslashes that `array_out`, `record_out`, `range_out` and
//! `hstore_out` put around a value. A method that does not find what it is for says so and is not used again.

use crate::memory;
use crate::types::nested::push;
use alloc::vec::Vec;

/// As many as any number here may have.
const MOST_DIGITS: usize = 10;

#[derive(Clone, Copy)]
pub(super) struct Scanner<'a>(pub &'a [u8]);

impl<'a> Scanner<'a> {
    /// Nothing if something else comes next than `text`; if not, it is behind us.
    #[inline(never)]
    pub(super) fn eat(&mut self, text: &[u8]) -> Option<()> {
        self.0 = self.0.strip_prefix(text)?;
        Some(())
    }

    /// Nothing if something is left.
    pub(super) fn end(self) -> Option<()> {
        self.0.is_empty().then_some(())
    }

    /// The next byte.
    pub(super) fn next(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    /// Whether it is a minus. A plus may stand there too.
    pub(super) fn sign(&mut self) -> bool {
        let is_minus = self.eat(b"-").is_some();
        if !is_minus {
            self.eat(b"+");
        }
        is_minus
    }

    /// A number, and of how many digits.
    #[inline(never)]
    pub(super) fn number(&mut self) -> Option<(u32, usize)> {
        let (mut number, mut length) = (0_u64, 0_usize);
        while let Some((digit @ b'0'..=b'9', rest)) = self.0.split_first() {
            number = number.wrapping_mul(10).wrapping_add(u64::from(digit & 15));
            length = length.wrapping_add(1);
            self.0 = rest;
        }
        let number = u32::try_from(number).ok()?;
        (1..=MOST_DIGITS)
            .contains(&length)
            .then_some((number, length))
    }

    /// A number of two digits.
    #[inline(never)]
    pub(super) fn two(&mut self) -> Option<u32> {
        match self.number()? {
            (number, 2) => Some(number),
            _ => None,
        }
    }

    /// Behind seconds: their microseconds, of one to six digits; 0 if none come.
    pub(super) fn fraction(&mut self) -> Option<i64> {
        if self.eat(b".").is_none() {
            return Some(0);
        }
        let (mut number, length) = self.number()?;
        for _ in length..6 {
            number = number.wrapping_mul(10);
        }
        (length <= 6).then_some(number.into())
    }

    /// What stands up to one of `ends`, which comes next then, or up to the end. Inside quotes, and behind a backslash,
    /// is no end; nothing where quotes have none.
    #[inline(never)]
    pub(super) fn raw(&mut self, ends: [u8; 2]) -> Option<&'a [u8]> {
        let [end, other] = ends;
        let (mut is_inside, mut is_escaped) = (false, false);
        let length = self.0.iter().position(|byte| {
            let is_free = !is_escaped;
            is_escaped = is_free && *byte == b'\\';
            // One that is doubled leaves the quotes and enters them again.
            is_inside ^= is_free && *byte == b'"';
            is_free && !is_inside && (*byte == end || *byte == other)
        });
        let (raw, rest) = self.0.split_at_checked(length.unwrap_or(self.0.len()))?;
        self.0 = rest;
        (!is_inside).then_some(raw)
    }
}

/// The value that [`Scanner::raw`] stands for; nothing where there is no memory for it.
#[inline(never)]
pub(super) fn unescaped(raw: &[u8]) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    if !memory::reserve(&mut value, raw.len()) {
        return None;
    }
    let (mut rest, mut is_inside) = (Scanner(raw), false);
    while let Some(mut byte) = rest.next() {
        match byte {
            b'"' if !is_inside || rest.eat(b"\"").is_none() => {
                is_inside = !is_inside;
                continue;
            }
            b'\\' => byte = rest.next()?,
            _ => {}
        }
        push(&mut value, byte);
    }
    Some(value)
}
