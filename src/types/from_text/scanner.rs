//! The rest of a text that is read from its front.
//!
//! Knows only characters and digits; values between quotes are in quotes.rs. A method that does not find what it looks
//! for returns `None`, and the scanner is then not used again.

/// Number of digits of a second's fraction on the server.
const MICROSECOND_DIGITS: usize = 6;

#[derive(Clone, Copy)]
pub(super) struct Scanner<'a>(pub &'a [u8]);

impl<'a> Scanner<'a> {
    /// Skips `text`. Returns `None` if something else comes next.
    #[inline(never)]
    pub(super) fn eat(&mut self, text: &[u8]) -> Option<()> {
        self.0 = self.0.strip_prefix(text)?;
        Some(())
    }

    /// Returns `None` if something is left.
    pub(super) fn end(self) -> Option<()> {
        self.0.is_empty().then_some(())
    }

    /// Reads the next byte.
    pub(super) fn next(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    /// Skips a minus. Returns whether there was one.
    pub(super) fn minus(&mut self) -> bool {
        self.eat(b"-").is_some()
    }

    /// Reads up to the first byte for which `is_end` is true, or up to the end.
    pub(super) fn until(&mut self, is_end: impl Fn(u8) -> bool) -> &'a [u8] {
        let length = self.0.iter().position(|byte| is_end(*byte));
        let (run, rest) = self
            .0
            .split_at_checked(length.unwrap_or(self.0.len()))
            .unwrap_or_default();
        self.0 = rest;
        run
    }

    /// Reads the digits that come next, possibly none.
    #[inline(never)]
    pub(super) fn digits(&mut self) -> &'a [u8] {
        self.until(|byte| !byte.is_ascii_digit())
    }

    /// Reads a number without a sign. The server writes no leading zeros.
    #[inline(never)]
    pub(super) fn unsigned(&mut self) -> Option<u64> {
        match self.digits() {
            [] | [b'0', _, ..] => None,
            digits => value(digits),
        }
    }

    /// Reads a number that may have a minus, except zero.
    pub(super) fn signed(&mut self) -> Option<i64> {
        let is_minus = self.minus();
        let number = self.unsigned()?;
        if is_minus && number == 0 {
            return None;
        }
        with_sign(is_minus, number)
    }

    /// Reads a number of two digits.
    #[inline(never)]
    pub(super) fn two(&mut self) -> Option<u32> {
        let &[tens, ones] = self.digits() else {
            return None;
        };
        Some(
            u32::from(tens & 15)
                .wrapping_mul(10)
                .wrapping_add((ones & 15).into()),
        )
    }

    /// Reads a number of two digits, below 60.
    pub(super) fn sixtieth(&mut self) -> Option<u32> {
        self.two().filter(|number| *number < 60)
    }

    /// Reads the fraction after seconds, of one to six digits, as microseconds; 0 if there is none.
    pub(super) fn fraction(&mut self) -> Option<u64> {
        if self.eat(b".").is_none() {
            return Some(0);
        }
        let digits = self.digits();
        let missing = MICROSECOND_DIGITS.checked_sub(digits.len())?;
        if digits.is_empty() {
            return None;
        }
        Some((0..missing).fold(value(digits)?, |number, _| number.wrapping_mul(10)))
    }
}

/// Returns the value of decimal digits.
pub(super) fn value(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0_u64, |number, digit| {
        number.checked_mul(10)?.checked_add(u64::from(digit & 15))
    })
}

/// Applies the sign. Accepts -2^63, although i64 does not have 2^63.
pub(super) fn with_sign(is_minus: bool, number: u64) -> Option<i64> {
    if is_minus {
        0_i64.checked_sub_unsigned(number)
    } else {
        i64::try_from(number).ok()
    }
}
