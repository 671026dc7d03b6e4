//! Messages the frontend sends, one function each, in the order of the protocol chapter's list.
//!
//! Each appends one whole message to `buffer`. Strings must contain no NUL: `connection` checks what came from outside.

use super::writer::{TooLong, message};
use alloc::vec::Vec;

/// `CancelRequest`, `SSLRequest` and `StartupMessage` have no type byte; the first two have these codes in place of a
/// version.
const CANCEL_REQUEST_CODE: u32 = (1234 << 16) | 5678;
const SSL_REQUEST_CODE: u32 = (1234 << 16) | 5679;

/// The ends of a statement's Bind and Parse, which the caller has encoded once:
///
/// ```text
/// Bind    int16 number · int16 format code of each column of the result
/// Parse   query · int16 number · int32 type of each parameter
/// ```
/// Bind has a format code for each column, not the short form of one code for all, so that the server reports a changed
/// number of columns.
#[derive(Debug, Clone, Copy)]
pub struct Statement<'a> {
    /// The end of Bind.
    pub result_formats: &'a [u8],
    /// The end of Parse.
    pub query_and_types: &'a [u8],
}

impl<'a> Statement<'a> {
    /// Splits the encoded statement into its two parts.
    pub fn new(encoded: &'a [u8]) -> Self {
        let [high, low] = encoded.first_chunk().copied().unwrap_or_default();
        let length = 2 + 2 * usize::from(u16::from_be_bytes([high, low]));
        let (result_formats, query_and_types) =
            encoded.split_at_checked(length).unwrap_or((encoded, &[]));
        Statement {
            result_formats,
            query_and_types,
        }
    }
}

/// `Bind`. `parameters` is the middle of the message as the caller built it: int16 number of format codes, the codes,
/// int16 number of values, each value as int32 length (-1 for NULL) and bytes.
pub fn bind(
    buffer: &mut Vec<u8>,
    destination_portal: &[u8],
    prepared_statement: &[u8],
    parameters: &[u8],
    result_formats: &[u8],
) -> Result<(), TooLong> {
    message(buffer, Some(b'B'), |body| {
        body.string(destination_portal);
        body.string(prepared_statement);
        body.bytes(parameters);
        body.bytes(result_formats);
    })
}

/// `CancelRequest`, sent alone on a separate connection.
pub fn cancel_request(
    buffer: &mut Vec<u8>,
    process_id: u32,
    secret_key: &[u8],
) -> Result<(), TooLong> {
    message(buffer, None, |body| {
        body.int32(CANCEL_REQUEST_CODE);
        body.int32(process_id);
        body.bytes(secret_key);
    })
}

/// `Close` of a portal.
pub fn close_portal(buffer: &mut Vec<u8>, portal: &[u8]) -> Result<(), TooLong> {
    of(buffer, b'C', b'P', portal)
}

/// `Close` of a prepared statement.
pub fn close_statement(buffer: &mut Vec<u8>, prepared_statement: &[u8]) -> Result<(), TooLong> {
    of(buffer, b'C', b'S', prepared_statement)
}

/// The header of a `CopyData` with `length` bytes of data. The data itself does not pass through here, which would copy
/// it twice more.
pub fn copy_data_header(buffer: &mut Vec<u8>, length: u32) {
    buffer.push(b'd');
    buffer.extend_from_slice(&length.saturating_add(4).to_be_bytes());
}

/// `CopyDone`.
pub fn copy_done(buffer: &mut Vec<u8>) -> Result<(), TooLong> {
    message(buffer, Some(b'c'), |_| {})
}

/// `CopyFail`.
pub fn copy_fail(buffer: &mut Vec<u8>, reason: &[u8]) -> Result<(), TooLong> {
    message(buffer, Some(b'f'), |body| body.string(reason))
}

/// `Describe` of a portal.
pub fn describe_portal(buffer: &mut Vec<u8>, portal: &[u8]) -> Result<(), TooLong> {
    of(buffer, b'D', b'P', portal)
}

/// `Describe` of a prepared statement.
pub fn describe_statement(buffer: &mut Vec<u8>, prepared_statement: &[u8]) -> Result<(), TooLong> {
    of(buffer, b'D', b'S', prepared_statement)
}

/// `Execute`; `maximum_rows` 0 means all.
pub fn execute(buffer: &mut Vec<u8>, portal: &[u8], maximum_rows: u32) -> Result<(), TooLong> {
    message(buffer, Some(b'E'), |body| {
        body.string(portal);
        body.int32(maximum_rows);
    })
}

