//! SHA-256 (FIPS 180-4) and HMAC (RFC 2104) over the compression function of `sha2`.
//!
//! The crates above that function are made for any hash and for input that comes in pieces: 1 kB of wasm for what is padding here.
//! Tests hold this against them.

use sha2::block_api::compress256;

const BLOCK: usize = 64;

/// The hash of nothing yet: the fractional parts of the square roots of the first eight primes.
const INITIAL: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

/// An HMAC key that has been absorbed: what is left for each message is the message.
pub(super) struct Key {
    inner: [u32; 8],
    outer: [u32; 8],
}

impl Key {
    /// A key of any length.
    pub fn new(key: &[u8]) -> Key {
        if key.len() > BLOCK {
            return Key::new(&sha_256(key));
        }
        Key {
            inner: absorbed(key, 0x36),
            outer: absorbed(key, 0x5c),
        }
    }

    /// HMAC-SHA-256 of `message`.
    pub fn sign(&self, message: &[u8]) -> [u8; 32] {
        finish(self.outer, BLOCK, &finish(self.inner, BLOCK, message))
    }
}

pub(super) fn sha_256(message: &[u8]) -> [u8; 32] {
    finish(INITIAL, 0, message)
}

fn absorbed(key: &[u8], pad: u8) -> [u32; 8] {
    let mut block = [pad; BLOCK];
    for (slot, byte) in block.iter_mut().zip(key) {
        *slot ^= byte;
    }
    let mut state = INITIAL;
    compress256(&mut state, &[block]);
    state
}

/// The hash of `before` bytes, which are in `state`, and `message`.
///
/// ```text
/// message  0x80  zeros to 8 bytes before the end of a block  length in bits (u64)
/// ```
#[inline(never)]
fn finish(mut state: [u32; 8], before: usize, message: &[u8]) -> [u8; 32] {
    let (blocks, rest) = message.as_chunks::<BLOCK>();
    compress256(&mut state, blocks);

    let mut padded = [[0; BLOCK]; 2];
    let blocks = if rest.len() < BLOCK - 8 { 1 } else { 2 };
    let last = padded.get_mut(..blocks).unwrap_or_default();
    let bytes = last.as_flattened_mut();
    for (slot, byte) in bytes.iter_mut().zip(rest.iter().chain(&[0x80])) {
        *slot = *byte;
    }
    if let Some(place) = bytes.last_chunk_mut() {
        *place = ((before as u64 + message.len() as u64) * 8).to_be_bytes();
    }
    compress256(&mut state, last);

    let mut hash = [0; 32];
    for (slot, word) in hash.as_chunks_mut().0.iter_mut().zip(state) {
        *slot = word.to_be_bytes();
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use hmac::{Hmac, KeyInit, Mac};
    use proptest::prelude::*;
    use sha2::{Digest, Sha256};

    fn check(key: &[u8], message: &[u8]) {
        assert_eq!(sha_256(message)[..], Sha256::digest(message)[..]);
        let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
        mac.update(message);
        let signature: [u8; 32] = mac.finalize().into_bytes().into();
        assert_eq!(Key::new(key).sign(message), signature);
    }

    #[test]
    fn every_length_around_the_blocks() {
        let bytes: Vec<u8> = (0..200).collect();
        for length in 0..bytes.len() {
            check(b"key", &bytes[..length]);
            check(&bytes[..length], b"message");
        }
    }

    proptest! {
        #[test]
        fn equals_the_crates(key: Vec<u8>, message: Vec<u8>) {
            check(&key, &message);
        }

        #[test]
        fn salted_passwords_equal_the_crates(password: Vec<u8>, salt: Vec<u8>, iterations in 1u32..5) {
            let expected = pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(&password, &salt, iterations);
            prop_assert_eq!(super::super::scram::salted_password(&password, &salt, iterations), expected);
        }
    }
}
