//! SCRAM against reference values from elsewhere, servers that break the rules, and arbitrary bytes. This file has what
//! these tests share: the exchange of RFC 7677.

use super::*;
use std::format;

mod exchange;
mod messages;
mod properties;

const MAX: u32 = 100_000;
const NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
const SERVER_FIRST: &str =
    "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
/// The salted password of "pencil" with the values of `SERVER_FIRST`.
const SALTED: [u8; 32] = *b"\xc4\xa4\x95\x10\x32\x3a\xb4\xf9\x52\xca\xc1\xfa\x99\x44\x19\x39\
    \xe7\x8e\xa7\x4d\x6b\xe8\x1d\xdf\x70\x96\xe8\x75\x13\xdc\x61\x5d";
const SERVER_FINAL: &str = "v=3HO6Qt1M4MKJrmlKaoOqLAI0/0TV0HZe7J9H3MBtSOg=";

fn first(message: impl AsRef<[u8]>) -> Result<u32, ScramError> {
    let challenge = Scram::new(NONCE).server_first_message(message.as_ref(), MAX);
    challenge.map(|challenge| {
        assert!(!challenge.salt.is_empty());
        challenge.iterations
    })
}

/// An exchange that awaits the server's signature, which is `SERVER_FINAL`.
fn awaiting_final() -> Scram {
    let mut scram = Scram::new(NONCE);
    scram
        .server_first_message(SERVER_FIRST.as_bytes(), MAX)
        .unwrap();
    scram
        .client_final_message(ChannelBinding::Unsupported, &SALTED)
        .unwrap();
    scram
}

fn last(message: impl AsRef<[u8]>) -> Result<(), ScramError> {
    awaiting_final().server_final_message(message.as_ref())
}
