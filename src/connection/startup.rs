//! From StartupMessage to the first ReadyForQuery: authentication and the session's parameters.
//!
//! ```text
//! Authentication ── AuthenticationOk (trust) ─────────────────────────────────────────────┐
//!   ├─ CleartextPassword ─────────── PasswordMessage ──────────────────> AuthenticationOk ─┤
//!   ├─ MD5Password ─> [Md5] ──────── PasswordMessage ──────────────────> AuthenticationOk ─┤
//!   └─ SASL ─> SaslContinue ─> [KeyDerivation] ── SASLResponse ─> SaslFinal ─> AuthenticationOk ─> Ready ─> done
//! ```
//! The methods that the caller allowed decide, not the method that the server requests: a refused method ends the
//! connection before a byte of the password is sent. Once SASL has begun, AuthenticationOk counts only after a verified
//! SASLFinal. JavaScript computes the steps in brackets.
//!
//! A probe answers the request that the server is expected to make. It is sent with StartupMessage, and the server
//! reads it after it has asked. That saves a round trip.
//!
//! ```text
//! probing:    StartupMessage SASLInitialResponse ─> SASL SASLContinue ─> …
//! otherwise:  StartupMessage ─> SASL   SASLInitialResponse ─> SASLContinue ─> …
//! ```
//! A server that requests another method takes the probe for the answer to that method and fails the login (FATAL
//! 08P01). So the connection ends here, and JavaScript opens another one without a probe. A probe of SCRAM contains a
//! nonce and nothing derived from the password.

use super::event::{Event, Mechanisms, Text};
use super::{Context, Login, Progress};
use crate::auth::scram::{ChannelBinding, Scram, ScramError, salted_password};
use crate::boundary::{login, protocol};
use crate::error::{Failure, Reason};
use crate::protocol::backend::BackendMessage;
use crate::protocol::fields::Fields;
use crate::protocol::frontend;
use crate::protocol::writer::TooLong;
use alloc::vec::Vec;

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    #[default]
    Authentication,
    Md5,
    SaslContinue,
    KeyDerivation,
    SaslFinal,
    AuthenticationOk,
    Ready,
}

/// The answer that was sent with StartupMessage, before the server asked.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Probe {
    #[default]
    None,
    /// SASLInitialResponse.
    Scram,
    /// PasswordMessage with the password in clear text.
    Cleartext,
}

const SCRAM_SHA_256: &[u8] = b"SCRAM-SHA-256";
const SCRAM_SHA_256_PLUS: &[u8] = b"SCRAM-SHA-256-PLUS";

/// The conversation, with the user's password and the allowed ways to log in.
#[derive(Default)]
pub(super) struct Startup {
    pub step: Step,
    probe: Probe,
    protocol_version: u32,
    password: Option<Vec<u8>>,
    /// Bits of [`login`].
    pub options: u32,
    min_iterations: u32,
    max_iterations: u32,
    scram: Scram,
    /// The hash of the server's certificate; empty if there is none.
    certificate: Vec<u8>,
    /// SCRAM-SHA-256-PLUS was chosen.
    is_bound: bool,
}

impl Startup {
    pub fn new(login: &Login<'_>) -> Self {
        Startup {
            step: Step::Authentication,
            probe: Probe::None,
            protocol_version: login.protocol_version,
            password: login.password.map(|text| text.as_bytes().to_vec()),
            options: login.options,
            min_iterations: login.min_iterations,
            max_iterations: login.max_iterations,
            scram: Scram::new(login.nonce),
            certificate: login.channel_binding.to_vec(),
            is_bound: false,
        }
    }

