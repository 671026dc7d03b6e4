//! Cuts the byte stream from the server into messages, whatever pieces it arrives in.
//!
//! One buffer holds what has arrived and is not yet consumed; the socket's next chunk is copied behind it, so a message
//! is always contiguous and is decoded in place:
//!
//! ```text
//! buffer: | consumed … | start: unread messages … | part of one | end: free space, `input` hands it out |
//! ```
//! The buffer grows with the bytes that have come, never because a length promises more. Of a message that nobody wants
//! ([`Frames::skip`]) nothing is kept: its bytes are dropped as they come.
//!
//! Knows only frames: a type byte and a length. What a type means is `backend`'s, when it may come is `connection`'s.

use crate::memory;
use alloc::vec::Vec;

/// A frame's header cannot be right, or names more bytes than this connection accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// The length field is below 4: it must at least count itself.
    Length(i32),
    /// The message is longer than the limit. Found from its header, before any of its body is kept.
    TooLarge {
        /// Its type byte.
        tag: u8,
        /// The length of its body.
        length: usize,
    },
}

/// One message: its type byte and where its body stands in the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The type byte, for example `b'D'` for DataRow.
    pub tag: u8,
    /// What follows the length field.
    pub body: &'a [u8],
}

impl Frame<'_> {
    /// The whole message as it came. Its length was one.
    pub fn append_to(self, buffer: &mut Vec<u8>) {
        let length = self.body.len().saturating_add(4) as u32;
        buffer.push(self.tag);
        buffer.extend_from_slice(&length.to_be_bytes());
        buffer.extend_from_slice(self.body);
    }
}

/// A message that is not all there, or longer than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part<'a> {
    /// The type byte.
    pub tag: u8,
    /// How long its body is to be.
    pub length: usize,
    /// What of that has come.
    pub body: &'a [u8],
}

/// Above this the buffer is given back once it is empty, so one huge message does not keep its memory.
const KEEP: usize = 1 << 20;

/// `'D' int32`: a frame's header.
const HEADER: usize = 5;

/// The receive buffer.
#[derive(Debug, Default)]
pub struct Deframer {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes still to come of a message that is skipped.
    skip: usize,
}

impl Deframer {
    /// Room for `count` bytes behind what is already there; nothing where there is no memory for it, and then all that
    /// was there is lost. Moves the unread rest (less than one message in a drained buffer) to the front first.
    pub fn input(&mut self, count: usize) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start > 0 {
            // `start..end` lies inside the buffer: `received` and `next_frame` keep it there.
            self.buffer.copy_within(self.start..self.end, 0);
            self.end = self.end.saturating_sub(self.start);
            self.start = 0;
        }

        let wanted = self.end.saturating_add(count);
        if self.buffer.len() < wanted {
            if self.buffer.capacity() < wanted {
                // Twice as much, so that growing is rare; but no more than the message that has begun will need.
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

    /// How long the first message says that it is.
    fn announced(&self) -> usize {
        let part = self.frames(usize::MAX).part();
        part.map_or(0, |part| part.length.saturating_add(HEADER))
    }

    /// The first `count` bytes of the last [`input`](Self::input) now hold data. More than was handed out is a bug of
    /// the caller and is cut to what there is.
    pub fn received(&mut self, count: usize) {
        self.end = self.end.saturating_add(count).min(self.buffer.len());
        // While there is something to skip, nothing is in front of it.
        let skipped = self.skip.min(self.unread());
        self.start = self.start.saturating_add(skipped);
        self.skip = self.skip.saturating_sub(skipped);
    }

    /// How many bytes wait: messages and parts of one.
    pub fn unread(&self) -> usize {
        self.end.saturating_sub(self.start)
    }

    /// The next raw byte, before any message: the one-byte answer to SSLRequest.
    pub fn take_byte(&mut self) -> Option<u8> {
        let byte = self.unread_bytes().first().copied()?;
        self.start = self.start.saturating_add(1);
        Some(byte)
    }

    /// The first unread bytes, for a look at what no PostgreSQL server would send.
    pub fn unread_bytes(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    /// Forgets everything that has arrived, and gives its memory back.
    pub fn clear(&mut self) {
        *self = Deframer::default();
    }

    /// What waits, as messages; `limit`: the longest that is accepted, in bytes of its body. Afterwards
    /// [`Deframer::leave`].
    pub fn frames(&self, limit: usize) -> Frames<'_> {
        Frames {
            rest: self.unread_bytes(),
            limit,
            skip: 0,
        }
    }

    /// All but the last `unread` bytes have been taken, and the next `skip` are not wanted ([`Frames::skipping`]).
    pub fn leave(&mut self, unread: usize, skip: usize) {
        self.start = self.end.saturating_sub(unread).max(self.start);
        self.skip = self.skip.saturating_add(skip);
        if self.start == self.end && self.buffer.len() > KEEP {
            (self.start, self.end) = (0, 0);
            self.buffer = Vec::new();
        }
    }
}

/// The messages in a piece of the stream, one behind the other.
#[derive(Debug, Default)]
pub struct Frames<'a> {
    rest: &'a [u8],
    limit: usize,
    skip: usize,
}

impl<'a> Frames<'a> {
    /// Whole messages that were kept.
    pub fn of(messages: &'a [u8]) -> Self {
        Frames {
            rest: messages,
            limit: usize::MAX,
            skip: 0,
        }
    }

    /// Changes the longest message accepted.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Bytes behind the last message that was taken.
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

    /// The message that comes next, whatever of its body is there: `None` until its header is. What is no length at
    /// all, [`Frames::next_frame`] refuses.
    pub fn part(&self) -> Option<Part<'a>> {
        let (&[tag, a, b, c, d], rest) = self.rest.split_first_chunk::<HEADER>()?;
        let length = usize::try_from(i32::from_be_bytes([a, b, c, d]))
            .ok()?
            .checked_sub(4)?;
        let body = rest.get(..length).unwrap_or(rest);
        Some(Part { tag, length, body })
    }

    /// Goes on behind that message; what has not come of it is skipped when it comes.
    pub fn skip(&mut self) {
        if let Some(Part { length, body, .. }) = self.part() {
            self.rest = self
                .rest
                .get(HEADER.saturating_add(body.len())..)
                .unwrap_or_default();
            self.skip = length.saturating_sub(body.len());
        }
    }

    /// Bytes of a skipped message that are still to come.
    pub fn skipping(&self) -> usize {
        self.skip
    }

    /// The bodies of the messages of this type that come next. Afterwards [`Frames::resume`].
    #[inline(always)]
    pub fn bodies(&self, tag: u8) -> Bodies<'a> {
        Bodies {
            rest: self.rest,
            limit: self.limit,
            tag,
        }
    }

    /// Goes on behind what was taken as bodies.
    #[inline(always)]
    pub fn resume(&mut self, bodies: &Bodies<'a>) {
        self.rest = bodies.rest;
    }
}

/// What rows are read by: on the way of any message, a narrow one would cost twice what it does. Ends in front of what
/// [`Frames::next_frame`] has to look at: another type, a part of a message, a length that cannot be.
///
/// A copy of what `Frames` knows, so that it can live in registers.
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
        // Below 4 it becomes more than there can be.
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
