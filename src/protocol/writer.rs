//! Builds messages at the end of a byte buffer: type byte, length (patched when the body is complete), body.
//!
//! ```text
//! 'P' | int32 length, counts itself but not the type byte | body …
//! ```
//! A message is written whole or not at all. If it is too long, the buffer stays as it was, so a failed command never
//! leaves half a Bind in front of the next message.

use alloc::string::String;
use alloc::vec::Vec;

/// Maximum length of a message that PostgreSQL accepts (`PQ_LARGE_MESSAGE_LIMIT` is MaxAllocSize - 1). The check is
/// made before a byte is sent: CVE-2024-27304 smuggled messages by a length that wraps at 2^32.
pub const MAX_MESSAGE_LENGTH: usize = 0x3fff_ffff - 1;

/// A message would be longer than PostgreSQL accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong;

/// Appends to one message body. See [`message`].
pub struct Body<'a> {
    buffer: &'a mut Vec<u8>,
}

impl Body<'_> {
    /// One byte.
    #[inline(never)]
    pub fn byte(&mut self, value: u8) {
        self.buffer.push(value);
    }

    /// A big-endian int16. The caller must refuse counts above 65,535.
    #[inline(never)]
    pub fn int16(&mut self, value: u16) {
        self.buffer.extend_from_slice(&value.to_be_bytes());
    }

    /// A big-endian int32.
    #[inline(never)]
    pub fn int32(&mut self, value: u32) {
        self.buffer.extend_from_slice(&value.to_be_bytes());
    }

    /// Bytes, unchanged.
    #[inline(never)]
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// A string and its NUL. The text itself contains no NUL: the boundary refuses it, because it would smuggle a
    /// second string.
    #[inline(never)]
    pub fn string(&mut self, text: &[u8]) {
        self.buffer.extend_from_slice(text);
        self.buffer.push(0);
    }
}

/// Appends one message of type `tag` (`None`: the startup messages, which have no type byte). `write` fills its body.
pub fn message(
    buffer: &mut Vec<u8>,
    tag: Option<u8>,
    write: impl FnOnce(&mut Body<'_>),
) -> Result<(), TooLong> {
    let at = begin(buffer, tag);
    write(&mut Body { buffer });
    end(buffer, at, tag)
}

/// Appends the type byte and room for the length. Returns the position of the length.
#[inline(never)]
fn begin(buffer: &mut Vec<u8>, tag: Option<u8>) -> usize {
    if let Some(tag) = tag {
        buffer.push(tag);
    }
    buffer.extend_from_slice(&[0; 4]);
    buffer.len().saturating_sub(4)
}

#[inline(never)]
fn end(buffer: &mut Vec<u8>, at: usize, tag: Option<u8>) -> Result<(), TooLong> {
    let length = buffer.len().saturating_sub(at);
    if length > MAX_MESSAGE_LENGTH {
        buffer.truncate(at.saturating_sub(usize::from(tag.is_some())));
        return Err(TooLong);
    }
    // The cast is exact: MAX_MESSAGE_LENGTH is below 2^31.
    if let Some(place) = buffer.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *place = (length as u32).to_be_bytes();
    }
    Ok(())
}

/// `number` in decimal. Row values use `types::digits` instead, which writes into a row's buffer without a copy.
pub(crate) fn decimal(number: impl itoa::Integer) -> String {
    itoa::Buffer::new().format(number).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    /// PostgreSQL's own limit. Untouched memory replaces the body: filling a gigabyte would cost seconds.
    #[test]
    fn the_longest_message_goes_and_one_that_is_longer_leaves_the_buffer_as_it_was() {
        for (tag, start) in [(None, 1), (Some(b'Q'), 2)] {
            let write = |length: usize| {
                let mut buffer = vec![7];
                let result = message(&mut buffer, tag, |body| {
                    let mut filled = vec![0; start + length];
                    filled[..start].copy_from_slice(&body.buffer[..start]);
                    *body.buffer = filled;
                });
                (result, buffer)
            };
            let (result, buffer) = write(0x3fff_fffe);
            assert_eq!(result, Ok(()));
            assert_eq!(buffer[start..][..4], [0x3f, 0xff, 0xff, 0xfe]);
            assert_eq!(write(0x3fff_ffff), (Err(TooLong), vec![7]));
        }
    }
}
