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
mod tests {
    use super::*;
    use alloc::vec;

    fn feed(deframer: &mut Deframer, bytes: &[u8]) {
        deframer.input(bytes.len()).copy_from_slice(bytes);
        deframer.received(bytes.len());
    }

    #[test]
    fn a_message_in_any_split_comes_out_whole() {
        let stream = [
            b'Z', 0, 0, 0, 5, b'I', b'1', 0, 0, 0, 4, b'C', 0, 0, 0, 6, b'A', 0,
        ];
        for size in 1..=stream.len() {
            let mut deframer = Deframer::default();
            let mut seen = vec![];
            for chunk in stream.chunks(size) {
                feed(&mut deframer, chunk);
                let mut frames = deframer.frames(100);
                while let Some(frame) = frames.next_frame().unwrap() {
                    seen.push((frame.tag, frame.body.to_vec()));
                }
                let unread = frames.unread();
                deframer.leave(unread, 0);
            }
            assert_eq!(
                seen,
                [(b'Z', vec![b'I']), (b'1', vec![]), (b'C', vec![b'A', 0])],
                "chunks of {size}"
            );
            assert_eq!(deframer.unread(), 0);
        }
    }

    #[test]
    fn a_length_below_four_is_an_error() {
        for length in [3_i32, 0, -1, i32::MIN] {
            let mut deframer = Deframer::default();
            feed(&mut deframer, b"D");
            feed(&mut deframer, &length.to_be_bytes());
            assert_eq!(
                deframer.frames(100).next_frame(),
                Err(FrameError::Length(length))
            );
            assert_eq!(deframer.frames(100).bodies(b'D').next(), None);
        }
    }

    #[test]
    fn an_oversized_message_is_refused_from_its_header() {
        let mut deframer = Deframer::default();
        feed(&mut deframer, &[b'D', 0x70, 0, 0, 0]);
        assert_eq!(
            deframer.frames(1000).next_frame(),
            Err(FrameError::TooLarge {
                tag: b'D',
                length: 0x7000_0000 - 4
            })
        );
        assert!(deframer.buffer.capacity() < 1000);
    }

    #[test]
    fn bodies_end_before_what_is_none() {
        let first = [b'D', 0, 0, 0, 5, 1, b'D', 0, 0, 0, 4];
        for (behind, limit) in [
            (&[][..], 9),
            (b"D\0\0\0", 9),
            (b"D\0\0\0\x05", 9),
            (b"D\0\0\0\x03", 9),
            (b"D\xff\xff\xff\xff", 9),
            (b"C\0\0\0\x04", 9),
            (b"D\0\0\0\x06ab", 1),
        ] {
            let mut deframer = Deframer::default();
            feed(&mut deframer, &[&first, behind].concat());
            let mut frames = deframer.frames(limit);
            let mut bodies = frames.bodies(b'D');
            let seen: Vec<&[u8]> = bodies.by_ref().collect();
            assert_eq!(seen, [&[1][..], &[]]);
            frames.resume(&bodies);
            assert_eq!(frames.unread(), behind.len());
        }
    }

    #[test]
    fn a_message_that_is_skipped_is_not_kept() {
        let (length, behind) = (3 << 20, b"Z\0\0\0\x05I");
        let body = vec![7_u8; length - 4];
        let stream = [
            &b"1\0\0\0\x04D"[..],
            &(length as u32).to_be_bytes(),
            &body,
            behind,
        ]
        .concat();
        for size in [1 << 16, (1 << 16) + 1, stream.len()] {
            let mut deframer = Deframer::default();
            let mut seen = vec![];
            for chunk in stream.chunks(size) {
                feed(&mut deframer, chunk);
                let mut frames = deframer.frames(100);
                while let Some(part) = frames.part() {
                    if part.tag == b'D' {
                        assert_eq!(part.length, body.len());
                        frames.skip();
                    } else if let Some(frame) = frames.next_frame().unwrap() {
                        seen.push(frame.tag);
                    } else {
                        break;
                    }
                }
                let (unread, skip) = (frames.unread(), frames.skipping());
                deframer.leave(unread, skip);
            }
            assert_eq!(seen, [b'1', b'Z'], "chunks of {size}");
            assert!(deframer.buffer.capacity() <= 2 * size, "chunks of {size}");
        }
    }

