//! SCRAM-SHA-256 (RFC 5802, RFC 7677) as the frontend speaks it, without channel binding.
//!
//! ```text
//!  client-first-message   n,,n=,r=<our nonce>                         SASLInitialResponse
//!  server-first-message   r=<our nonce><theirs>,s=<salt>,i=<count>    AuthenticationSASLContinue
//!  client-final-message   c=biws,r=<both nonces>,p=<proof>            SASLResponse
//!  server-final-message   v=<signature>  or  e=<error>                AuthenticationSASLFinal
//! ```
//!
//! Knows the text of these four messages and the keys. Must not know message frames, the mechanism
//! list, the clock or a random source; the password comes in as bytes that are already SASLprep'd.
//! Nothing is kept that outlives its use: after client-final-message only the signature expected
//! from the server remains.

use super::hmac_sha_256::{Key, sha_256};
use crate::error::Reason;
use crate::protocol::writer::decimal;
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::hint::black_box;
use core::mem;

/// A server message that is longer is refused before it is read: PostgreSQL sends fewer than 100
/// bytes, and the nonce in it goes back to the server (CVE-2026-6665 was a buffer overflow on a
/// long nonce).
const MAX_SERVER_MESSAGE: usize = 2048;

/// An empty client nonce would make the replay check hold for every server nonce. Ours has 24
/// characters (18 bytes).
const MIN_CLIENT_NONCE: usize = 16;

/// `biws` is base64("n,,"), the gs2 header: the client does not support channel binding.
const CLIENT_FINAL_BEGINNING: &[u8] = b"c=biws,r=";

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// What server-first-message asks for: derive [`salted_password`] with these, here or outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Challenge<'a> {
    /// Never empty.
    pub salt: Vec<u8>,
    /// The salt as the server spelled it.
    pub salt_base64: &'a [u8],
    /// From 1 to `max_iterations`.
    pub iterations: u32,
}

/// One exchange. Each step works once and in order; after an error or an untimely call every
/// further step is [`ScramError::OutOfOrder`], so that nothing a server sends can bring a failed
/// exchange to success.
pub struct Scram {
    step: Step,
    /// Ours, then the server's, which begins with ours.
    nonce: Vec<u8>,
    /// AuthMessage, as far as it has come:
    /// client-first-message-bare `,` server-first-message `,` client-final-message-without-proof.
    /// Emptied when both signatures over it are made.
    auth_message: Vec<u8>,
    server_signature: [u8; 32],
}

/// The step that fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    ServerFirst,
    SaltedPassword,
    ServerFinal,
    Over,
}

/// Why an exchange failed. Holds nothing secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScramError {
    /// A step was called twice, too early, or after an error.
    OutOfOrder,
    /// The nonce given to [`Scram::new`] has fewer than 16 characters.
    ClientNonceTooShort,
    /// The server's message breaks the grammar of RFC 5802.
    Malformed {
        /// What is wrong, for humans.
        problem: &'static str,
    },
    /// The server demands an extension (`m=`); RFC 5802 wants failure then.
    MandatoryExtension,
    /// The server's nonce does not continue ours: a replayed or foreign message.
    NonceMismatch,
    /// Iteration count 0, or more than allowed.
    IterationsOutOfRange {
        /// What the server asked for, `u32::MAX` if more.
        requested: u32,
        /// What the caller allows.
        max_iterations: u32,
    },
    /// The server ended the exchange with `e=`.
    ServerError {
        /// The server's word, such as `invalid-proof`; at most 100 characters, unprintable ones
        /// replaced by `?`.
        value: String,
    },
    /// The server does not know the password's verifier: it is not the server it claims to be.
    ServerSignatureMismatch,
}

impl Scram {
    /// An exchange that begins. `nonce`: at least 16 printable characters without a comma, fresh
    /// random ones for each exchange. (One that breaks this makes [`Scram::server_first_message`]
    /// fail.)
    ///
    /// The user name is left empty: PostgreSQL takes the one of StartupMessage.
    pub fn new(nonce: &str) -> Scram {
        Scram::with_user_name(b"", nonce.as_bytes())
    }

    fn with_user_name(user_name: &[u8], nonce: &[u8]) -> Scram {
        Scram {
            step: Step::ServerFirst,
            nonce: nonce.to_vec(),
            auth_message: concat(&[b"n=", user_name, b",r=", nonce]),
            server_signature: [0; 32],
        }
    }

