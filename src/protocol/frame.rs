//! Cuts the byte stream from the server into messages, whatever pieces it arrives in.
//!
//! One buffer holds the bytes that have arrived and are not consumed yet. The socket's next chunk is copied after them,
//! so a message is always contiguous and is decoded in place:
//!
//! ```text
//! buffer: | consumed … | start: unread messages … | part of one | end: free space, `input` hands it out |
//! ```
//!
//! A carry buffer would need a second code path for the message that was cut, and in a ring a message could wrap
//! around. The copy of a chunk into wasm memory is the only copy.
//!
//! The buffer grows with the bytes that have arrived, never because a length promises more. Nothing is kept of a
//! message that is skipped ([`Frames::skip`]): its bytes are dropped as they arrive.
//!
//! Knows only frames: a type byte and a length. Must not know what a type means (`backend`) or when it may come
//! (`connection`).

use super::messages::HEADER;
use crate::memory;
use alloc::vec::Vec;

/// Why a frame's header is invalid or not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// The length field is below 4: it must at least count itself.
    Length(i32),
    /// The message is longer than the limit. Its header shows that before any of its body is kept.
    TooLarge {
        /// Its type byte.
        tag: u8,
        /// The length of its body.
        length: usize,
    },
}

/// One message: its type byte, and its body within the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The type byte, for example `b'D'` for DataRow.
    pub tag: u8,
    /// The bytes after the length field.
    pub body: &'a [u8],
}

/// A message that is incomplete, or longer than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part<'a> {
    /// The type byte.
    pub tag: u8,
    /// Full length of its body.
    pub length: usize,
    /// The bytes of the body that have arrived.
    pub body: &'a [u8],
}

/// An empty buffer larger than this is freed, so that one huge message does not keep its memory.
const KEEP: usize = 1 << 20;

/// The receive buffer.
#[derive(Debug, Default)]
pub struct Deframer {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Number of bytes still to arrive of a message that is skipped.
    skip: usize,
}

impl Deframer {
    /// A buffer for `count` bytes after the bytes already there. If there is no memory for it, returns an empty buffer
    /// and loses all bytes that were there. First moves the unread rest (less than one message in a drained buffer) to
    /// the front.
    pub fn input(&mut self, count: usize) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start > 0 {
            // `start..end` is inside the buffer: `received` and `next_frame` keep it there.
            self.buffer.copy_within(self.start..self.end, 0);
            self.end = self.end.saturating_sub(self.start);
            self.start = 0;
        }

        let wanted = self.end.saturating_add(count);
        if self.buffer.len() < wanted {
            if self.buffer.capacity() < wanted {
                // Doubles the capacity, so that growing is rare, but allocates no more than the message that has begun
                // will need.
                let twice = self.buffer.capacity().saturating_mul(2);
                let capacity = twice
                    .min(self.announced().saturating_add(count))
                    .max(wanted);
                if !memory::reserve(&mut self.buffer, capacity) {
                    *self = Deframer::default();
                    return &mut [];
                }
            }
            self.buffer.resize(wanted, 0);
        }
        self.buffer.get_mut(self.end..wanted).unwrap_or_default()
    }

    /// Length of the first message, according to its header.
    fn announced(&self) -> usize {
        let part = self.frames(usize::MAX).part();
        part.map_or(0, |part| part.length.saturating_add(HEADER))
    }

    /// The first `count` bytes of the last [`input`](Self::input) now contain data. A `count` larger than that buffer
    /// is a bug of the caller and is reduced to its length.
    pub fn received(&mut self, count: usize) {
        self.end = self.end.saturating_add(count).min(self.buffer.len());
        // While bytes must be skipped, no unread bytes are in front of them.
        let skipped = self.skip.min(self.unread());
        self.start = self.start.saturating_add(skipped);
        self.skip = self.skip.saturating_sub(skipped);
    }

    /// Number of unread bytes: messages and parts of one.
    pub fn unread(&self) -> usize {
        self.end.saturating_sub(self.start)
    }

    /// Takes the next raw byte, before any message: the one-byte answer to SSLRequest.
    pub fn take_byte(&mut self) -> Option<u8> {
        let byte = self.unread_bytes().first().copied()?;
        self.start = self.start.saturating_add(1);
        Some(byte)
    }

    /// The unread bytes, to examine what no PostgreSQL server would send.
    pub fn unread_bytes(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    /// Drops everything that has arrived, and frees the memory.
    pub fn clear(&mut self) {
        *self = Deframer::default();
    }

    /// The unread bytes as messages. `limit`: maximum number of bytes of a message's body. Call [`Deframer::leave`]
    /// afterwards.
    pub fn frames(&self, limit: usize) -> Frames<'_> {
        Frames {
            rest: self.unread_bytes(),
            limit,
            skip: 0,
        }
    }

    /// Notes that all but the last `unread` bytes have been taken, and that the next `skip` are not wanted
    /// ([`Frames::skipping`]).
    pub fn leave(&mut self, unread: usize, skip: usize) {
        self.start = self.end.saturating_sub(unread).max(self.start);
        self.skip = self.skip.saturating_add(skip);
        if self.start == self.end && self.buffer.len() > KEEP {
            (self.start, self.end) = (0, 0);
            self.buffer = Vec::new();
        }
    }
}

