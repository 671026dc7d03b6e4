//! SCRAM-SHA-256 (RFC 5802, RFC 7677) as the frontend speaks it, with channel binding and without.
//!
//! ```text
//!  client-first-message   <gs2 header>n=,r=<our nonce>                SASLInitialResponse
//!  server-first-message   r=<our nonce><theirs>,s=<salt>,i=<count>    AuthenticationSASLContinue
//!  client-final-message   c=<binding>,r=<both nonces>,p=<proof>       SASLResponse
//!  server-final-message   v=<signature>  or  e=<error>                AuthenticationSASLFinal
//! ```
//!
//! Knows the text of these four messages and the keys. Must not know message frames, the mechanism list, the clock or a
//! random source. The password is given as bytes after SASLprep. Nothing is kept longer than it is needed: after
//! client-final-message only the signature expected from the server remains.

use crate::error::{Failure, Reason};
use crate::protocol::writer::decimal;
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use base64ct::{Base64, Encoding};
use core::mem;
use hmac::digest::CtOutput;
use hmac::{Hmac, KeyInit, Mac};
use memchr::memchr;
use pbkdf2::pbkdf2_hmac_array;
use sha2::{Digest, Sha256};

type HmacSha256 = Hmac<Sha256>;

/// Maximum length of a server message; a longer one is refused before it is read. PostgreSQL sends fewer than 100
/// bytes, and the nonce in it goes back to the server (CVE-2026-6665 was a buffer overflow on a long nonce).
const MAX_SERVER_MESSAGE: usize = 2048;

/// Minimum length of our nonce, which has 24 characters (18 bytes). An empty client nonce would let every server nonce
/// pass the replay check.
const MIN_CLIENT_NONCE: usize = 16;

/// The statement about channel binding in the gs2 header of client-first-message (RFC 5802 section 7).
/// client-final-message repeats it in base64 and the proof covers it, so nothing in between can change it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum ChannelBinding<'a> {
    /// `n`: not supported here.
    #[default]
    Unsupported,
    /// `y`: supported here, but apparently not by the server. A server that does support it then knows that an attacker
    /// removed SCRAM-SHA-256-PLUS from its list, and refuses.
    NotOffered,
    /// `p`: bound to TLS by this hash of the server's certificate (tls-server-end-point, RFC 5929 section 4).
    Certificate(&'a [u8]),
}

impl<'a> ChannelBinding<'a> {
    /// `certificate`: the certificate's hash, empty if there is none; `offered`: the server offers SCRAM-SHA-256-PLUS.
    pub fn of(certificate: &'a [u8], offered: bool) -> Self {
        match (certificate, offered) {
            (b"", _) => ChannelBinding::Unsupported,
            (_, false) => ChannelBinding::NotOffered,
            (hash, true) => ChannelBinding::Certificate(hash),
        }
    }

    fn gs2_header(self) -> &'static [u8] {
        match self {
            ChannelBinding::Unsupported => b"n,,",
            ChannelBinding::NotOffered => b"y,,",
            ChannelBinding::Certificate(_) => b"p=tls-server-end-point,,",
        }
    }

    /// `c=` with the header and the channel's data.
    fn client_final_beginning(self) -> String {
        let data = match self {
            ChannelBinding::Certificate(hash) => hash,
            ChannelBinding::Unsupported | ChannelBinding::NotOffered => b"",
        };
        "c=".to_owned() + &Base64::encode_string(&concat(&[self.gs2_header(), data])) + ",r="
    }
}

/// The request in server-first-message: derive [`salted_password`] with these values, here or outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Challenge<'a> {
    /// Never empty.
    pub salt: Vec<u8>,
    /// The salt as the server spelled it.
    pub salt_base64: &'a [u8],
    /// From 1 to `max_iterations`.
    pub iterations: u32,
}

/// One exchange. Each step works once and in order. After an error or a call at the wrong time, every further step
/// returns [`ScramError::OutOfOrder`], so nothing a server sends can make a failed exchange succeed.
#[derive(Default)]
pub struct Scram {
    step: Step,
    /// Our nonce; later the server's, which begins with ours.
    nonce: Vec<u8>,
    /// The part of AuthMessage built so far: client-first-message-bare `,` server-first-message `,`
    /// client-final-message-without-proof. Emptied when both signatures over it are made.
    auth_message: Vec<u8>,
    /// The signature that the server must send, known from client-final-message on. The comparison takes constant time.
    server_signature: Option<CtOutput<HmacSha256>>,
}

/// The step that is allowed next.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Step {
    #[default]
    ServerFirst,
    SaltedPassword,
    ServerFinal,
    Over,
}

