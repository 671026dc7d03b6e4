//! The destination of encoded bytes: a buffer whose room is already initialised, and a position in it.
//!
//! Appending to a `Vec` costs three memory accesses and a dependency chain through its length field, and a copy whose
//! length is not a constant is a call (`memory.copy` in wasm). Both cost more than the few bytes of a value: narrow
//! rows took 24 ns in wasm that way and take 14 ns this way. So the room after the written bytes is zeroed once, when
//! the buffer grows. Writing stores whole blocks of constant size into it and moves a position that lives in a
//! register. The next block overwrites what a block holds beyond its value.

use crate::memory;
use alloc::vec::Vec;

/// The width of a wasm vector, and so of a block.
pub(crate) const BLOCK: usize = 16;
/// Size to which an empty buffer grows.
const FIRST_ROOM: usize = 4096;
/// The longest value that is written as a [`Short`].
const SHORT: usize = 64;
/// Number of bytes that a [`Short`] may touch: a block may begin at its last byte.
const SHORT_ROOM: usize = SHORT + BLOCK;
/// From this length on, one `memory.copy` is faster than block after block.
const LONG: usize = 128;

/// Encoded bytes, and room for more.
#[derive(Debug, Default)]
pub struct Output {
    /// Written up to `length`; the rest is room.
    bytes: Vec<u8>,
    length: usize,
}

impl Output {
    /// Drops everything after `length`.
    pub fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// Empties the buffer. Keeps at most `keep` bytes of its room.
    pub fn clear(&mut self, keep: usize) {
        self.length = 0;
        if self.bytes.len() > keep {
            self.bytes.truncate(keep);
            self.bytes.shrink_to_fit();
        }
    }

    /// Returns whether everything written so far has found room, and `more` bytes after it would.
    pub fn has_room(&mut self, more: usize) -> bool {
        let wanted = self.length.saturating_add(more);
        if wanted > self.bytes.len() {
            grow(&mut self.bytes, self.length, more);
        }
        wanted <= self.bytes.len()
    }