/// The messages in a piece of the stream, one after the other.
#[derive(Debug, Default)]
pub struct Frames<'a> {
    rest: &'a [u8],
    limit: usize,
    skip: usize,
}

impl<'a> Frames<'a> {
    /// Changes the maximum length of a message's body.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Number of bytes after the last message that was taken.
    pub fn unread(&self) -> usize {
        self.rest.len()
    }

    /// The next whole message, or `None` until more bytes arrive.
    #[inline]
    pub fn next_frame(&mut self) -> Result<Option<Frame<'a>>, FrameError> {
        let Some((&[tag, a, b, c, d], rest)) = self.rest.split_first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let length = i32::from_be_bytes([a, b, c, d]);
        let Some(body_length) = usize::try_from(length)
            .ok()
            .and_then(|length| length.checked_sub(4))
        else {
            return Err(FrameError::Length(length));
        };
        if body_length > self.limit {
            return Err(FrameError::TooLarge {
                tag,
                length: body_length,
            });
        }
        let Some((body, rest)) = rest.split_at_checked(body_length) else {
            return Ok(None);
        };
        self.rest = rest;
        Ok(Some(Frame { tag, body }))
    }

    /// The next message, with the part of its body that has arrived. `None` until its header is complete, and for an
    /// invalid length, which [`Frames::next_frame`] refuses.
    pub fn part(&self) -> Option<Part<'a>> {
        let (&[tag, a, b, c, d], rest) = self.rest.split_first_chunk::<HEADER>()?;
        let length = usize::try_from(i32::from_be_bytes([a, b, c, d]))
            .ok()?
            .checked_sub(4)?;
        let body = rest.get(..length).unwrap_or(rest);
        Some(Part { tag, length, body })
    }

    /// Continues after that message. The part that has not arrived is skipped when it arrives.
    pub fn skip(&mut self) {
        if let Some(Part { length, body, .. }) = self.part() {
            self.rest = self
                .rest
                .get(HEADER.saturating_add(body.len())..)
                .unwrap_or_default();
            self.skip = length.saturating_sub(body.len());
        }
    }

    /// Number of bytes of a skipped message that are still to arrive.
    pub fn skipping(&self) -> usize {
        self.skip
    }

    /// The bodies of the next messages of this type. Call [`Frames::resume`] afterwards.
    #[inline(always)]
    pub fn bodies(&self, tag: u8) -> Bodies<'a> {
        Bodies {
            rest: self.rest,
            limit: self.limit,
            tag,
        }
    }

    /// Continues after the messages that were taken as bodies.
    #[inline(always)]
    pub fn resume(&mut self, bodies: &Bodies<'a>) {
        self.rest = bodies.rest;
    }
}

/// Iterates over the bodies of rows. Reading rows like any other message would double the cost of a narrow row. Ends
/// before anything that [`Frames::next_frame`] must look at: another type, an incomplete message, an invalid length.
///
/// A copy of the fields of `Frames`, so that it can stay in registers.
#[derive(Debug, Default)]
pub struct Bodies<'a> {
    rest: &'a [u8],
    limit: usize,
    tag: u8,
}

impl<'a> Iterator for Bodies<'a> {
    type Item = &'a [u8];

    #[inline(always)]
    fn next(&mut self) -> Option<&'a [u8]> {
        let (&[tag, a, b, c, d], rest) = self.rest.split_first_chunk::<HEADER>()?;
        // A length below 4 wraps to more bytes than there can be.
        let length = (u32::from_be_bytes([a, b, c, d]) as usize).wrapping_sub(4);
        if tag != self.tag || length > self.limit {
            return None;
        }
        let (body, rest) = rest.split_at_checked(length)?;
        self.rest = rest;
        Some(body)
    }
}

#[cfg(test)]
mod tests;
