//! Messages the backend sends: decoded from a frame, borrowed from the receive buffer.
//!
//! [`BackendMessage::parse`] is total: every frame is a message or a [`DecodeError`]. DataRow stays raw here, because
//! `encode` decodes its columns in one pass.

use super::fields::Fields;
use super::frame::Frame;
use super::reader::{Malformed, Reader};

/// Why a frame is not a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeError {
    /// No backend message has this type byte.
    UnknownType(u8),
    /// The body does not have the layout of its type.
    Malformed(u8),
    /// An authentication request that the protocol does not list, or that needs what no edge runtime has (GSS, SSPI).
    UnknownAuthentication(i32),
}

/// One message from the server. Variants and their fields carry PostgreSQL's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "fields are named as the protocol chapter names them"
)]
pub enum BackendMessage<'a> {
    /// `AuthenticationOk`
    AuthenticationOk,
    /// `AuthenticationCleartextPassword`
    AuthenticationCleartextPassword,
    /// `AuthenticationMD5Password`; the salt's four bytes as a big-endian number.
    AuthenticationMd5Password { salt: u32 },
    /// `AuthenticationSASL`: the mechanisms offered, each ending in a NUL; an empty one ends the list.
    AuthenticationSasl { mechanisms: &'a [u8] },
    /// `AuthenticationSASLContinue`
    AuthenticationSaslContinue { data: &'a [u8] },
    /// `AuthenticationSASLFinal`
    AuthenticationSaslFinal { data: &'a [u8] },
    /// `BackendKeyData`; the key has 4 bytes in protocol 3.0, up to 256 in 3.2.
    BackendKeyData {
        process_id: u32,
        secret_key: &'a [u8],
    },
    /// `BindComplete`
    BindComplete,
    /// `CloseComplete`
    CloseComplete,
    /// `CommandComplete`, for example `INSERT 0 5`
    CommandComplete { command_tag: &'a [u8] },
    /// `CopyData`
    CopyData { data: &'a [u8] },
    /// `CopyDone`
    CopyDone,
    /// `CopyInResponse`
    CopyInResponse,
    /// `CopyOutResponse`
    CopyOutResponse,
    /// `CopyBothResponse` (replication only)
    CopyBothResponse,
    /// `DataRow`: int16 number of columns, then for each column its int32 length (-1 for NULL) and its bytes
    DataRow { body: &'a [u8] },
    /// `EmptyQueryResponse`
    EmptyQueryResponse,
    /// `ErrorResponse`
    ErrorResponse { fields: Fields<'a> },
    /// `NegotiateProtocolVersion`: the newest version that the server has, encoded as in StartupMessage, and how many
    /// of our options it does not know.
    NegotiateProtocolVersion {
        version: u32,
        unrecognized_options: u32,
    },
    /// `NoData`
    NoData,
    /// `NoticeResponse`
    NoticeResponse { fields: Fields<'a> },
    /// `NotificationResponse`
    NotificationResponse {
        process_id: u32,
        channel: &'a [u8],
        payload: &'a [u8],
    },
    /// `ParameterDescription`
    ParameterDescription {
        parameters: ParameterDescription<'a>,
    },
    /// `ParameterStatus`
    ParameterStatus { name: &'a [u8], value: &'a [u8] },
    /// `ParseComplete`
    ParseComplete,
    /// `PortalSuspended`
    PortalSuspended,
    /// `ReadyForQuery`
    ReadyForQuery { status: TransactionStatus },
    /// `RowDescription`
    RowDescription { columns: RowDescription<'a> },
}

/// The transaction status byte of ReadyForQuery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum TransactionStatus {
    /// Not in a transaction block.
    Idle = b'I',
    /// In a transaction block.
    InTransaction = b'T',
    /// In a failed transaction block.
    Failed = b'E',
}

impl TransactionStatus {
    /// The byte on the wire.
    pub fn letter(self) -> u8 {
        self as u8
    }

    fn from_letter(letter: u8) -> Result<Self, Malformed> {
        match letter {
            b'I' => Ok(TransactionStatus::Idle),
            b'T' => Ok(TransactionStatus::InTransaction),
            b'E' => Ok(TransactionStatus::Failed),
            _ => Err(Malformed),
        }
    }
}

/// The body of ParameterDescription: int16 count, then the OID of each parameter's type. Checked by `parse`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParameterDescription<'a> {
    /// Four bytes per OID.
    pub(crate) oids: &'a [u8],
}

impl<'a> ParameterDescription<'a> {
    fn parse(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        let count = usize::from(reader.u16()?);
        let oids = reader.bytes(count.saturating_mul(4))?;
        reader.end()?;
        Ok(ParameterDescription { oids })
    }

    /// The type OID of each parameter.
    pub fn iter(&self) -> impl Iterator<Item = u32> + use<'a> {
        self.oids
            .as_chunks()
            .0
            .iter()
            .map(|oid| u32::from_be_bytes(*oid))
    }
}

/// One column of a RowDescription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column<'a> {
    /// The column's name; at most 63 bytes unless the server was built otherwise.
    pub name: &'a [u8],
    /// The table that the column comes from, or 0.
    pub table_oid: u32,
    /// The column's number in that table, or 0.
    pub column_attribute_number: i16,
    /// The OID of its type (a domain shows its base type).
    pub type_oid: u32,
    /// `pg_type.typlen`; negative for variable width.
    pub type_size: i16,
    /// `pg_attribute.atttypmod`, for example a varchar's length.
    pub type_modifier: i32,
    /// 0 text, 1 binary; 0 when a statement is described, because formats are chosen by Bind.
    pub format_code: i16,
}

/// The body of RowDescription. Checked by `parse`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowDescription<'a> {
    body: &'a [u8],
}

impl<'a> RowDescription<'a> {
    /// No columns, as NoData means.
    pub const NONE: RowDescription<'static> = RowDescription { body: &[0, 0] };

    /// Checks every column once, so that [`iter`](Self::iter) cannot fail.
    pub fn parse(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        // PostgreSQL allows 1,664 columns; a negative count is not from a PostgreSQL server.
        let count = usize::try_from(reader.i16()?).map_err(|_| Malformed)?;
        for _ in 0..count {
            column(&mut reader)?;
        }
        reader.end()?;
        Ok(RowDescription { body })
    }

    /// The columns in order.
    pub fn iter(&self) -> impl Iterator<Item = Column<'a>> + Clone + use<'a> {
        let mut reader = Reader::new(self.body.get(2..).unwrap_or_default());
        core::iter::from_fn(move || column(&mut reader).ok())
    }

    /// The raw body: equal bodies describe equal columns.
    pub fn body(&self) -> &'a [u8] {
        self.body
    }
}

fn column<'a>(reader: &mut Reader<'a>) -> Result<Column<'a>, Malformed> {
    let column = Column {
        name: reader.string()?,
        table_oid: reader.u32()?,
        column_attribute_number: reader.i16()?,
        type_oid: reader.u32()?,
        type_size: reader.i16()?,
        type_modifier: reader.i32()?,
        format_code: reader.i16()?,
    };
    // Only 0 and 1 exist.
    if !(0..=1).contains(&column.format_code) {
        return Err(Malformed);
    }
    Ok(column)
}

