//! What is left of a text that is read from its front.
//!
//! Knows characters and digits only; values between quotes are quotes.rs's. A method that does not find what it is for
//! says so and is not used again.

/// As many digits of a second's fraction as the server has.
const MICROSECOND_DIGITS: usize = 6;

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

    /// Whether a minus comes next.
    pub(super) fn minus(&mut self) -> bool {
        self.eat(b"-").is_some()
    }

    /// What comes before the first byte that `is_end`, or before the end.
    pub(super) fn until(&mut self, is_end: impl Fn(u8) -> bool) -> &'a [u8] {
        let length = self.0.iter().position(|byte| is_end(*byte));
        let (run, rest) = self
            .0
            .split_at_checked(length.unwrap_or(self.0.len()))
            .unwrap_or_default();
        self.0 = rest;
        run
    }

    /// The digits that come next, maybe none.
    #[inline(never)]
    pub(super) fn digits(&mut self) -> &'a [u8] {
        self.until(|byte| !byte.is_ascii_digit())
    }

    /// A number without a sign. The server writes no zeros in front.
    #[inline(never)]
    pub(super) fn unsigned(&mut self) -> Option<u64> {
        match self.digits() {
            [] | [b'0', _, ..] => None,
            digits => value(digits),
        }
    }

    /// A number that may have a minus, except zero.
    pub(super) fn signed(&mut self) -> Option<i64> {
        let is_minus = self.minus();
        let number = self.unsigned()?;
        if is_minus && number == 0 {
            return None;
        }
        with_sign(is_minus, number)
    }

    /// A number of two digits.
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

    /// A number of two digits, below 60.
    pub(super) fn sixtieth(&mut self) -> Option<u32> {
        self.two().filter(|number| *number < 60)
    }

    /// Behind seconds: their microseconds, of one to six digits; 0 if none come.
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

/// Of decimal digits.
pub(super) fn value(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0_u64, |number, digit| {
        number.checked_mul(10)?.checked_add(u64::from(digit & 15))
    })
}

/// With -2^63, of which there is no positive number.
pub(super) fn with_sign(is_minus: bool, number: u64) -> Option<i64> {
    if is_minus {
        0_i64.checked_sub_unsigned(number)
    } else {
        i64::try_from(number).ok()
    }
}