    /// Takes server-first-message, returns what to derive the salted password from.
    /// `max_iterations` bounds the work a server may cause.
    ///
    /// Raises `NonceMismatch`, `IterationsOutOfRange`, `MandatoryExtension`, `ServerError` (some
    /// servers refuse here already), `Malformed`, `ClientNonceTooShort`, `OutOfOrder`.
    pub fn server_first_message<'a>(
        &mut self,
        message: &'a [u8],
        max_iterations: u32,
    ) -> Result<Challenge<'a>, ScramError> {
        self.take(Step::ServerFirst)?;
        if self.nonce.len() < MIN_CLIENT_NONCE {
            return Err(ScramError::ClientNonceTooShort);
        }
        let mut attributes = Attributes::new(message)?;
        let nonce = attributes.take(
            b'r',
            "server-first-message does not begin with a nonce (r=)",
        )?;
        let salt_base64 =
            attributes.take(b's', "no salt (s=) after the nonce in server-first-message")?;
        let iterations = attributes.take(
            b'i',
            "no iteration count (i=) after the salt in server-first-message",
        )?;
        attributes.only_extensions()?;

        if !nonce.iter().all(u8::is_ascii_graphic) {
            return Err(malformed(
                "the nonce in server-first-message is not printable",
            ));
        }
        if nonce.len() <= self.nonce.len() || !nonce.starts_with(&self.nonce) {
            return Err(ScramError::NonceMismatch);
        }
        let salt = match decode(salt_base64) {
            Some(salt) if !salt.is_empty() => salt,
            _ => {
                return Err(malformed(
                    "the salt in server-first-message is empty or not base64",
                ));
            }
        };
        let iterations = parse_iterations(iterations, max_iterations)?;

        self.nonce = nonce.to_vec();
        self.append(&[b",", message]);
        self.step = Step::SaltedPassword;
        Ok(Challenge {
            salt,
            salt_base64,
            iterations,
        })
    }

    /// Returns client-final-message, with the proof that we know the password. `salted_password` is
    /// not kept.
    ///
    /// Raises `OutOfOrder`.
    pub fn client_final_message(&mut self, salted_password: &[u8]) -> Result<Vec<u8>, ScramError> {
        self.take(Step::SaltedPassword)?;
        let mut message = concat(&[CLIENT_FINAL_BEGINNING, &self.nonce]);
        self.append(&[b",", &message]);
        let auth_message = mem::take(&mut self.auth_message);

        let salted_password = Key::new(salted_password);
        let client_key = salted_password.sign(b"Client Key");
        let stored_key = sha_256(&client_key);
        let mut proof = Key::new(&stored_key).sign(&auth_message);
        // ClientProof := ClientKey XOR ClientSignature
        for (byte, key) in proof.iter_mut().zip(client_key) {
            *byte ^= key;
        }
        let server_key = salted_password.sign(b"Server Key");
        self.server_signature = Key::new(&server_key).sign(&auth_message);

        message.extend_from_slice(b",p=");
        message.extend_from_slice(&encode(&proof));
        self.step = Step::ServerFinal;
        Ok(message)
    }

    /// `Ok` when the server has proved that it knows the password's verifier; only then may
    /// AuthenticationOk be believed. Compares in constant time.
    ///
    /// Raises `ServerSignatureMismatch`, `ServerError`, `MandatoryExtension`, `Malformed`,
    /// `OutOfOrder`.
    pub fn server_final_message(&mut self, message: &[u8]) -> Result<(), ScramError> {
        self.take(Step::ServerFinal)?;
        let mut attributes = Attributes::new(message)?;
        let verifier = attributes.take(
            b'v',
            "server-final-message does not begin with a signature (v=)",
        )?;
        attributes.only_extensions()?;
        let verifier = decode(verifier).unwrap_or_default();
        if verifier.len() != self.server_signature.len() {
            return Err(malformed(
                "the signature in server-final-message is not 32 bytes of base64",
            ));
        }
        let pairs = verifier.iter().zip(&self.server_signature);
        let difference = pairs.fold(0, |difference, (theirs, ours)| difference | (theirs ^ ours));
        if black_box(difference) != 0 {
            return Err(ScramError::ServerSignatureMismatch);
        }
        Ok(())
    }

    /// Leaves `Over` behind; a step that succeeds puts its successor there.
    fn take(&mut self, step: Step) -> Result<(), ScramError> {
        if mem::replace(&mut self.step, Step::Over) == step {
            Ok(())
        } else {
            Err(ScramError::OutOfOrder)
        }
    }

    fn append(&mut self, parts: &[&[u8]]) {
        for part in parts {
            self.auth_message.extend_from_slice(part);
        }
    }

    /// `n,,n=,r=<nonce>`: what an exchange begins with.
    pub fn client_first_message(&self) -> Vec<u8> {
        concat(&[b"n,,", &self.auth_message])
    }
}

