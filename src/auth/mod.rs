//! Password proofs: what a frontend answers to AuthenticationSASL* and AuthenticationMD5Password.
//! AuthenticationCleartextPassword needs nothing from here.
//!
//! Bytes in, bytes out. Nothing here knows message frames, which methods the caller allows, or
//! where nonce and password come from; and nothing draws random numbers.

pub mod md5;
pub mod scram;
