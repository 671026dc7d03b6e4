//! Password proofs: what a frontend answers to AuthenticationSASL*. AuthenticationCleartextPassword needs nothing from
//! here, and AuthenticationMD5Password is answered by JavaScript (docs/decisions/0008-md5-by-the-runtime.md).
//!
//! Bytes in, bytes out. Nothing here knows message frames, which methods the caller allows, or
//! where nonce and password come from; and nothing draws random numbers.

pub mod scram;
