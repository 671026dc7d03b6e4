//! Messages the backend sends: decoded from a frame, borrowed from the receive buffer.
//!
//! [`BackendMessage::parse`] is total: every frame is a message or a [`DecodeError`]. DataRow stays raw here, because its
//! columns are decoded by `encode` in one pass.

use super::fields::Fields;
use super::frame::Frame;
use super::reader::{Malformed, Reader};

/// Why a frame is no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeError {
    /// No backend message has this type byte.
    UnknownType(u8),
    /// The body does not have the layout of its type.
    Malformed(u8),
    /// An authentication request of a kind that the protocol does not list or that needs what no edge runtime has (GSS, SSPI).
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
    /// `AuthenticationMD5Password`; the salt's four bytes as they stand, big-endian.
    AuthenticationMd5Password { salt: u32 },
    /// `AuthenticationSASL`: the mechanisms offered, NUL-ended each, ended by an empty one.
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
    /// `DataRow`: int16 number of columns, then int32 length (-1 NULL) and bytes of each
    DataRow { body: &'a [u8] },
    /// `EmptyQueryResponse`
    EmptyQueryResponse,
    /// `ErrorResponse`
    ErrorResponse { fields: Fields<'a> },
    /// `NegotiateProtocolVersion`: the newest version that the server has, written as in StartupMessage, and how many of our options it does not know.
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
pub enum TransactionStatus {
    /// `I`: not in a transaction block.
    Idle,
    /// `T`: in a transaction block.
    InTransaction,
    /// `E`: in a failed transaction block.
    Failed,
}

impl TransactionStatus {
    /// The byte on the wire.
    pub fn letter(self) -> u8 {
        match self {
            TransactionStatus::Idle => b'I',
            TransactionStatus::InTransaction => b'T',
            TransactionStatus::Failed => b'E',
        }
    }
}

/// The body of ParameterDescription: int16 count, then the OID of each parameter's type. Checked on parsing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParameterDescription<'a> {
    /// Four bytes each.
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
    /// The table it comes from, or 0.
    pub table_oid: u32,
    /// Its number in that table, or 0.
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

/// The body of RowDescription. Checked on parsing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowDescription<'a> {
    body: &'a [u8],
}

impl<'a> RowDescription<'a> {
    /// Checks every column once; [`iter`](Self::iter) then cannot fail.
    pub fn parse(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        // PostgreSQL allows 1,664 columns; a negative count is a server that is none.
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
    // 0 and 1 are all there is.
    if !(0..=1).contains(&column.format_code) {
        return Err(Malformed);
    }
    Ok(column)
}

impl<'a> BackendMessage<'a> {
    /// Decodes one frame.
    pub fn parse(frame: Frame<'a>) -> Result<Self, DecodeError> {
        let Frame { tag, body } = frame;
        if tag == b'R' {
            return authentication(body);
        }
        let mut reader = Reader::new(body);
        let parsed = match tag {
            b'1' => bare(&reader, BackendMessage::ParseComplete),
            b'2' => bare(&reader, BackendMessage::BindComplete),
            b'3' => bare(&reader, BackendMessage::CloseComplete),
            b'A' => notification(&mut reader),
            b'C' => whole_string(&mut reader)
                .map(|command_tag| BackendMessage::CommandComplete { command_tag }),
            b'D' => Ok(BackendMessage::DataRow { body }),
            b'E' => Fields::parse(body).map(|fields| BackendMessage::ErrorResponse { fields }),
            b'G' => copy_response(&mut reader, BackendMessage::CopyInResponse),
            b'H' => copy_response(&mut reader, BackendMessage::CopyOutResponse),
            b'I' => bare(&reader, BackendMessage::EmptyQueryResponse),
            b'K' => backend_key_data(&mut reader),
            b'N' => Fields::parse(body).map(|fields| BackendMessage::NoticeResponse { fields }),
            b'S' => parameter_status(&mut reader),
            b'T' => RowDescription::parse(body)
                .map(|columns| BackendMessage::RowDescription { columns }),
            b'W' => copy_response(&mut reader, BackendMessage::CopyBothResponse),
            b'Z' => ready_for_query(&mut reader),
            b'c' => bare(&reader, BackendMessage::CopyDone),
            b'd' => Ok(BackendMessage::CopyData { data: body }),
            b'n' => bare(&reader, BackendMessage::NoData),
            b's' => bare(&reader, BackendMessage::PortalSuspended),
            b't' => ParameterDescription::parse(body)
                .map(|parameters| BackendMessage::ParameterDescription { parameters }),
            b'v' => negotiate_protocol_version(&mut reader),
            _ => return Err(DecodeError::UnknownType(tag)),
        };
        parsed.map_err(|Malformed| DecodeError::Malformed(tag))
    }
}

fn authentication(body: &[u8]) -> Result<BackendMessage<'_>, DecodeError> {
    let malformed = |Malformed| DecodeError::Malformed(b'R');
    let mut reader = Reader::new(body);
    let kind = reader.i32().map_err(malformed)?;
    let message = match kind {
        0 => BackendMessage::AuthenticationOk,
        3 => BackendMessage::AuthenticationCleartextPassword,
        5 => BackendMessage::AuthenticationMd5Password {
            salt: reader.u32().map_err(malformed)?,
        },
        10 => {
            let mechanisms = reader.clone().remaining();
            while !reader.string().map_err(malformed)?.is_empty() {}
            BackendMessage::AuthenticationSasl { mechanisms }
        }
        11 => BackendMessage::AuthenticationSaslContinue {
            data: reader.remaining(),
        },
        12 => BackendMessage::AuthenticationSaslFinal {
            data: reader.remaining(),
        },
        _ => return Err(DecodeError::UnknownAuthentication(kind)),
    };
    reader.end().map_err(malformed)?;
    Ok(message)
}

fn bare<'a>(
    reader: &Reader<'a>,
    message: BackendMessage<'a>,
) -> Result<BackendMessage<'a>, Malformed> {
    reader.end()?;
    Ok(message)
}

