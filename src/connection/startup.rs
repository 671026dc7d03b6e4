//! From StartupMessage to the first ReadyForQuery: authentication and the session's parameters.
//!
//! ```text
//! Authentication ── AuthenticationOk (trust) ─────────────────────────────────────────────┐
//!   ├─ CleartextPassword, MD5Password ── PasswordMessage ──────────────> AuthenticationOk ─┤
//!   └─ SASL ─> SaslContinue ─> [KeyDerivation] ── SASLResponse ─> SaslFinal ─> AuthenticationOk ─> Ready ─> done
//! ```
//! What the caller allowed decides, not what the server asks for: a refused method ends the connection before a byte of the
//! password is sent. After SASL began, AuthenticationOk counts only behind a verified SASLFinal.

use super::event::{self, Event};
use super::{Authentication, Context, Progress};
use crate::auth::md5::md5_password;
use crate::auth::scram::{Scram, salted_password};
use crate::error::Failure;
use crate::protocol::backend::BackendMessage;
use crate::protocol::frontend;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// Who logs in and how; set before `start`.
#[derive(Default)]
pub(super) struct Credentials {
    pub user: Vec<u8>,
    pub password: Option<Vec<u8>>,
    pub nonce: String,
    pub allowed: u32,
    pub max_iterations: u32,
    pub external_key_derivation: bool,
}

enum Step {
    Authentication,
    SaslContinue(Scram),
    KeyDerivation(Scram),
    SaslFinal(Scram),
    AuthenticationOk,
    Ready,
}

/// The conversation.
pub(super) struct Startup {
    step: Step,
    protocol_version: u32,
}

impl Startup {
    /// `protocol_version`: the one that StartupMessage asked for.
    pub fn new(protocol_version: u32) -> Self {
        Startup {
            step: Step::Authentication,
            protocol_version,
        }
    }

    /// The answer to every password request has left or lies in the output: operations may follow behind it (early query).
    pub fn has_answered(&self) -> bool {
        matches!(
            self.step,
            Step::SaslFinal(_) | Step::AuthenticationOk | Step::Ready
        )
    }

    /// The step's name, for the walk over all states.
    #[cfg(test)]
    pub fn step(&self) -> &'static str {
        match self.step {
            Step::Authentication => "Authentication",
            Step::SaslContinue(_) => "SaslContinue",
            Step::KeyDerivation(_) => "KeyDerivation",
            Step::SaslFinal(_) => "SaslFinal",
            Step::AuthenticationOk => "AuthenticationOk",
            Step::Ready => "Ready",
        }
    }

    pub fn receive(
        &mut self,
        tag: u8,
        message: BackendMessage<'_>,
        credentials: &Credentials,
        context: &mut Context<'_>,
    ) -> Result<Progress, Failure> {
        use BackendMessage as M;
        match (&mut self.step, message) {
            (_, M::ErrorResponse { fields }) => {
                context.push(Event::Error {
                    bound: false,
                    fields: event::fields(fields),
                });
                return Ok(Progress::Closed);
            }
            (
                Step::Authentication,
                M::NegotiateProtocolVersion {
                    version,
                    unrecognized_options,
                },
            ) => self.negotiate(version, unrecognized_options)?,
            (Step::Authentication, M::AuthenticationOk) => {
                allow(credentials, Authentication::TRUST)?;
                self.step = Step::Ready;
            }
            (Step::Authentication, M::AuthenticationCleartextPassword) => {
                allow(credentials, Authentication::CLEARTEXT)?;
                frontend::password_message(context.output, password(credentials)?)?;
                self.step = Step::AuthenticationOk;
            }
            (Step::Authentication, M::AuthenticationMd5Password { salt }) => {
                allow(credentials, Authentication::MD5)?;
                let digest = md5_password(&credentials.user, password(credentials)?, salt);
                frontend::password_message(context.output, &digest)?;
                context.push(md5_notice());
                self.step = Step::AuthenticationOk;
            }
            (Step::Authentication, M::AuthenticationSasl { mechanisms }) => {
                self.step = Step::SaslContinue(sasl(mechanisms, credentials, context)?);
            }
            (Step::SaslContinue(_), M::AuthenticationSaslContinue { data }) => {
                self.challenge(data, credentials, context)?
            }
            (Step::SaslFinal(scram), M::AuthenticationSaslFinal { data }) => {
                scram.server_final_message(data)?;
                self.step = Step::AuthenticationOk;
            }
            (
                Step::SaslContinue(_) | Step::KeyDerivation(_) | Step::SaslFinal(_),
                M::AuthenticationOk,
            ) => {
                return Err(Failure::new(
                    "SCRAM_SERVER_SIGNATURE_MISMATCH",
                    "the server ended SCRAM without proving that it knows the password; it may be an impostor, and its answers were not used",
                ));
            }
            (Step::AuthenticationOk, M::AuthenticationOk) => self.step = Step::Ready,
            (
                Step::Ready,
                M::BackendKeyData {
                    process_id,
                    secret_key,
                },
            ) => context.backend_key_data(process_id, secret_key),
            (Step::Ready, M::ReadyForQuery { status }) => {
                context.push(Event::Ready {
                    status: status.letter(),
                });
                return Ok(Progress::Done);
            }
            _ => return Err(Failure::unexpected("startup", tag)),
        }
        Ok(Progress::Continue)
    }

    /// The server may go down to 3.0, not up, and cannot miss options that we never send (those named `_pq_.…`).
    fn negotiate(&mut self, version: u32, unrecognized_options: u32) -> Result<(), Failure> {
        const VERSION_3_0: u32 = 3 << 16;
        if (VERSION_3_0..=self.protocol_version).contains(&version) && unrecognized_options == 0 {
            return Ok(());
        }
        Err(Failure::new(
            "PROTOCOL_VIOLATION",
            "the server answered StartupMessage with a protocol version or option that was not asked for",
        ))
    }

    fn challenge(
        &mut self,
        data: &[u8],
        credentials: &Credentials,
        context: &mut Context<'_>,
    ) -> Result<(), Failure> {
        let Step::SaslContinue(mut scram) =
            core::mem::replace(&mut self.step, Step::Authentication)
        else {
            return Ok(());
        };
        let challenge = scram.server_first_message(data, credentials.max_iterations)?;
        if credentials.external_key_derivation {
            context.push(Event::KeyDerivation {
                salt: challenge.salt_base64,
                iterations: challenge.iterations,
            });
            self.step = Step::KeyDerivation(scram);
            return Ok(());
        }
        let key = salted_password(
            password(credentials)?,
            &challenge.salt,
            challenge.iterations,
        );
        self.prove(scram, &key, context)
    }

    /// The answer to a `keyDerivation` event; at any other time it is dropped.
    pub fn salted_password(
        &mut self,
        key: &[u8; 32],
        context: &mut Context<'_>,
    ) -> Result<(), Failure> {
        match core::mem::replace(&mut self.step, Step::Authentication) {
            Step::KeyDerivation(scram) => self.prove(scram, key, context),
            step => {
                self.step = step;
                Ok(())
            }
        }
    }

    fn prove(
        &mut self,
        mut scram: Scram,
        key: &[u8; 32],
        context: &mut Context<'_>,
    ) -> Result<(), Failure> {
        let message = scram.client_final_message(key)?;
        frontend::sasl_response(context.output, &message)?;
        self.step = Step::SaslFinal(scram);
        Ok(())
    }
}