impl ScramError {
    /// Stable name for programs, and what happened and what to do, for humans.
    pub fn reason(&self) -> &'static Reason {
        match self {
            ScramError::OutOfOrder => &Reason {
                code: "SCRAM_OUT_OF_ORDER",
                message: "A SCRAM message came out of turn. Check what stands between client and server.",
            },
            ScramError::ClientNonceTooShort => &Reason {
                code: "SCRAM_CLIENT_NONCE_TOO_SHORT",
                message: "The SCRAM nonce has less than 18 bytes.",
            },
            ScramError::Malformed { .. } => &Reason {
                code: "SCRAM_MALFORMED",
                message: "The server sent a SCRAM message that breaks RFC 5802. Check that host and port lead to PostgreSQL, and a pooler in between.",
            },
            ScramError::MandatoryExtension => &Reason {
                code: "SCRAM_MANDATORY_EXTENSION",
                message: "The server demands a SCRAM extension that this driver does not know. Turn it off in the server or pooler.",
            },
            ScramError::NonceMismatch => &Reason {
                code: "SCRAM_NONCE_MISMATCH",
                message: "The server's SCRAM nonce does not continue ours: its message belongs to another login, or is replayed. Do not trust this connection; check what stands between client and server.",
            },
            ScramError::IterationsOutOfRange { .. } => &Reason {
                code: "SCRAM_ITERATIONS_OUT_OF_RANGE",
                message: "The server asks for more SCRAM iterations than are allowed, or for none. If you trust the server, raise the limit, or lower scram_iterations there and set the password again.",
            },
            ScramError::ServerError { .. } => &Reason {
                code: "SCRAM_SERVER_ERROR",
                message: "The server refused the SCRAM login. Check user name and password; the server's log says more.",
            },
            ScramError::ServerSignatureMismatch => &Reason {
                code: "SCRAM_SERVER_SIGNATURE_MISMATCH",
                message: "The server could not prove that it knows this password: it may be an impostor. Do not trust this connection; check host, TLS and what stands between client and server.",
            },
        }
    }

    /// What exactly was wrong; empty where the reason says all.
    pub fn detail(self) -> String {
        match self {
            ScramError::Malformed { problem } => problem.to_owned(),
            ScramError::IterationsOutOfRange {
                requested,
                max_iterations,
            } => {
                decimal(requested.into())
                    + " iterations; 1 to "
                    + &decimal(max_iterations.into())
                    + " are allowed"
            }
            ScramError::ServerError { value } => value,
            _ => String::new(),
        }
    }
}

/// PBKDF2-HMAC-SHA-256, one block: `Hi(password, salt, iterations)` of RFC 5802. The caller has
/// bounded `iterations`; 0 counts as 1.
pub fn salted_password(password: &[u8], salt: &[u8], iterations: u32) -> [u8; 32] {
    let key = Key::new(password);
    let mut block = key.sign(&concat(&[salt, &[0, 0, 0, 1]]));
    let mut sum = block;
    for _ in 1..iterations {
        block = key.sign(&block);
        for (byte, other) in sum.iter_mut().zip(block) {
            *byte ^= other;
        }
    }
    sum
}

/// What remains of `a=value,b=value`; `None` behind the last.
struct Attributes<'a>(Option<&'a [u8]>);

impl<'a> Attributes<'a> {
    /// An error attribute or a mandatory extension in front decides the exchange, in each message.
    fn new(message: &'a [u8]) -> Result<Self, ScramError> {
        match message {
            _ if message.len() > MAX_SERVER_MESSAGE => {
                Err(malformed("a message is longer than 2048 bytes"))
            }
            [b'e', b'=', value @ ..] => Err(server_error(value)),
            [b'm', b'=', ..] => Err(ScramError::MandatoryExtension),
            _ => Ok(Attributes(Some(message))),
        }
    }

    #[inline(never)]
    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.0?;
        let end = rest.iter().position(|byte| *byte == b',');
        let (attribute, behind) = rest.split_at_checked(end.unwrap_or(rest.len()))?;
        self.0 = behind.get(1..);
        Some(attribute)
    }

    fn take(&mut self, name: u8, problem: &'static str) -> Result<&'a [u8], ScramError> {
        match self.next() {
            Some([found, b'=', value @ ..]) if *found == name => Ok(value),
            _ => Err(malformed(problem)),
        }
    }

    /// RFC 5802 section 5.1 allows extensions at the end, to be ignored. The names of this protocol's
    /// own attributes are none: they stand where they do not belong.
    fn only_extensions(mut self) -> Result<(), ScramError> {
        while let Some(attribute) = self.next() {
            match attribute {
                [b'm', b'=', ..] => return Err(ScramError::MandatoryExtension),
                [name, b'=', _, ..]
                    if name.is_ascii_alphabetic() && !b"ancrsipve".contains(name) => {}
                _ => {
                    return Err(malformed(
                        "a repeated, misplaced or unreadable attribute at the end of a message",
                    ));
                }
            }
        }
        Ok(())
    }
}