    /// Writes StartupMessage, and the probe if one is wanted and there is a password.
    pub fn begin(&mut self, parameters: &[u8], output: &mut Vec<u8>) -> Result<(), TooLong> {
        frontend::startup_message(output, self.protocol_version, parameters)?;
        let Some(password) = &self.password else {
            return Ok(());
        };
        if self.options & login::SCRAM_FIRST != 0 {
            self.probe = Probe::Scram;
            self.is_bound = self.options & login::SCRAM_PLUS_FIRST != 0;
            return self.sasl_initial_response(output);
        }
        if self.options & login::CLEARTEXT_FIRST != 0 {
            self.probe = Probe::Cleartext;
            return frontend::password_message(output, password);
        }
        Ok(())
    }

    /// Whether the answer to every password request has been written, so that operations may follow it (early query).
    pub fn has_answered(&self) -> bool {
        match self.step {
            Step::SaslFinal | Step::AuthenticationOk | Step::Ready => true,
            Step::Authentication => self.probe == Probe::Cleartext,
            Step::Md5 | Step::SaslContinue | Step::KeyDerivation => false,
        }
    }

    /// Name of the state, for the walk over all states.
    #[cfg(test)]
    pub fn state(&self) -> alloc::string::String {
        let probe = match (self.step, self.probe) {
            (Step::Authentication, Probe::Scram) => " after SASLInitialResponse",
            (Step::Authentication, Probe::Cleartext) => " after PasswordMessage",
            _ => "",
        };
        alloc::format!("startup {:?}{probe}", self.step)
    }

    /// Drops the password after the first ReadyForQuery: it is not needed again.
    pub fn forget(&mut self) {
        self.password = None;
    }

    #[inline(never)] // see State::dispatch
    pub fn receive(
        &mut self,
        tag: u8,
        message: BackendMessage<'_>,
        context: &mut Context,
    ) -> Result<Progress, Failure> {
        use BackendMessage as M;
        self.step = match (self.step, message) {
            (_, M::ErrorResponse { fields }) => {
                context.events.error(false, fields);
                return Ok(Progress::Closed);
            }
            (Step::Ready, M::ReadyForQuery { status }) => {
                context.events.ready(status);
                return Ok(Progress::Done);
            }
            (Step::Authentication, message) => self.requested(tag, message, context)?,
            (_, message) => self.answered(tag, message, context)?,
        };
        Ok(Progress::Continue)
    }

    /// Handles the server's request for an authentication method.
    fn requested(
        &mut self,
        tag: u8,
        message: BackendMessage<'_>,
        context: &mut Context,
    ) -> Result<Step, Failure> {
        use BackendMessage as M;
        match message {
            M::NegotiateProtocolVersion {
                version,
                unrecognized_options,
            } => self.negotiate(version, unrecognized_options),
            M::AuthenticationOk => self.trust(),
            M::AuthenticationCleartextPassword => self.cleartext(context),
            M::AuthenticationMd5Password { salt } => self.md5(salt, context),
            M::AuthenticationSasl { mechanisms } => self.sasl(mechanisms, context),
            _ => Err(Failure::unexpected("startup", tag)),
        }
    }

    /// Handles later messages: of the method that the server has requested, or of the session.
    fn answered(
        &mut self,
        tag: u8,
        message: BackendMessage<'_>,
        context: &mut Context,
    ) -> Result<Step, Failure> {
        use BackendMessage as M;
        match (self.step, message) {
            (Step::SaslContinue, M::AuthenticationSaslContinue { data }) => {
                self.challenge(data, context)
            }
            (Step::SaslFinal, M::AuthenticationSaslFinal { data }) => {
                self.scram.server_final_message(data)?;
                Ok(Step::AuthenticationOk)
            }
            (Step::SaslContinue | Step::KeyDerivation | Step::SaslFinal, M::AuthenticationOk) => {
                Err(Failure::new(&UNPROVEN))
            }
            (Step::AuthenticationOk, M::AuthenticationOk) => Ok(Step::Ready),
            (
                Step::Ready,
                M::BackendKeyData {
                    process_id,
                    secret_key,
                },
            ) => {
                context.backend_key_data(process_id, secret_key)?;
                Ok(Step::Ready)
            }
            _ => Err(Failure::unexpected("startup", tag)),
        }
    }