fn allow(credentials: &Credentials, method: u32) -> Result<(), Failure> {
    if credentials.allowed & method != 0 {
        return Ok(());
    }
    Err(match method {
        Authentication::CLEARTEXT
            if credentials.allowed & Authentication::CLEARTEXT_WANTS_TLS != 0 =>
        {
            Failure::new(
                "AUTH_CLEARTEXT_REFUSED",
                "the server asks for the password in clear over a connection that is not encrypted; use sslmode=require or better, or set allowCleartextPassword",
            )
        }
        _ => Failure::new(
            "AUTH_METHOD_REFUSED",
            "the server asks for an authentication method that requireAuth does not list; correct pg_hba.conf or requireAuth",
        ),
    })
}

fn password(credentials: &Credentials) -> Result<&[u8], Failure> {
    credentials.password.as_deref().ok_or_else(|| {
        Failure::new(
            "PASSWORD_MISSING",
            "the server asks for a password and none was given; set `password`",
        )
    })
}

fn sasl(
    mechanisms: &[u8],
    credentials: &Credentials,
    context: &mut Context<'_>,
) -> Result<Scram, Failure> {
    const MECHANISM: &[u8] = b"SCRAM-SHA-256";
    if !mechanisms
        .split(|byte| *byte == 0)
        .any(|mechanism| mechanism == MECHANISM)
    {
        return Err(Failure::new(
            "AUTH_METHOD_UNSUPPORTED",
            "the server offers no SASL mechanism that this driver has; it needs SCRAM-SHA-256",
        ));
    }
    allow(credentials, Authentication::SCRAM_SHA_256)?;
    password(credentials)?;
    let scram = Scram::new(&credentials.nonce);
    frontend::sasl_initial_response(context.output, MECHANISM, &scram.client_first_message())?;
    Ok(scram)
}

fn md5_notice() -> Event {
    let text = "the server asked for MD5, which PostgreSQL is giving up; set the password anew with password_encryption = scram-sha-256";
    Event::Notice {
        fields: Vec::from([
            ("severity", "WARNING".to_string()),
            ("code", "01P01".to_string()),
            ("message", text.to_string()),
        ]),
    }
}