impl<'a> BackendMessage<'a> {
    /// Decodes one frame.
    pub fn parse(frame: Frame<'a>) -> Result<Self, DecodeError> {
        let Frame { tag, body } = frame;
        let mut reader = Reader::new(body);
        match Self::read(tag, &mut reader) {
            Ok(Some(message)) if reader.end().is_ok() => Ok(message),
            Ok(None) => Err(match Reader::new(body).i32() {
                Ok(kind) if tag == b'R' => DecodeError::UnknownAuthentication(kind),
                _ => DecodeError::UnknownType(tag),
            }),
            _ => Err(DecodeError::Malformed(tag)),
        }
    }

    /// Reads the message at the start of the body; the caller checks that the body ends after it. `None`: there is no
    /// such type.
    fn read(tag: u8, reader: &mut Reader<'a>) -> Result<Option<Self>, Malformed> {
        Ok(Some(match tag {
            b'1' => BackendMessage::ParseComplete,
            b'2' => BackendMessage::BindComplete,
            b'3' => BackendMessage::CloseComplete,
            b'A' => BackendMessage::NotificationResponse {
                process_id: reader.u32()?,
                channel: reader.string()?,
                payload: reader.string()?,
            },
            b'C' => BackendMessage::CommandComplete {
                command_tag: reader.string()?,
            },
            b'D' => BackendMessage::DataRow {
                body: reader.remaining(),
            },
            b'E' => BackendMessage::ErrorResponse {
                fields: Fields::parse(reader.remaining())?,
            },
            b'G' => copy_response(reader, BackendMessage::CopyInResponse)?,
            b'H' => copy_response(reader, BackendMessage::CopyOutResponse)?,
            b'I' => BackendMessage::EmptyQueryResponse,
            b'K' => BackendMessage::BackendKeyData {
                process_id: reader.u32()?,
                secret_key: secret_key(reader.remaining())?,
            },
            b'N' => BackendMessage::NoticeResponse {
                fields: Fields::parse(reader.remaining())?,
            },
            b'R' => return authentication(reader),
            b'S' => BackendMessage::ParameterStatus {
                name: reader.string()?,
                value: reader.string()?,
            },
            b'T' => BackendMessage::RowDescription {
                columns: RowDescription::parse(reader.remaining())?,
            },
            b'W' => copy_response(reader, BackendMessage::CopyBothResponse)?,
            b'Z' => BackendMessage::ReadyForQuery {
                status: TransactionStatus::from_letter(reader.u8()?)?,
            },
            b'c' => BackendMessage::CopyDone,
            b'd' => BackendMessage::CopyData {
                data: reader.remaining(),
            },
            b'n' => BackendMessage::NoData,
            b's' => BackendMessage::PortalSuspended,
            b't' => BackendMessage::ParameterDescription {
                parameters: ParameterDescription::parse(reader.remaining())?,
            },
            b'v' => negotiate_protocol_version(reader)?,
            _ => return Ok(None),
        }))
    }
}

