//! Allocations whose size the server's bytes decide. When such an allocation fails, only its own connection ends. An
//! infallible allocation that fails would end all connections of the instance.

use alloc::vec::Vec;
use core::hint::black_box;

/// Bytes that must stay free after a large reservation, for the small allocations that may not fail.
const HEADROOM: usize = 1 << 20;

/// A reservation below this size skips the headroom check: it uses little of the headroom that the last check found.
const SMALL: usize = 1 << 20;

/// Makes room for `capacity` bytes in total. Returns whether there was enough memory.
pub fn reserve(bytes: &mut Vec<u8>, capacity: usize) -> bool {
    bytes
        .try_reserve_exact(capacity.saturating_sub(bytes.len()))
        .is_ok()
        && (capacity < SMALL || has_headroom())
}

#[cold]
#[inline(never)]
fn has_headroom() -> bool {
    let mut headroom: Vec<u8> = Vec::new();
    let found = headroom.try_reserve_exact(HEADROOM).is_ok();
    // The compiler may remove an allocation whose memory is never used.
    black_box(&headroom);
    found
}
