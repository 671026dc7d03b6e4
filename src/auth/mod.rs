//! Password proofs: a frontend's answers to AuthenticationSASL*. AuthenticationCleartextPassword needs nothing from
//! here, and JavaScript answers AuthenticationMD5Password (js/login/md5.ts has the reason).
//!
//! Bytes in, bytes out. Must not know message frames, which methods the caller allows, or where nonce and password come
//! from; and must not draw random numbers.

pub mod scram;