fn whole_string<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    let text = reader.string()?;
    reader.end()?;
    Ok(text)
}

/// int8 overall format, int16 number of columns, int16 format of each: checked, then not needed before COPY has calls of its own.
fn copy_response<'a>(
    reader: &mut Reader<'a>,
    message: BackendMessage<'a>,
) -> Result<BackendMessage<'a>, Malformed> {
    reader.u8()?;
    let count = usize::from(reader.u16()?);
    reader.bytes(count.saturating_mul(2))?;
    bare(reader, message)
}

fn backend_key_data<'a>(reader: &mut Reader<'a>) -> Result<BackendMessage<'a>, Malformed> {
    let process_id = reader.u32()?;
    let secret_key = reader.remaining();
    if !(4..=256).contains(&secret_key.len()) {
        return Err(Malformed);
    }
    Ok(BackendMessage::BackendKeyData {
        process_id,
        secret_key,
    })
}

fn negotiate_protocol_version<'a>(
    reader: &mut Reader<'a>,
) -> Result<BackendMessage<'a>, Malformed> {
    let version = reader.u32()?;
    let unrecognized_options = u32::try_from(reader.i32()?).map_err(|_| Malformed)?;
    for _ in 0..unrecognized_options {
        reader.string()?;
    }
    bare(
        reader,
        BackendMessage::NegotiateProtocolVersion {
            version,
            unrecognized_options,
        },
    )
}

fn notification<'a>(reader: &mut Reader<'a>) -> Result<BackendMessage<'a>, Malformed> {
    let process_id = reader.u32()?;
    let channel = reader.string()?;
    let payload = whole_string(reader)?;
    Ok(BackendMessage::NotificationResponse {
        process_id,
        channel,
        payload,
    })
}

fn parameter_status<'a>(reader: &mut Reader<'a>) -> Result<BackendMessage<'a>, Malformed> {
    let name = reader.string()?;
    let value = whole_string(reader)?;
    Ok(BackendMessage::ParameterStatus { name, value })
}

fn ready_for_query<'a>(reader: &mut Reader<'a>) -> Result<BackendMessage<'a>, Malformed> {
    let status = match reader.u8()? {
        b'I' => TransactionStatus::Idle,
        b'T' => TransactionStatus::InTransaction,
        b'E' => TransactionStatus::Failed,
        _ => return Err(Malformed),
    };
    bare(reader, BackendMessage::ReadyForQuery { status })
}