    #[test]
    fn the_buffer_grows_with_what_has_come_and_not_beyond_the_message() {
        let length = 5 << 20;
        let mut deframer = Deframer::default();
        feed(&mut deframer, b"D");
        feed(&mut deframer, &(length as u32 + 4).to_be_bytes());
        let chunk = vec![0; 1 << 16];
        for received in 1..=length / chunk.len() {
            feed(&mut deframer, &chunk);
            let capacity = deframer.buffer.capacity();
            assert!(
                capacity <= 2 * (received + 1) * chunk.len(),
                "{capacity} behind {received} chunks"
            );
            assert!(
                capacity <= length + 2 * chunk.len(),
                "{capacity} behind {received} chunks"
            );
        }
        assert!(deframer.frames(length).next_frame().unwrap().is_some());
    }

    /// Each chunk ends within a message, so that the buffer is never empty between two.
    #[test]
    fn what_is_read_makes_room_for_what_comes() {
        let message = b"D\0\0\0\x07abc";
        let stream = message.repeat(10_000);
        let mut deframer = Deframer::default();
        let mut count = 0;
        for chunk in stream.chunks(1001) {
            feed(&mut deframer, chunk);
            let mut frames = deframer.frames(100);
            while let Some(frame) = frames.next_frame().unwrap() {
                assert_eq!(frame.body, b"abc");
                count += 1;
            }
            let unread = frames.unread();
            deframer.leave(unread, 0);
            assert_eq!(unread, deframer.unread());
            assert!(deframer.buffer.capacity() <= 4 * 1001);
        }
        assert_eq!((count, deframer.unread()), (10_000, 0));
    }

    /// A message that comes in many pieces is not copied with each of them.
    #[test]
    fn the_buffer_grows_seldom() {
        let mut deframer = Deframer::default();
        feed(&mut deframer, b"D\0\x50\0\x04");
        let mut capacities = vec![];
        for _ in 0..80 {
            feed(&mut deframer, &[0; 1 << 16]);
            capacities.push(deframer.buffer.capacity());
        }
        capacities.dedup();
        assert!(capacities.len() <= 9, "{capacities:?}");
    }

    #[test]
    fn another_limit_holds_for_the_next_message() {
        let stream = b"Z\0\0\0\x05ID\0\0\0\x07abcD\0\0\0\x07abc";
        let mut deframer = Deframer::default();
        feed(&mut deframer, stream);
        let mut frames = deframer.frames(1);
        assert!(frames.next_frame().unwrap().is_some());
        assert!(frames.next_frame().is_err());
        frames.set_limit(3);
        assert!(frames.next_frame().unwrap().is_some());
        frames.set_limit(2);
        assert!(frames.next_frame().is_err());
    }

    #[test]
    fn no_more_is_received_than_there_was_room_for() {
        let mut deframer = Deframer::default();
        deframer.input(3).copy_from_slice(b"abc");
        deframer.received(100);
        assert_eq!(deframer.unread_bytes(), b"abc");
        assert_eq!(deframer.unread(), 3);
    }

    #[test]
    fn nothing_is_left_of_what_is_cleared() {
        let mut deframer = Deframer::default();
        feed(&mut deframer, b"Z\0\0\0\x05ID\0\0");
        deframer.clear();
        assert_eq!((deframer.unread(), deframer.buffer.capacity()), (0, 0));
    }

    #[test]
    fn room_that_is_not_to_be_had_is_none() {
        let mut deframer = Deframer::default();
        feed(&mut deframer, b"D\0\0");
        assert!(deframer.input(isize::MAX as usize).is_empty());
        assert_eq!(deframer.unread(), 0);
    }

    #[test]
    fn a_huge_message_does_not_keep_its_memory() {
        let mut deframer = Deframer::default();
        let body = vec![0_u8; 4 << 20];
        feed(&mut deframer, b"D");
        feed(&mut deframer, &(body.len() as u32 + 4).to_be_bytes());
        feed(&mut deframer, &body);
        assert!(deframer.frames(8 << 20).next_frame().unwrap().is_some());
        deframer.leave(0, 0);
        assert!(deframer.buffer.capacity() <= KEEP);
    }
    #[test]
    fn what_waits_behind_a_huge_message_stays() {
        let length = 2 * KEEP;
        let mut deframer = Deframer::default();
        feed(&mut deframer, b"D");
        feed(&mut deframer, &(length as u32 + 4).to_be_bytes());
        feed(&mut deframer, &vec![0; length]);
        feed(&mut deframer, b"Z\0\0\0\x05");
        let mut frames = deframer.frames(length);
        assert!(frames.next_frame().unwrap().is_some());
        let unread = frames.unread();
        deframer.leave(unread, 0);
        feed(&mut deframer, b"I");
        let mut frames = deframer.frames(100);
        let frame = frames.next_frame().unwrap();
        assert_eq!(
            frame,
            Some(Frame {
                tag: b'Z',
                body: b"I"
            })
        );
    }
}