    /// The bytes written.
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    /// Number of bytes written.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

/// Continues after the bytes of a `Vec`.
impl From<Vec<u8>> for Output {
    fn from(bytes: Vec<u8>) -> Output {
        Output {
            length: bytes.len(),
            bytes,
        }
    }
}

/// Holds exactly the bytes written.
impl From<Output> for Vec<u8> {
    fn from(mut output: Output) -> Vec<u8> {
        output.bytes.truncate(output.length);
        output.bytes
    }
}

/// Takes encoded bytes: an [`Output`], or a `Vec` where a few nanoseconds per row do not matter.
pub trait Target {
    #[doc(hidden)]
    fn write<R>(&mut self, write: impl FnOnce(&mut Writer<'_>) -> R) -> R;
}

impl Target for Output {
    #[inline(always)]
    fn write<R>(&mut self, write: impl FnOnce(&mut Writer<'_>) -> R) -> R {
        let mut writer = Writer {
            bytes: &mut self.bytes,
            at: self.length,
        };
        let result = write(&mut writer);
        self.length = writer.at;
        result
    }
}

impl Target for Vec<u8> {
    fn write<R>(&mut self, write: impl FnOnce(&mut Writer<'_>) -> R) -> R {
        let at = self.len();
        self.resize(at + 512, 0);
        let mut writer = Writer { bytes: self, at };
        let result = write(&mut writer);
        let end = writer.at;
        self.truncate(end);
        result
    }
}

/// A position in an [`Output`].
///
/// It is fast as long as it is a local variable whose address never escapes: then `at` is a register. So its methods
/// are inlined, and a function that is not inlined gets a copy, through [`Writer::lend`].
pub struct Writer<'a> {
    bytes: &'a mut Vec<u8>,
    at: usize,
}

impl Writer<'_> {
    /// Appends all of `bytes`.
    #[inline(always)]
    pub(crate) fn put<const N: usize>(&mut self, bytes: &[u8; N]) {
        self.put_block(bytes, N);
    }

    /// Appends the first `length` bytes of `block`, at most all of it.
    #[inline(always)]
    pub(crate) fn put_block<const N: usize>(&mut self, block: &[u8; N], length: usize) {
        // The function that grows the buffer does not get the block: a block that is passed on must be in memory, and
        // most blocks are stored from registers.
        let free = self.bytes.len().checked_sub(self.at);
        let room = if free.is_some_and(|free| free >= N) {
            self.bytes
                .get_mut(self.at..)
                .and_then(|room| room.first_chunk_mut())
        } else {
            grown(self.bytes, self.at).and_then(|room| room.first_chunk_mut())
        };
        if let Some(room) = room {
            *room = *block;
        }
        // Exact: the block has just found room at `at`. Saves 0.9 kB (gzip) of overflow checks.
        self.at = self.at.wrapping_add(length);
    }

    /// Appends the first `length` bytes of `readable`. If `readable` continues after them, as a row does after a field,
    /// whole blocks are copied past the end of the field, with no case for each length.
    #[inline(always)]
    pub(crate) fn put_within(&mut self, readable: &[u8], length: usize) {
        // Sums of lengths of bytes in memory cannot overflow, here and below: all memory is less than the address
        // space.
        let whole_blocks = length.wrapping_add(BLOCK - 1) / BLOCK * BLOCK;
        match readable.get(..whole_blocks) {
            Some(whole) if length < LONG => {
                let end = self.at.wrapping_add(length);
                for block in whole.as_chunks::<BLOCK>().0 {
                    self.put(block);
                }
                self.at = end;
            }
            _ => self.put_slice(readable.get(..length).unwrap_or_default()),
        }
    }

    /// Appends `bytes`.
    #[inline(always)]
    pub(crate) fn put_slice(&mut self, bytes: &[u8]) {
        self.at = put_slice(self.bytes, self.at, bytes);
    }

    /// Drops everything after `at`.
    #[inline(always)]
    pub(crate) fn truncate(&mut self, at: usize) {
        self.at = self.at.min(at);
    }

    /// Finds room for a value of at most 64 bytes; see [`put_short`].
    #[inline(always)]
    pub(crate) fn short(&mut self) -> Option<Short<'_>> {
        // The same code as in `put_block`: one helper for both made rows of numerics 4 % slower.
        let free = self.bytes.len().checked_sub(self.at);
        let room = if free.is_some_and(|free| free >= SHORT_ROOM) {
            self.bytes
                .get_mut(self.at..)
                .and_then(|room| room.first_chunk_mut())
        } else {
            grown(self.bytes, self.at)
        };
        room.map(|room| Short { room, at: 0 })
    }

    /// Counts `length` bytes that were written into [`Writer::short`].
    #[inline(always)]
    pub(crate) fn advance(&mut self, length: usize) {
        // Exact: the bytes have just been written there.
        self.at = self.at.wrapping_add(length);
    }

    /// Lets a function that is not inlined write.
    #[inline(always)]
    pub(crate) fn lend<R>(&mut self, write: impl FnOnce(&mut Writer<'_>) -> R) -> R {
        let mut copy = Writer {
            bytes: &mut *self.bytes,
            at: self.at,
        };
        let result = write(&mut copy);
        self.at = copy.at;
        result
    }

    /// Appends the JSON string that `write` writes, without its quotes. `write` starts one byte earlier, and that byte
    /// is restored afterwards.
    pub(crate) fn without_quotes<E>(
        &mut self,
        write: impl FnOnce(&mut Writer<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.at == 0 {
            self.put(b" ");
            self.without_quotes(write)?;
            // Only the very first cell of a result pays for a move.
            self.written_since(0).copy_within(1.., 0);
            self.at -= 1;
            return Ok(());
        }
        let before = self.at - 1;
        let kept = self.bytes.get(before).copied();
        self.at = before;
        let result = write(self);
        if let (Some(byte), Some(kept)) = (self.bytes.get_mut(before), kept) {
            *byte = kept;
        }
        self.at = self.at.saturating_sub(1).max(before + 1);
        result
    }

    /// Number of bytes written, including those before this writer.
    #[inline(always)]
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// Returns whether a string was written at `start`. Does not use [`Writer::written_since`], which is a call.
    #[inline(always)]
    pub(crate) fn is_quote(&self, start: usize) -> bool {
        self.bytes.get(start) == Some(&b'"')
    }

    /// Returns the bytes written since `start`.
    pub(crate) fn written_since(&mut self, start: usize) -> &mut [u8] {
        self.bytes.get_mut(start..self.at).unwrap_or_default()
    }
}

/// A value of at most 64 bytes, written in its final place: numbers, dates, uuids, strings of one block.
///
/// Room for all of it is found once, so that a `put` is a store without a check and most offsets are constants.
pub(crate) struct Short<'a> {
    room: &'a mut [u8; SHORT_ROOM],
    at: usize,
}

impl Short<'_> {
    /// Appends all of `bytes`, at most a block.
    #[inline(always)]
    pub(crate) fn put<const N: usize>(&mut self, bytes: &[u8; N]) {
        self.put_block(bytes, N);
    }

    /// Appends the first `length` bytes of `block`, at most all of it.
    #[inline(always)]
    pub(crate) fn put_block<const N: usize>(&mut self, block: &[u8; N], length: usize) {
        // The remainder never changes `at`. It tells the compiler that `at` is below 64, so that no check is left.
        debug_assert!(self.at < SHORT);
        let room = self.room.get_mut(self.at % SHORT..);
        if let Some(room) = room.and_then(|room| room.first_chunk_mut()) {
            *room = *block;
        }
        self.at = self.at.wrapping_add(length);
    }

    /// Drops the last `count` bytes.
    #[inline(always)]
    pub(crate) fn drop_last(&mut self, count: usize) {
        self.at = self.at.saturating_sub(count);
    }

    /// Lets a function that is not inlined write: it gets a copy and returns the new length.
    #[inline(always)]
    pub(crate) fn lend(&mut self, write: impl FnOnce(Short<'_>) -> usize) {
        self.at = write(Short {
            room: &mut *self.room,
            at: self.at,
        });
    }

    /// Number of bytes of the value written so far.
    #[inline(always)]
    pub(crate) fn length(&self) -> usize {
        self.at
    }

    /// Returns the bytes written since `start`, so that they can be moved.
    #[inline(always)]
    pub(crate) fn written_since(&mut self, start: usize) -> &mut [u8] {
        self.room.get_mut(start..self.at).unwrap_or_default()
    }
}

/// `put_short!(out, |short| …)` appends a value of at most 64 bytes, of any type. It is a macro, because the closure of
/// a function could not be `inline(always)`: under opt-level "z" that call made a row of one int4 a tenth slower.
macro_rules! put_short {
    ($out:expr, |$short:ident| $write:expr) => {
        if let Some(mut room) = $out.short() {
            {
                let $short = &mut room;
                $write;
            }
            let length = room.length();
            $out.advance(length);
        } else {
            // There is no memory. The position moves as if the value were there; see `grow`.
            $out.advance(1);
        }
    };
}
pub(crate) use put_short;

/// Loads the block as a vector. The vector is made from two halves, because `v128_load` takes a pointer and would be
/// unsafe, and because the compiler turns sixteen bytes into sixteen loads.
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
#[inline(always)]
pub(crate) fn vector(block: &[u8; BLOCK]) -> core::arch::wasm32::v128 {
    let halves = u128::from_le_bytes(*block);
    core::arch::wasm32::u64x2(halves as u64, (halves >> 64) as u64)
}

/// Returns which bytes of the block are `byte`: bit i is byte i.
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
#[inline(always)]
pub(crate) fn places(block: &[u8; BLOCK], byte: u8) -> u32 {
    use core::arch::wasm32::{u8x16_bitmask, u8x16_eq, u8x16_splat};
    u8x16_bitmask(u8x16_eq(vector(block), u8x16_splat(byte))).into()
}

#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
pub(crate) fn places(block: &[u8; BLOCK], byte: u8) -> u32 {
    let found = block.iter().rev().map(|other| u32::from(*other == byte));
    found.fold(0, |places, found| places << 1 | found)
}

/// Returns the bytes of the block at `indices`, each of which is below 16.
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
#[inline(always)]
pub(crate) fn picked(block: &[u8; BLOCK], indices: [u64; 2]) -> [u8; BLOCK] {
    use core::arch::wasm32::{u8x16_swizzle, u64x2, u64x2_extract_lane};
    let picked = u8x16_swizzle(vector(block), u64x2(indices[0], indices[1]));
    let (low, high) = (
        u64x2_extract_lane::<0>(picked),
        u64x2_extract_lane::<1>(picked),
    );
    (u128::from(low) | u128::from(high) << 64).to_le_bytes()
}

#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
pub(crate) fn picked(block: &[u8; BLOCK], [low, high]: [u64; 2]) -> [u8; BLOCK] {
    let byte = |index: u8| block.get(usize::from(index)).copied().unwrap_or_default();
    (u128::from(low) | u128::from(high) << 64)
        .to_le_bytes()
        .map(byte)
}

#[inline(never)]
fn put_slice(target: &mut Vec<u8>, at: usize, bytes: &[u8]) -> usize {
    let mut out = Writer { bytes: target, at };
    let end = at.wrapping_add(bytes.len());
    match last_chunk::<BLOCK>(bytes) {
        None => out.put(&padded(bytes)),
        // The last block overlaps the one before it.
        Some(last) if bytes.len() < LONG => {
            let mut rest = bytes;
            while let Some((block, after)) = rest.split_first_chunk::<BLOCK>() {
                out.put(block);
                rest = after;
            }
            out.at = end.wrapping_sub(BLOCK);
            out.put(last);
        }
        Some(_) => {
            if target.len() < end {
                grow(target, at, bytes.len());
            }
            if let Some(room) = target.get_mut(at..end) {
                room.copy_from_slice(bytes);
            }
        }
    }
    end
}

#[cold]
#[inline(never)]
fn grown(target: &mut Vec<u8>, at: usize) -> Option<&mut [u8; SHORT_ROOM]> {
    grow(target, at, SHORT_ROOM);
    target.get_mut(at..)?.first_chunk_mut()
}

/// Makes room for `wanted` bytes after `at`, and at least doubles the buffer, so that growing is rare. If there is no
/// memory, everything written is lost, and so is everything written afterwards: the position then counts bytes that do
/// not exist, and [`Output::has_room`] reports it. A panic would end all connections of the instance.
fn grow(bytes: &mut Vec<u8>, at: usize, wanted: usize) {
    if at > 0 && bytes.is_empty() {
        return;
    }
    let length = at
        .saturating_add(wanted)
        .max(bytes.len().saturating_mul(2))
        .max(FIRST_ROOM);
    if memory::reserve(bytes, length) {
        bytes.resize(length, 0);
    } else {
        *bytes = Vec::new();
    }
}

/// The standard library's version is a call under opt-level "z".
#[inline(always)]
fn last_chunk<const N: usize>(bytes: &[u8]) -> Option<&[u8; N]> {
    bytes.get(bytes.len().wrapping_sub(N)..)?.first_chunk()
}

/// Returns up to 15 bytes, padded with zeros. Two loads that overlap in the middle avoid a loop, and no 128-bit shift
/// is used, because wasm lacks it.
#[inline(always)]
pub(crate) fn padded(bytes: &[u8]) -> [u8; BLOCK] {
    let length = bytes.len();
    let (low, high) = if let (Some(first), Some(last)) =
        (bytes.first_chunk::<8>(), last_chunk::<8>(bytes))
    {
        let unused = 8 * (BLOCK - 1 - length.min(BLOCK - 1)) as u32;
        (
            u64::from_le_bytes(*first),
            (u64::from_le_bytes(*last) >> 8).wrapping_shr(unused),
        )
    } else if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), last_chunk::<4>(bytes)) {
        let (first, last) = (
            u64::from(u32::from_le_bytes(*first)),
            u64::from(u32::from_le_bytes(*last)),
        );
        (
            first | last.wrapping_shl(8 * (length.wrapping_sub(4)) as u32),
            0,
        )
    } else {
        match *bytes {
            [a] => (u64::from(a), 0),
            [a, b] => (u64::from(u16::from_le_bytes([a, b])), 0),
            [a, b, c] => (u64::from(u32::from_le_bytes([a, b, c, 0])), 0),
            _ => (0, 0),
        }
    };
    // The compiler would turn sixteen bytes into sixteen stores.
    (u128::from(low) | u128::from(high) << 64).to_le_bytes()
}

#[cfg(test)]
mod tests;