    /// Takes the answer to a `keyDerivation` event (32 bytes) or an `md5` event (35 characters). Any other answer is
    /// dropped, and the connection's deadline then reports that none arrived.
    pub fn prove(&mut self, answer: &[u8], context: &mut Context) -> Result<(), Failure> {
        match (self.step, answer.len()) {
            (Step::KeyDerivation, 32) => self.step = self.respond(answer, context)?,
            (Step::Md5, 35) => {
                frontend::password_message(&mut context.output, answer)?;
                self.step = Step::AuthenticationOk;
            }
            _ => {}
        }
        Ok(())
    }

    /// The server may choose a lower version down to 3.0, but not a higher one. It cannot report unrecognized options,
    /// because we never send any (those named `_pq_.…`).
    fn negotiate(&self, version: u32, unrecognized_options: u32) -> Result<Step, Failure> {
        if (protocol::VERSION_3_0..=self.protocol_version).contains(&version)
            && unrecognized_options == 0
        {
            return Ok(Step::Authentication);
        }
        Err(Failure::new(&Reason {
            code: "PROTOCOL_VIOLATION",
            message: "the server answered StartupMessage with a protocol version or option that was not asked for",
        }))
    }

    fn trust(&self) -> Result<Step, Failure> {
        self.asked(login::AUTH_TRUST, Probe::None)?;
        Ok(Step::Ready)
    }

    fn cleartext(&self, context: &mut Context) -> Result<Step, Failure> {
        if !self.asked(login::AUTH_CLEARTEXT, Probe::Cleartext)? {
            frontend::password_message(&mut context.output, self.password()?)?;
        }
        Ok(Step::AuthenticationOk)
    }

    fn md5(&self, salt: u32, context: &mut Context) -> Result<Step, Failure> {
        self.asked(login::AUTH_MD5, Probe::None)?;
        self.password()?;
        context.events.push(Event::Notice { fields: MD5_NOTICE });
        context.events.push(Event::Md5 { salt });
        Ok(Step::Md5)
    }

    fn sasl(&mut self, mechanisms: &[u8], context: &mut Context) -> Result<Step, Failure> {
        let offers = |wanted| {
            mechanisms
                .split(|byte| *byte == 0)
                .any(|mechanism| mechanism == wanted)
        };
        let is_bound = !self.certificate.is_empty() && offers(SCRAM_SHA_256_PLUS);
        if !is_bound {
            self.unbound()?;
            if !offers(SCRAM_SHA_256) {
                return Err(Failure::new(&Reason {
                    code: "AUTH_METHOD_UNSUPPORTED",
                    message: "the server offers no SASL mechanism that this driver has; it needs SCRAM-SHA-256",
                }));
            }
        }
        let is_answered = self.asked(login::AUTH_SCRAM_SHA_256, Probe::Scram)?;
        if is_answered && is_bound != self.is_bound {
            return Err(Failure::new(&WRONG_GUESS));
        }
        self.is_bound = is_bound;
        context.events.push(Event::Sasl {
            mechanisms: Mechanisms(mechanisms),
        });
        if !is_answered {
            self.password()?;
            self.sasl_initial_response(&mut context.output)?;
        }
        Ok(Step::SaslContinue)
    }

    fn sasl_initial_response(&self, output: &mut Vec<u8>) -> Result<(), TooLong> {
        let mechanism = if self.is_bound {
            SCRAM_SHA_256_PLUS
        } else {
            SCRAM_SHA_256
        };
        let binding = ChannelBinding::of(&self.certificate, self.is_bound);
        let data = self.scram.client_first_message(binding);
        frontend::sasl_initial_response(output, mechanism, &data)
    }

    /// Fails if channel binding is required. Called when the server would accept a login without it.
    fn unbound(&self) -> Result<(), Failure> {
        if self.options & login::CHANNEL_BINDING_REQUIRED == 0 {
            return Ok(());
        }
        Err(Failure::new(&Reason {
            code: "AUTH_CHANNEL_BINDING_MISSING",
            message: "channel binding is required and the server does not ask for SCRAM-SHA-256-PLUS: check what stands \
                between client and server, or set channel_binding=prefer",
        }))
    }