fn authentication<'a>(reader: &mut Reader<'a>) -> Result<Option<BackendMessage<'a>>, Malformed> {
    Ok(Some(match reader.i32()? {
        0 => BackendMessage::AuthenticationOk,
        3 => BackendMessage::AuthenticationCleartextPassword,
        5 => BackendMessage::AuthenticationMd5Password {
            salt: reader.u32()?,
        },
        10 => {
            let mechanisms = reader.clone().remaining();
            while !reader.string()?.is_empty() {}
            BackendMessage::AuthenticationSasl { mechanisms }
        }
        11 => BackendMessage::AuthenticationSaslContinue {
            data: reader.remaining(),
        },
        12 => BackendMessage::AuthenticationSaslFinal {
            data: reader.remaining(),
        },
        _ => return Ok(None),
    }))
}

/// int8 overall format, int16 number of columns, int16 format of each column: checked, but not used.
fn copy_response<'a>(
    reader: &mut Reader<'a>,
    message: BackendMessage<'a>,
) -> Result<BackendMessage<'a>, Malformed> {
    reader.u8()?;
    let count = usize::from(reader.u16()?);
    reader.bytes(count.saturating_mul(2))?;
    Ok(message)
}

fn secret_key(key: &[u8]) -> Result<&[u8], Malformed> {
    if (4..=256).contains(&key.len()) {
        Ok(key)
    } else {
        Err(Malformed)
    }
}

fn negotiate_protocol_version<'a>(
    reader: &mut Reader<'a>,
) -> Result<BackendMessage<'a>, Malformed> {
    let version = reader.u32()?;
    let unrecognized_options = u32::try_from(reader.i32()?).map_err(|_| Malformed)?;
    for _ in 0..unrecognized_options {
        reader.string()?;
    }
    Ok(BackendMessage::NegotiateProtocolVersion {
        version,
        unrecognized_options,
    })
}

#[cfg(test)]
mod tests;