fn parse_iterations(digits: &[u8], max_iterations: u32) -> Result<u32, ScramError> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(malformed(
            "the iteration count in server-first-message is not a number",
        ));
    }
    let requested = digits.iter().fold(0, |sum: u32, digit| {
        sum.saturating_mul(10).saturating_add((digit - b'0').into())
    });
    if (1..=max_iterations).contains(&requested) {
        return Ok(requested);
    }
    Err(ScramError::IterationsOutOfRange {
        requested,
        max_iterations,
    })
}

/// The value ends up in logs and terminals.
fn server_error(message: &[u8]) -> ScramError {
    let mut value = String::new();
    for byte in message.iter().take(100) {
        match *byte {
            b',' => break,
            b' '..=b'~' => value.push(char::from(*byte)),
            _ => value.push('?'),
        }
    }
    ScramError::ServerError { value }
}

/// Base64 as RFC 4648 has it: padded, and no bits set where none belong. (The crates do it without branches over the bytes, for secrets;
/// what goes through here stands on the wire.)
fn decode(base64: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let (quads, []) = base64.as_chunks::<4>() else {
        return None;
    };
    for (at, quad) in quads.iter().enumerate() {
        let padding = match quad {
            [.., b'=', b'='] => 2,
            [.., b'='] => 1,
            _ => 0,
        };
        if padding > 0 && at.saturating_add(1) < quads.len() {
            return None;
        }
        let mut bits = 0_u32;
        for (place, letter) in quad.iter().enumerate() {
            let value = match letter {
                b'=' if place.saturating_add(padding) >= 4 => 0,
                _ => BASE64.iter().position(|known| known == letter)?,
            };
            bits = bits << 6 | value as u32;
        }
        let [_, triple @ ..] = bits.to_be_bytes();
        let (wanted, rest) = triple.split_at_checked(3_usize.saturating_sub(padding))?;
        if rest.iter().any(|byte| *byte != 0) {
            return None;
        }
        bytes.extend_from_slice(wanted);
    }
    Some(bytes)
}

fn encode(bytes: &[u8]) -> Vec<u8> {
    let mut base64 = Vec::new();
    for chunk in bytes.chunks(3) {
        let mut triple = [0; 3];
        for (slot, byte) in triple.iter_mut().zip(chunk) {
            *slot = *byte;
        }
        let [a, b, c] = triple;
        let bits = u32::from_be_bytes([0, a, b, c]);
        for place in 0..4_usize {
            let value = bits >> (18 - 6 * place) & 63;
            let letter = BASE64.get(value as usize).filter(|_| place <= chunk.len());
            base64.push(*letter.unwrap_or(&b'='));
        }
    }
    base64
}

fn malformed(problem: &'static str) -> ScramError {
    ScramError::Malformed { problem }
}