/// Why an exchange failed. Contains nothing secret.
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
    /// The server demands an extension (`m=`); RFC 5802 requires failure then.
    MandatoryExtension,
    /// The server's nonce does not continue ours: a replayed or foreign message.
    NonceMismatch,
    /// Iteration count 0, or more than allowed.
    IterationsOutOfRange {
        /// The count that the server asked for, `u32::MAX` if more.
        requested: u32,
        /// The maximum that the caller allows.
        max_iterations: u32,
    },
    /// Fewer iterations than the caller demands from a server that nothing else verifies.
    TooFewIterations {
        /// The count that the server asked for.
        requested: u32,
    },
    /// The server ended the exchange with `e=`.
    ServerError {
        /// The server's error value, such as `invalid-proof`; at most 100 characters, unprintable ones replaced by `?`.
        value: String,
    },
    /// The server does not know the password's verifier: it is not the server it claims to be.
    ServerSignatureMismatch,
}

impl Scram {
    /// A new exchange. `nonce`: at least 16 printable characters without a comma, from fresh random bytes for each
    /// exchange. (A nonce that breaks this makes [`Scram::server_first_message`] fail.)
    ///
    /// The user name is left empty: PostgreSQL uses the one of StartupMessage.
    pub fn new(nonce: &str) -> Scram {
        Scram::with_user_name(b"", nonce.as_bytes())
    }

    fn with_user_name(user_name: &[u8], nonce: &[u8]) -> Scram {
        Scram {
            step: Step::ServerFirst,
            nonce: nonce.to_vec(),
            auth_message: concat(&[b"n=", user_name, b",r=", nonce]),
            server_signature: None,
        }
    }

    /// Takes server-first-message. Returns the values from which to derive the salted password. `max_iterations` bounds
    /// the work that a server may cause.
    ///
    /// Raises `NonceMismatch`, `IterationsOutOfRange`, `MandatoryExtension`, `ServerError` (some servers refuse here
    /// already), `Malformed`, `ClientNonceTooShort`, `OutOfOrder`.
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

    /// Returns client-final-message, with the proof that we know the password. `salted_password` is not kept.
    /// `binding`: the same as in client-first-message.
    ///
    /// Raises `OutOfOrder`.
    pub fn client_final_message(
        &mut self,
        binding: ChannelBinding<'_>,
        salted_password: &[u8],
    ) -> Result<Vec<u8>, ScramError> {
        self.take(Step::SaltedPassword)?;
        let mut message = concat(&[binding.client_final_beginning().as_bytes(), &self.nonce]);
        self.append(&[b",", &message]);
        let auth_message = mem::take(&mut self.auth_message);

        let client_key = hmac(salted_password, b"Client Key").into_bytes();
        let stored_key = Sha256::digest(client_key);
        let mut proof = hmac(&stored_key, &auth_message).into_bytes();
        // ClientProof := ClientKey XOR ClientSignature
        for (byte, key) in proof.iter_mut().zip(client_key) {
            *byte ^= key;
        }
        let server_key = hmac(salted_password, b"Server Key").into_bytes();
        self.server_signature = Some(hmac(&server_key, &auth_message));

        message.extend_from_slice(b",p=");
        message.extend_from_slice(Base64::encode_string(&proof).as_bytes());
        self.step = Step::ServerFinal;
        Ok(message)
    }

    /// Returns `Ok` if the server has proved that it knows the password's verifier; only then may AuthenticationOk be
    /// trusted. Compares in constant time.
    ///
    /// Raises `ServerSignatureMismatch`, `ServerError`, `MandatoryExtension`, `Malformed`, `OutOfOrder`.
    pub fn server_final_message(&mut self, message: &[u8]) -> Result<(), ScramError> {
        self.take(Step::ServerFinal)?;
        let mut attributes = Attributes::new(message)?;
        let verifier = attributes.take(
            b'v',
            "server-final-message does not begin with a signature (v=)",
        )?;
        attributes.only_extensions()?;
        let Some(Ok(signature)) = decode(verifier).map(<[u8; 32]>::try_from) else {
            return Err(malformed(
                "the signature in server-final-message is not 32 bytes of base64",
            ));
        };
        if self.server_signature != Some(CtOutput::new(signature.into())) {
            return Err(ScramError::ServerSignatureMismatch);
        }
        Ok(())
    }

    /// Sets the step to `Over`; a step that succeeds then sets its successor.
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

    /// The first message of an exchange.
    pub fn client_first_message(&self, binding: ChannelBinding<'_>) -> Vec<u8> {
        concat(&[binding.gs2_header(), &self.auth_message])
    }
}

impl From<ScramError> for Failure {
    fn from(error: ScramError) -> Self {
        Failure {
            reason: error.reason(),
            detail: error.detail(),
        }
    }
}

