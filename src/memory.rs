//! Room for what a server's bytes make large: one that finds none ends its own connection, where an allocation that may
//! not fail would end all connections of the instance.

use alloc::vec::Vec;
use core::hint::black_box;

/// Stays free behind what is reserved here, for all that is small and may not fail.
const HEADROOM: usize = 1 << 20;

/// Below this no headroom is looked for: the last one that was found is hardly touched.
const SMALL: usize = 1 << 20;

/// Makes room for `capacity` bytes in all. Whether there was some.
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
    // The compiler may leave out an allocation that nobody looks at.
    black_box(&headroom);
    found
}