    fn challenge(&mut self, data: &[u8], context: &mut Context) -> Result<Step, Failure> {
        let challenge = self.scram.server_first_message(data, self.max_iterations)?;
        // Checked before the proof is made, here or from a key that JavaScript has cached: with few iterations an
        // impostor could find the password by trying.
        if challenge.iterations < self.min_iterations {
            return Err(ScramError::TooFewIterations {
                requested: challenge.iterations,
            }
            .into());
        }
        if self.options & login::EXTERNAL_KEY_DERIVATION != 0 {
            context.events.push(Event::KeyDerivation {
                salt: Text(challenge.salt_base64),
                iterations: challenge.iterations,
            });
            return Ok(Step::KeyDerivation);
        }
        let key = salted_password(self.password()?, &challenge.salt, challenge.iterations);
        self.respond(&key, context)
    }

    fn respond(&mut self, salted_password: &[u8], context: &mut Context) -> Result<Step, Failure> {
        let binding = ChannelBinding::of(&self.certificate, self.is_bound);
        let message = self.scram.client_final_message(binding, salted_password)?;
        frontend::sasl_response(&mut context.output, &message)?;
        Ok(Step::SaslFinal)
    }

    /// Checks that `method`, which the server requests and `probe` answers, is allowed. Returns whether the answer has
    /// been sent already.
    fn asked(&self, method: u32, probe: Probe) -> Result<bool, Failure> {
        self.allow(method)?;
        if self.probe != Probe::None && self.probe != probe {
            return Err(Failure::new(&WRONG_GUESS));
        }
        Ok(self.probe != Probe::None)
    }

    #[inline(never)]
    fn allow(&self, method: u32) -> Result<(), Failure> {
        if method != login::AUTH_SCRAM_SHA_256 {
            self.unbound()?;
        }
        if self.options & method != 0 {
            return Ok(());
        }
        let cleartext = method == login::AUTH_CLEARTEXT;
        Err(Failure::new(
            if cleartext && self.options & login::CLEARTEXT_WANTS_TLS != 0 {
                &Reason {
                    code: "AUTH_CLEARTEXT_REFUSED",
                    message: "the server asks for the password in clear over a connection that is not encrypted; \
                        use sslmode=verify-full, or set allowCleartextPassword",
                }
            } else if cleartext && self.options & login::CLEARTEXT_WANTS_VERIFIED_TLS != 0 {
                &Reason {
                    code: "AUTH_CLEARTEXT_REFUSED",
                    message: "the server asks for the password in clear over TLS that does not verify its certificate; \
                        use sslmode=verify-full, or set requireAuth to password",
                }
            } else {
                &Reason {
                    code: "AUTH_METHOD_REFUSED",
                    message: "the server asks for an authentication method that requireAuth does not list; \
                        correct pg_hba.conf or requireAuth",
                }
            },
        ))
    }

    #[inline(never)]
    fn password(&self) -> Result<&[u8], Failure> {
        match &self.password {
            Some(password) => Ok(password),
            None => Err(Failure::new(&Reason {
                code: "PASSWORD_MISSING",
                message: "the server asks for a password and none was given; set `password`",
            })),
        }
    }
}

const WRONG_GUESS: Reason = Reason {
    code: "AUTH_GUESS_WRONG",
    message: "the server asks for another authentication method than before",
};

const UNPROVEN: Reason = Reason {
    code: "SCRAM_SERVER_SIGNATURE_MISMATCH",
    message: "the server ended SCRAM without proving that it knows the password; it may be an impostor, \
        and its answers were not used",
};

const MD5_NOTICE: Fields<'static> = Fields::of(
    b"VWARNING\0C01P01\0Mthe server asked for MD5, which PostgreSQL is giving up; \
        set the password anew with password_encryption = scram-sha-256\0\0",
);