/// `Parse` of a [`Statement`]: the server infers a type of 0.
pub fn parse(
    buffer: &mut Vec<u8>,
    prepared_statement: &[u8],
    query_and_types: &[u8],
) -> Result<(), TooLong> {
    message(buffer, Some(b'P'), |body| {
        body.string(prepared_statement);
        body.bytes(query_and_types);
    })
}

/// `Parse` of a query whose parameters have no declared types.
pub fn parse_untyped(
    buffer: &mut Vec<u8>,
    prepared_statement: &[u8],
    query: &[u8],
) -> Result<(), TooLong> {
    message(buffer, Some(b'P'), |body| {
        body.string(prepared_statement);
        body.string(query);
        body.int16(0);
    })
}

/// `PasswordMessage`: cleartext, or the MD5 digest.
pub fn password_message(buffer: &mut Vec<u8>, password: &[u8]) -> Result<(), TooLong> {
    message(buffer, Some(b'p'), |body| body.string(password))
}

/// `Query`: the simple query protocol.
pub fn query(buffer: &mut Vec<u8>, query: &[u8]) -> Result<(), TooLong> {
    message(buffer, Some(b'Q'), |body| body.string(query))
}

/// `SASLInitialResponse`.
pub fn sasl_initial_response(
    buffer: &mut Vec<u8>,
    mechanism: &[u8],
    data: &[u8],
) -> Result<(), TooLong> {
    message(buffer, Some(b'p'), |body| {
        body.string(mechanism);
        body.int32(data.len() as u32);
        body.bytes(data);
    })
}

/// `SASLResponse`.
pub fn sasl_response(buffer: &mut Vec<u8>, data: &[u8]) -> Result<(), TooLong> {
    message(buffer, Some(b'p'), |body| body.bytes(data))
}

/// `SSLRequest`.
pub fn ssl_request(buffer: &mut Vec<u8>) -> Result<(), TooLong> {
    message(buffer, None, |body| body.int32(SSL_REQUEST_CODE))
}

/// `StartupMessage`; `parameters`: each name and each value, followed by a NUL.
pub fn startup_message(
    buffer: &mut Vec<u8>,
    protocol_version: u32,
    parameters: &[u8],
) -> Result<(), TooLong> {
    message(buffer, None, |body| {
        body.int32(protocol_version);
        body.bytes(parameters);
        body.byte(0);
    })
}

/// `Sync`: ends a flight. The server answers it with ReadyForQuery, whatever happened before.
pub fn sync(buffer: &mut Vec<u8>) -> Result<(), TooLong> {
    message(buffer, Some(b'S'), |_| {})
}

/// `Terminate`.
pub fn terminate(buffer: &mut Vec<u8>) -> Result<(), TooLong> {
    message(buffer, Some(b'X'), |_| {})
}

/// `Close` or `Describe` of a portal or statement. `what`: its kind; `name`: its name.
#[inline(never)]
fn of(buffer: &mut Vec<u8>, tag: u8, what: u8, name: &[u8]) -> Result<(), TooLong> {
    message(buffer, Some(tag), |body| {
        body.byte(what);
        body.string(name);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_goes_into_bind_and_parse_as_it_was_encoded() {
        let statement = Statement::new(b"\0\x02\0\x01\0\0select $1\0\0\x01\0\0\0\x17");
        let mut buffer = Vec::new();
        bind(
            &mut buffer,
            b"",
            b"n",
            &[0, 0, 0, 0],
            statement.result_formats,
        )
        .unwrap();
        assert_eq!(buffer, b"B\0\0\0\x11\0n\0\0\0\0\0\0\x02\0\x01\0\0");
        buffer.clear();
        parse(&mut buffer, b"n", statement.query_and_types).unwrap();
        assert_eq!(buffer, b"P\0\0\0\x16n\0select $1\0\0\x01\0\0\0\x17");
    }

    #[test]
    fn a_statement_that_breaks_off_is_no_panic() {
        for encoded in [&b""[..], b"\0", b"\0\x02\0\x01\0", b"\xff\xff"] {
            assert_eq!(Statement::new(encoded).query_and_types, b"");
        }
    }

    #[test]
    fn cancel_request_has_the_length_of_its_key() {
        let mut buffer = Vec::new();
        cancel_request(&mut buffer, 7, &[1, 2, 3, 4]).unwrap();
        assert_eq!(
            buffer,
            [0, 0, 0, 16, 0x04, 0xd2, 0x16, 0x2e, 0, 0, 0, 7, 1, 2, 3, 4]
        );
    }
}
