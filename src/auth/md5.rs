//! AuthenticationMD5Password: the answer of a PasswordMessage.
//!
//! Knows one formula. Whether MD5 is allowed at all is decided above (off unless asked for: whoever
//! reads the stored hash or breaks MD5 is the user).

use ::md5::{Digest, Md5};

/// `"md5" + hex(md5(hex(md5(password + user)) + salt))`, without the closing NUL of the message.
///
/// Source: manual, "Protocol Flow", AuthenticationMD5Password.
pub fn md5_password(user: &[u8], password: &[u8], salt: [u8; 4]) -> [u8; 35] {
    let stored = hex(Md5::new().chain_update(password).chain_update(user));
    let answer = hex(Md5::new().chain_update(stored).chain_update(salt));
    let mut out = [0; 35];
    for (slot, byte) in out.iter_mut().zip(b"md5".iter().chain(&answer)) {
        *slot = *byte;
    }
    out
}

fn hex(hash: Md5) -> [u8; 32] {
    let digit = |nibble: u8| {
        if nibble < 10 {
            b'0' + nibble
        } else {
            b'a' + nibble - 10
        }
    };
    let mut out = [0; 32];
    for (pair, byte) in out.as_chunks_mut::<2>().0.iter_mut().zip(hash.finalize()) {
        *pair = [digit(byte >> 4), digit(byte & 15)];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values: Python's hashlib.
    #[test]
    fn known_answers() {
        let hash = |user: &str, password: &str, salt| {
            md5_password(user.as_bytes(), password.as_bytes(), salt)
        };
        assert_eq!(
            &hash("postgres", "secret", [1, 2, 3, 4]),
            b"md5bb41a296aab6baccb36ff243a562abff"
        );
        assert_eq!(
            &hash("", "", [0; 4]),
            b"md591b86670dcd47857d222fa05653500aa"
        );
        assert_eq!(
            &hash("u", "pä", [255, 0, b',', b'\n']),
            b"md5d52920e7992817d8a8769a1f936e1414"
        );
    }
}