impl ScramError {
    /// A stable code for programs, and for humans what happened and what to do.
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
                message: "The server sent a SCRAM message that breaks RFC 5802. \
                    Check that host and port lead to PostgreSQL, and a pooler in between.",
            },
            ScramError::MandatoryExtension => &Reason {
                code: "SCRAM_MANDATORY_EXTENSION",
                message: "The server demands a SCRAM extension that this driver does not know. \
                    Turn it off in the server or pooler.",
            },
            ScramError::NonceMismatch => &Reason {
                code: "SCRAM_NONCE_MISMATCH",
                message: "The server's SCRAM nonce does not continue ours: \
                    its message belongs to another login, or is replayed. \
                    Do not trust this connection; check what stands between client and server.",
            },
            ScramError::IterationsOutOfRange { .. } => &Reason {
                code: "SCRAM_ITERATIONS_OUT_OF_RANGE",
                message: "The server asks for more SCRAM iterations than are allowed, or for none. \
                    If you trust the server, raise the limit, or \
                    lower scram_iterations there and set the password again.",
            },
            ScramError::TooFewIterations { .. } => &Reason {
                code: "SCRAM_ITERATIONS_TOO_FEW",
                message: "The server is not verified, and asks for so few SCRAM iterations that an impostor could \
                    guess the password from our proof. Use sslmode=verify-full, or \
                    set the password again with scram_iterations at 4096 or more, or lower scramMinIterations.",
            },
            ScramError::ServerError { .. } => &Reason {
                code: "SCRAM_SERVER_ERROR",
                message: "The server refused the SCRAM login. Check user name and password; \
                    the server's log says more.",
            },
            ScramError::ServerSignatureMismatch => &Reason {
                code: "SCRAM_SERVER_SIGNATURE_MISMATCH",
                message: "The server could not prove that it knows this password: it may be an impostor. \
                    Do not trust this connection; check host, TLS and what stands between client and server.",
            },
        }
    }

    /// The details of the failure; empty if the reason says everything.
    pub fn detail(self) -> String {
        match self {
            ScramError::Malformed { problem } => problem.to_owned(),
            ScramError::IterationsOutOfRange { requested, .. }
            | ScramError::TooFewIterations { requested } => decimal(requested) + " iterations",
            ScramError::ServerError { value } => value,
            _ => String::new(),
        }
    }
}

/// PBKDF2-HMAC-SHA-256, one block: `Hi(password, salt, iterations)` of RFC 5802. The caller has bounded `iterations`; 0
/// counts as 1.
pub fn salted_password(password: &[u8], salt: &[u8], iterations: u32) -> [u8; 32] {
    pbkdf2_hmac_array::<Sha256, 32>(password, salt, iterations)
}

#[expect(clippy::expect_used, reason = "HMAC takes a key of any length")]
fn hmac(key: &[u8], message: &[u8]) -> CtOutput<HmacSha256> {
    let mut mac = HmacSha256::new_from_slice(key).expect("a key of any length");
    mac.update(message);
    mac.finalize()
}

/// The unread rest of `a=value,b=value`; `None` after the last attribute.
struct Attributes<'a>(Option<&'a [u8]>);

impl<'a> Attributes<'a> {
    /// In every message, an error attribute or a mandatory extension at the start decides the exchange.
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
        let end = memchr(b',', rest);
        let (attribute, after) = rest.split_at_checked(end.unwrap_or(rest.len()))?;
        self.0 = after.get(1..);
        Some(attribute)
    }

    #[inline(never)]
    fn take(&mut self, name: u8, problem: &'static str) -> Result<&'a [u8], ScramError> {
        match self.next() {
            Some([found, b'=', value @ ..]) if *found == name => Ok(value),
            _ => Err(malformed(problem)),
        }
    }

    /// Accepts only extensions up to the end, which RFC 5802 section 5.1 allows and ignores. The names of this
    /// protocol's own attributes are not extensions: here they are misplaced.
    fn only_extensions(mut self) -> Result<(), ScramError> {
        while let Some(attribute) = self.next() {
            match attribute {
                [b'm', b'=', ..] => return Err(ScramError::MandatoryExtension),
                [name, b'=', _, ..]
                    if name.is_ascii_alphabetic()
                        && !matches!(
                            name,
                            b'a' | b'n' | b'c' | b'r' | b's' | b'i' | b'p' | b'v' | b'e'
                        ) => {}
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

/// Makes the value printable, because it ends up in logs and terminals.
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

/// Decodes strict base64: padded, and without stray bits (RFC 4648).
fn decode(base64: &[u8]) -> Option<Vec<u8>> {
    Base64::decode_vec(str::from_utf8(base64).ok()?).ok()
}

fn malformed(problem: &'static str) -> ScramError {
    ScramError::Malformed { problem }
}

fn concat(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

#[cfg(test)]
mod tests;