fn concat(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::{Engine, engine::general_purpose::STANDARD};
    use hmac::{Hmac, KeyInit, Mac};
    use proptest::prelude::*;
    use sha2::{Digest, Sha256};
    use std::format;

    const MAX: u32 = 100_000;
    const NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
    const SERVER_FIRST: &str =
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    /// "pencil" under `SERVER_FIRST`.
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

    /// The server's signature over this exchange is `SERVER_FINAL`.
    fn awaiting_final() -> Scram {
        let mut scram = Scram::new(NONCE);
        scram
            .server_first_message(SERVER_FIRST.as_bytes(), MAX)
            .unwrap();
        scram.client_final_message(&SALTED).unwrap();
        scram
    }

    fn last(message: impl AsRef<[u8]>) -> Result<(), ScramError> {
        awaiting_final().server_final_message(message.as_ref())
    }

    fn conversation(mut scram: Scram, server_first: &str, proof: &str, verifier: &str) {
        let challenge = scram
            .server_first_message(server_first.as_bytes(), MAX)
            .unwrap();
        assert_eq!(challenge.salt_base64, b"W22ZaJ0SNY7soEsUEjb6gQ==");
        assert_eq!(
            challenge.salt,
            *b"\x5b\x6d\x99\x68\x9d\x12\x35\x8e\xec\xa0\x4b\x14\x12\x36\xfa\x81"
        );
        assert_eq!(challenge.iterations, 4096);
        let salted = salted_password(b"pencil", &challenge.salt, challenge.iterations);
        assert_eq!(salted, SALTED);
        let message = scram.client_final_message(&salted).unwrap();
        let expected =
            format!("c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p={proof}");
        assert_eq!(message, expected.as_bytes());
        assert_eq!(
            scram.server_final_message(format!("v={verifier}").as_bytes()),
            Ok(())
        );
        assert_eq!(
            scram.server_final_message(format!("v={verifier}").as_bytes()),
            Err(ScramError::OutOfOrder)
        );
    }

    #[test]
    fn rfc_7677_example() {
        let scram = Scram::with_user_name(b"user", NONCE.as_bytes());
        assert_eq!(
            scram.client_first_message(),
            b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
        );
        let proof = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        conversation(
            scram,
            SERVER_FIRST,
            proof,
            "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
        );
    }

    /// Expected values: Python's hashlib and hmac.
    #[test]
    fn empty_user_name() {
        let scram = Scram::new(NONCE);
        assert_eq!(
            scram.client_first_message(),
            b"n,,n=,r=rOprNGfwEbeRWgbNEkqO"
        );
        conversation(
            scram,
            SERVER_FIRST,
            "qvT2SWdEH5Q06albL+hjSYuUhCG7VndFyzIb7CK4n9k=",
            &SERVER_FINAL[2..],
        );
    }

    /// Expected values: Python's hashlib and hmac. The signed text is the server's message with its
    /// extensions.
    #[test]
    fn trailing_extensions_are_ignored_but_signed() {
        let server_first = format!("{SERVER_FIRST},x=later,y=a=b");
        let proof = "Dfma6syHdviYtPxJSGOklplpyIafYrcEMcXVyX++8qc=";
        conversation(
            Scram::new(NONCE),
            &server_first,
            proof,
            "B4gFb+Xt8sDqqHbsWj6lsQKu8qmmMVFb/H7cQ+6Uq5c=",
        );
        assert_eq!(last(format!("{SERVER_FINAL},x=later")), Ok(()));
    }

    /// Expected values: Python's hashlib.
    #[test]
    fn salted_passwords() {
        let hex = |bytes: [u8; 32]| {
            bytes
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect::<String>()
        };
        let cases: [(&[u8], u32, &str); 4] = [
            (
                b"password",
                1,
                "120fb6cffcf8b32c43e7225256c4f837a86548c92ccc35480805987cb70be17b",
            ),
            (
                b"password",
                4096,
                "c5e478d59288c841aa530db6845c4c8d962893a001ce4e11a4963873aa98134a",
            ),
            (
                b"",
                1,
                "f135c27993baf98773c5cdb40a5706ce6a345cde61b000a67858650cd6a324d7",
            ),
            (
                &[b'a'; 65],
                2,
                "9f3e73a7a18ef815e92cfde43cccc37df2e505e2e62cad65b1ccd33521fc680d",
            ),
        ];
        for (password, iterations, expected) in cases {
            assert_eq!(
                hex(salted_password(password, b"salt", iterations)),
                expected
            );
        }
    }

    #[test]
    fn nonce_must_continue_ours() {
        for nonce in [
            "",
            "x",
            "rOprNGfwEbeRWgbNEkq",
            NONCE,
            "ROprNGfwEbeRWgbNEkqOxyz",
            "xrOprNGfwEbeRWgbNEkqO",
            "%hvYDpWUa2RaTCAfuxFI",
        ] {
            assert_eq!(
                first(format!("r={nonce},s=c2FsdA==,i=1")),
                Err(ScramError::NonceMismatch),
                "{nonce}"
            );
        }
        for nonce in [
            "rOprNGfwEbeRWgbNEkqO\n",
            "rOprNGfwEbeRWgbNEkqO\u{e9}",
            "rOprNGfwEbeRWgbNEkqO x",
            "rOprNGfwEbeRWgbNEkqO\0",
        ] {
            assert_eq!(
                first(format!("r={nonce},s=c2FsdA==,i=1"))
                    .unwrap_err()
                    .reason()
                    .code,
                "SCRAM_MALFORMED",
                "{nonce}"
            );
        }
        assert!(first(format!("r={NONCE}x,s=c2FsdA==,i=1")).is_ok());
    }

    #[test]
    fn short_client_nonce_never_gets_a_challenge() {
        for nonce in ["", "short", "123456789012345"] {
            let message = format!("r={nonce}abc,s=c2FsdA==,i=1");
            let result = Scram::new(nonce).server_first_message(message.as_bytes(), MAX);
            assert_eq!(result, Err(ScramError::ClientNonceTooShort));
        }
    }

    #[test]
    fn client_nonce_with_a_comma_fails() {
        let nonce = "1234567890123456,i=1";
        let message = format!("r={nonce}abc,s=c2FsdA==,i=1");
        let result = Scram::new(nonce).server_first_message(message.as_bytes(), MAX);
        assert_eq!(result.unwrap_err().reason().code, "SCRAM_MALFORMED");
    }

    #[test]
    fn server_first_message_must_follow_the_grammar() {
        let (r, s, i) = (format!("r={NONCE}xyz"), "s=c2FsdA==", "i=4096");
        let refused = [
            String::new(),
            ",".into(),
            "=".into(),
            "r".into(),
            "r=".into(),
            r.clone(),
            format!("{r},{s}"),
            format!("{r},{i}"),
            format!("{s},{i}"),
            format!("{s},{r},{i}"),
            format!("{r},{i},{s}"),
            format!("{r},{r},{s},{i}"),
            format!("{r},{s},{s},{i}"),
            format!("{r},{s},{i},{i}"),
            format!("{r},{s},{i},{r}"),
            format!("{r},{s},{i},v=AAAA"),
            format!("{r},{s},{i},"),
            format!("{r},{s},{i},x"),
            format!("{r},{s},{i},x="),
            format!("{r},{s},{i},xy=1"),
            format!("{r},{s},{i},1=1"),
            format!("{r},,{s},{i}"),
            format!("{r},x=1,{s},{i}"),
            format!(",{r},{s},{i}"),
            format!(" {r},{s},{i}"),
            format!("R={NONCE}xyz,{s},{i}"),
            format!("{r},{s},{i}\0"),
            format!("{r},{s},{i}\n"),
        ];
        for message in refused {
            let code = first(&message).map_err(|error| error.reason().code);
            assert!(
                matches!(code, Err("SCRAM_MALFORMED" | "SCRAM_NONCE_MISMATCH")),
                "{message}: {code:?}"
            );
        }
        assert!(first(format!("{r},{s},{i}")).is_ok());
    }

    #[test]
    fn mandatory_extension_is_refused_wherever_it_stands() {
        for message in [
            format!("m=x,{SERVER_FIRST}"),
            format!("{SERVER_FIRST},m=x"),
            format!("{SERVER_FIRST},x=1,m="),
        ] {
            assert_eq!(first(message), Err(ScramError::MandatoryExtension));
        }
        assert_eq!(
            last(format!("m=x,{SERVER_FINAL}")),
            Err(ScramError::MandatoryExtension)
        );
        assert_eq!(
            last(format!("{SERVER_FINAL},m=x")),
            Err(ScramError::MandatoryExtension)
        );
    }

    #[test]
    fn salt_must_be_base64_and_not_empty() {
        for salt in [
            "",
            "=",
            "====",
            "A",
            "AA",
            "AAA",
            "c2FsdA",
            "c2FsdA=",
            "c2FsdA===",
            "c2Fs-A==",
            "c2Fs dA==",
            "c2FsdB==",
            "\u{e9}",
            "c2FsdA==\0",
        ] {
            let result = first(format!("r={NONCE}xyz,s={salt},i=1"));
            assert_eq!(
                result.unwrap_err().reason().code,
                "SCRAM_MALFORMED",
                "{salt}"
            );
        }
    }

    #[test]
    fn iterations_are_bounded() {
        let iterations = |text: &str| first(format!("r={NONCE}xyz,s=c2FsdA==,i={text}"));
        let out_of_range = |requested| {
            Err(ScramError::IterationsOutOfRange {
                requested,
                max_iterations: MAX,
            })
        };
        assert_eq!(iterations("1"), Ok(1));
        assert_eq!(iterations("100000"), Ok(MAX));
        assert_eq!(iterations("0"), out_of_range(0));
        assert_eq!(iterations("100001"), out_of_range(100_001));
        assert_eq!(iterations("2000000000"), out_of_range(2_000_000_000));
        assert_eq!(iterations("4294967297"), out_of_range(u32::MAX));
        assert_eq!(iterations("18446744073709551617"), out_of_range(u32::MAX));
        assert_eq!(iterations(&"9".repeat(1000)), out_of_range(u32::MAX));
        for text in [
            "", "-1", "+1", " 1", "1 ", "1e3", "0x10", "4096;", "1.5", "\u{661}",
        ] {
            assert_eq!(
                iterations(text).unwrap_err().reason().code,
                "SCRAM_MALFORMED",
                "{text}"
            );
        }
        let nothing_allowed = Scram::new(NONCE).server_first_message(SERVER_FIRST.as_bytes(), 0);
        assert_eq!(
            nothing_allowed,
            Err(ScramError::IterationsOutOfRange {
                requested: 4096,
                max_iterations: 0
            })
        );
    }

    #[test]
    fn long_messages_are_refused() {
        let with_nonce_of =
            |length: usize| first(format!("r={NONCE}{},s=c2FsdA==,i=1", "x".repeat(length)));
        let frame = format!("r={NONCE},s=c2FsdA==,i=1").len();
        assert!(with_nonce_of(MAX_SERVER_MESSAGE - frame).is_ok());
        for length in [MAX_SERVER_MESSAGE - frame + 1, 1 << 24] {
            assert_eq!(
                with_nonce_of(length).unwrap_err().reason().code,
                "SCRAM_MALFORMED"
            );
        }
        assert_eq!(
            last(format!("e={}", "x".repeat(5000)))
                .unwrap_err()
                .reason()
                .code,
            "SCRAM_MALFORMED"
        );
    }

    #[test]
    fn server_errors_are_told_and_made_printable() {
        let error = |value: &str| ScramError::ServerError {
            value: value.into(),
        };
        assert_eq!(last("e=invalid-proof"), Err(error("invalid-proof")));
        assert_eq!(
            last(format!("e=other-error,{SERVER_FINAL}")),
            Err(error("other-error"))
        );
        assert_eq!(first("e=unknown-user"), Err(error("unknown-user")));
        assert_eq!(last("e="), Err(error("")));
        assert_eq!(last(b"e=\x1b[31m\xff\0\n"), Err(error("?[31m???")));
        assert_eq!(
            last(format!("e={}", "x".repeat(101))),
            Err(error(&"x".repeat(100)))
        );
    }

    #[test]
    fn server_signature_is_verified() {
        let mut wrong_bits = STANDARD.decode(&SERVER_FINAL[2..]).unwrap();
        for bit in 0..256 {
            wrong_bits[bit / 8] ^= 1 << (bit % 8);
            let mut scram = awaiting_final();
            assert_eq!(
                scram
                    .server_final_message(format!("v={}", STANDARD.encode(&wrong_bits)).as_bytes()),
                Err(ScramError::ServerSignatureMismatch)
            );
            wrong_bits[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(
            last(format!("v={}", STANDARD.encode([0; 32]))),
            Err(ScramError::ServerSignatureMismatch)
        );
        // The RFC's signature is for the user name "user".
        assert_eq!(
            last("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="),
            Err(ScramError::ServerSignatureMismatch)
        );
        for message in [
            "",
            "v",
            "v=",
            "v=AAAA",
            "v=3HO6Qt1M4MKJrmlKaoOqLAI0/0TV0HZe7J9H3MBtSOg",
            "V=3HO6Qt1M4MKJrmlKaoOqLAI0/0TV0HZe7J9H3MBtSOg=",
            SERVER_FIRST,
        ] {
            assert_eq!(
                last(message).unwrap_err().reason().code,
                "SCRAM_MALFORMED",
                "{message}"
            );
        }
        for tail in [",", ",v=AAAA", ",e=other-error", "\0", "\n"] {
            assert_eq!(
                last(format!("{SERVER_FINAL}{tail}"))
                    .unwrap_err()
                    .reason()
                    .code,
                "SCRAM_MALFORMED",
                "{tail}"
            );
        }
    }

    /// Each step in each state: the one that fits moves on, all others end the exchange.
    #[test]
    fn steps_out_of_order_end_the_exchange() {
        type Step = fn(&mut Scram) -> Result<(), ScramError>;
        let steps: [Step; 3] = [
            |scram| {
                scram
                    .server_first_message(SERVER_FIRST.as_bytes(), MAX)
                    .map(|_| ())
            },
            |scram| scram.client_final_message(&SALTED).map(|_| ()),
            |scram| scram.server_final_message(SERVER_FINAL.as_bytes()),
        ];
        for done in 0..=steps.len() {
            for next in 0..steps.len() {
                let mut scram = Scram::new(NONCE);
                assert!(steps[..done].iter().all(|step| step(&mut scram).is_ok()));
                let result = steps[next](&mut scram);
                if next == done {
                    assert_eq!(result, Ok(()));
                    continue;
                }
                assert_eq!(result, Err(ScramError::OutOfOrder), "{next} after {done}");
                for step in steps {
                    assert_eq!(step(&mut scram), Err(ScramError::OutOfOrder));
                }
            }
        }
    }

    #[test]
    fn after_an_error_the_right_message_comes_too_late() {
        let mut scram = Scram::new(NONCE);
        assert!(scram.server_first_message(b"", MAX).is_err());
        let late = scram.server_first_message(SERVER_FIRST.as_bytes(), MAX);
        assert_eq!(late, Err(ScramError::OutOfOrder));
        let mut scram = awaiting_final();
        assert!(scram.server_final_message(b"v=AAAA").is_err());
        let late = scram.server_final_message(SERVER_FINAL.as_bytes());
        assert_eq!(late, Err(ScramError::OutOfOrder));
    }

    #[test]
    fn messages_name_what_matters() {
        let detail = |result: Result<u32, ScramError>| result.unwrap_err().detail();
        assert_eq!(
            detail(first(format!("r={NONCE}x,s=c2FsdA==,i=2000000000"))),
            "2000000000 iterations; 1 to 100000 are allowed"
        );
        assert_eq!(detail(first("e=invalid-proof")), "invalid-proof");
        assert!(detail(first("")).contains("begin with a nonce (r=)"));
        assert_eq!(ScramError::OutOfOrder.detail(), "");
    }

    /// By the crate, so that the two sides have nothing in common.
    fn sign(key: &[u8; 32], message: &[u8]) -> [u8; 32] {
        let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
        mac.update(message);
        mac.finalize().into_bytes().into()
    }

    /// The server's half, with nothing but the verifier it stores: RFC 5802 section 3.
    fn serve(
        stored_key: &[u8; 32],
        server_key: &[u8; 32],
        auth_message: &str,
        proof: &str,
    ) -> Option<String> {
        let mut client_key: [u8; 32] = STANDARD.decode(proof).unwrap().try_into().unwrap();
        let client_signature = sign(stored_key, auth_message.as_bytes());
        client_key
            .iter_mut()
            .zip(client_signature)
            .for_each(|(byte, mask)| *byte ^= mask);
        let verified = <[u8; 32]>::from(Sha256::digest(client_key)) == *stored_key;
        verified.then(|| {
            format!(
                "v={}",
                STANDARD.encode(sign(server_key, auth_message.as_bytes()))
            )
        })
    }

    proptest! {
        #[test]
        fn base64_is_that_of_the_crate(bytes: Vec<u8>, text in "[A-Da-d+/=]{0,12}") {
            let encoded = encode(&bytes);
            prop_assert_eq!(encoded.clone(), STANDARD.encode(&bytes).into_bytes());
            prop_assert_eq!(decode(&encoded), Some(bytes));
            prop_assert_eq!(decode(text.as_bytes()), STANDARD.decode(&text).ok());
        }

        /// The proof convinces a server that stores the verifier of the same password, and of no
        /// other.
        #[test]
        fn both_sides_agree(
            password: Vec<u8>,
            other: Vec<u8>,
            salt in prop::collection::vec(any::<u8>(), 1..40),
            client_nonce in "[!-+\\--~]{16,30}",
            server_nonce in "[!-+\\--~]{1,30}",
            iterations in 1u32..4,
        ) {
            let nonce = format!("{client_nonce}{server_nonce}");
            let server_first = format!("r={nonce},s={},i={iterations}", STANDARD.encode(&salt));
            let mut scram = Scram::new(&client_nonce);
            let challenge = scram.server_first_message(server_first.as_bytes(), MAX).unwrap();
            prop_assert_eq!(&challenge.salt, &salt);
            let salted = salted_password(&password, &challenge.salt, challenge.iterations);
            let client_final = String::from_utf8(scram.client_final_message(&salted).unwrap()).unwrap();
            let (without_proof, proof) = client_final.split_once(",p=").unwrap();
            let auth_message = format!("n=,r={client_nonce},{server_first},{without_proof}");

            let verifier = |password: &[u8]| {
                let salted = salted_password(password, &salt, iterations);
                let stored_key = Sha256::digest(sign(&salted, b"Client Key"));
                (stored_key.into(), sign(&salted, b"Server Key"))
            };
            let (stored_key, server_key) = verifier(&password);
            let server_final = serve(&stored_key, &server_key, &auth_message, proof).unwrap();
            prop_assert_eq!(scram.server_final_message(server_final.as_bytes()), Ok(()));
            // HMAC pads short keys with zeros, so that these are one password to it.
            let trimmed = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte != 0).map(|end| bytes[..=end].to_vec());
            if trimmed(&password) != trimmed(&other) {
                let (stored_key, server_key) = verifier(&other);
                prop_assert_eq!(serve(&stored_key, &server_key, &auth_message, proof), None);
            }
        }

        /// No server message panics, and none but the true signature is believed.
        #[test]
        fn arbitrary_bytes(server_first: Vec<u8>, server_final: Vec<u8>) {
            if let Ok(iterations) = first(server_first) {
                prop_assert!((1..=MAX).contains(&iterations));
            }
            if let Err(error) = last(server_final) {
                prop_assert!(!error.reason().message.is_empty());
            } else {
                prop_assert!(false, "believed");
            }
        }

        /// As above, with messages that are nearly right.
        #[test]
        fn nearly_right_messages(
            server_first in "([rsime]=(rOprNGfwEbeRWgbNEkqO)?[a-zA-Z0-9+/=]{0,9},?){0,5}",
            cut in 0..SERVER_FIRST.len(),
            put in prop::collection::vec(any::<u8>(), 0..4),
            server_final in "([vem]=[a-zA-Z0-9+/=]{0,44},?){0,3}",
        ) {
            if let Ok(iterations) = first(server_first) {
                prop_assert!((1..=MAX).contains(&iterations));
            }
            let spliced = [&SERVER_FIRST.as_bytes()[..cut], &put, &SERVER_FIRST.as_bytes()[cut..]].concat();
            if let Ok(iterations) = first(spliced) {
                prop_assert!((1..=MAX).contains(&iterations));
            }
            prop_assert!(last(server_final).is_err());
        }
    }
}
