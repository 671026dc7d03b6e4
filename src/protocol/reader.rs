//! A cursor over one message body. Every read is checked against the remaining bytes; no read can panic.
//!
//! Integers on the wire are big-endian ("network byte order"). Strings end in a NUL that must be inside the message:
//! searching beyond the message has been a bug in other drivers (CVE-2022-41862 in libpq).

/// The message body is shorter or longer than its layout says, or has other bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

/// Reads a message body from front to back.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

macro_rules! big_endian {
    ($($name:ident)*) => {$(
        #[doc = concat!("Reads one big-endian `", stringify!($name), "`.")]
        #[inline]
        pub fn $name(&mut self) -> Result<$name, Malformed> {
            let (bytes, rest) = self.rest.split_first_chunk().ok_or(Malformed)?;
            self.rest = rest;
            Ok($name::from_be_bytes(*bytes))
        }
    )*};
}

impl<'a> Reader<'a> {
    /// A reader at the start of `body`.
    #[inline]
    pub fn new(body: &'a [u8]) -> Self {
        Reader { rest: body }
    }

    big_endian!(u8 i16 u16 i32 u32);

    /// The next `count` bytes.
    #[inline]
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (bytes, rest) = self.rest.split_at_checked(count).ok_or(Malformed)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// The bytes up to the next NUL, which is consumed and not returned.
    pub fn string(&mut self) -> Result<&'a [u8], Malformed> {
        let end = memchr::memchr(0, self.rest).ok_or(Malformed)?;
        let string = self.bytes(end)?;
        self.u8()?;
        Ok(string)
    }

    /// Everything that remains.
    #[inline]
    pub fn remaining(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.rest)
    }

    /// Succeeds only at the end of the body: trailing bytes mean that the two sides disagree about the layout.
    #[inline]
    pub fn end(&self) -> Result<(), Malformed> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(Malformed)
        }
    }
}
