//! The layout of every message, byte by byte: what it contains, and that one byte less or more is refused.
//!
//! Bodies are written by hand from the protocol chapter's "Message Formats".

use super::*;
use crate::protocol::messages::BACKEND;
use BackendMessage as Message;
use alloc::vec;
use alloc::vec::Vec;

fn parse(tag: u8, body: &[u8]) -> Result<Message<'_>, DecodeError> {
    Message::parse(Frame { tag, body })
}

fn assert_malformed(tag: u8, body: &[u8]) {
    assert_eq!(
        parse(tag, body),
        Err(DecodeError::Malformed(tag)),
        "{} {body:?}",
        char::from(tag)
    );
}

/// One column, without the format code at its end.
const COLUMN: &[u8] = b"id\0\0\x01\x02\x03\0\x05\0\0\0\x17\0\x04\xff\xff\xff\xff";

fn row_description(count: i16, format_codes: &[i16]) -> Vec<u8> {
    let mut body = count.to_be_bytes().to_vec();
    for code in format_codes {
        body.extend_from_slice(COLUMN);
        body.extend_from_slice(&code.to_be_bytes());
    }
    body
}

/// Messages that end where their layout says.
fn messages() -> Vec<(u8, &'static [u8], Message<'static>)> {
    const FIELDS: &[u8] = b"SERROR\0C42601\0\0";
    vec![
        (b'1', b"", Message::ParseComplete),
        (b'2', b"", Message::BindComplete),
        (b'3', b"", Message::CloseComplete),
        (b'I', b"", Message::EmptyQueryResponse),
        (b'c', b"", Message::CopyDone),
        (b'n', b"", Message::NoData),
        (b's', b"", Message::PortalSuspended),
        (
            b'A',
            b"\x01\x02\x03\x04jobs\0ready\0",
            Message::NotificationResponse {
                process_id: 0x0102_0304,
                channel: b"jobs",
                payload: b"ready",
            },
        ),
        (
            b'C',
            b"SELECT 1\0",
            Message::CommandComplete {
                command_tag: b"SELECT 1",
            },
        ),
        (
            b'E',
            FIELDS,
            Message::ErrorResponse {
                fields: Fields::of(FIELDS),
            },
        ),
        (
            b'N',
            FIELDS,
            Message::NoticeResponse {
                fields: Fields::of(FIELDS),
            },
        ),
        (b'G', b"\x01\0\x02\0\x01\0\x01", Message::CopyInResponse),
        (b'H', b"\x01\0\x02\0\x01\0\x01", Message::CopyOutResponse),
        (b'W', b"\x01\0\x02\0\x01\0\x01", Message::CopyBothResponse),
        (b'R', b"\0\0\0\0", Message::AuthenticationOk),
        (
            b'R',
            b"\0\0\0\x03",
            Message::AuthenticationCleartextPassword,
        ),
        (
            b'R',
            b"\0\0\0\x05\x01\x02\x03\x04",
            Message::AuthenticationMd5Password { salt: 0x0102_0304 },
        ),
        (
            b'R',
            b"\0\0\0\x0aSCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0",
            Message::AuthenticationSasl {
                mechanisms: b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0",
            },
        ),
        (
            b'S',
            b"TimeZone\0UTC\0",
            Message::ParameterStatus {
                name: b"TimeZone",
                value: b"UTC",
            },
        ),
        (
            b'Z',
            b"I",
            Message::ReadyForQuery {
                status: TransactionStatus::Idle,
            },
        ),
        (
            b'Z',
            b"T",
            Message::ReadyForQuery {
                status: TransactionStatus::InTransaction,
            },
        ),
        (
            b'Z',
            b"E",
            Message::ReadyForQuery {
                status: TransactionStatus::Failed,
            },
        ),
        (
            b't',
            b"\0\x02\0\0\0\x17\0\0\0\x19",
            Message::ParameterDescription {
                parameters: ParameterDescription {
                    oids: b"\0\0\0\x17\0\0\0\x19",
                },
            },
        ),
        (
            b'v',
            b"\0\x03\0\0\0\0\0\x02_pq_.a\0_pq_.b\0",
            Message::NegotiateProtocolVersion {
                version: 0x0003_0000,
                unrecognized_options: 2,
            },
        ),
    ]
}

#[test]
fn a_message_is_read_to_its_end_and_not_beyond() {
    for (tag, body, message) in messages() {
        assert_eq!(parse(tag, body), Ok(message), "{}", char::from(tag));
        for end in 0..body.len() {
            assert_malformed(tag, &body[..end]);
        }
        for byte in [0, b'x'] {
            assert_malformed(tag, &[body, &[byte]].concat());
        }
    }
}

#[test]
fn what_holds_data_takes_any() {
    for data in [&b""[..], b"\0", b"any\0bytes\xff"] {
        assert_eq!(parse(b'D', data), Ok(Message::DataRow { body: data }));
        assert_eq!(parse(b'd', data), Ok(Message::CopyData { data }));
        assert_eq!(
            parse(b'R', &[b"\0\0\0\x0b", data].concat()),
            Ok(Message::AuthenticationSaslContinue { data })
        );
        assert_eq!(
            parse(b'R', &[b"\0\0\0\x0c", data].concat()),
            Ok(Message::AuthenticationSaslFinal { data })
        );
    }
}

#[test]
fn authentication_of_another_kind_and_types_unknown_are_told_apart() {
    for kind in [1, 2, 4, 6, 7, 8, 9, 13, -1, i32::MIN] {
        assert_eq!(
            parse(b'R', &kind.to_be_bytes()),
            Err(DecodeError::UnknownAuthentication(kind))
        );
    }
    for tag in (0..=255).filter(|tag| !b"123ACDEGHIKNRSTWZcdnstv".contains(tag)) {
        for body in [&b""[..], b"\0\0\0\0", b"\0\0\0\x07"] {
            assert_eq!(parse(tag, body), Err(DecodeError::UnknownType(tag)));
        }
    }
}

#[test]
fn a_transaction_status_is_one_of_three_letters() {
    for letter in (0..=255).filter(|letter| !b"ITE".contains(letter)) {
        assert_malformed(b'Z', &[letter]);
    }
}

/// Protocol 3.0 has keys of 4 bytes, 3.2 of up to 256.
#[test]
fn a_secret_key_has_4_to_256_bytes() {
    let body = |length: usize| [&b"\x01\x02\x03\x04"[..], &vec![7; length]].concat();
    for length in [4, 5, 32, 256] {
        let (process_id, secret_key) = (0x0102_0304, &vec![7; length][..]);
        assert_eq!(
            parse(b'K', &body(length)),
            Ok(Message::BackendKeyData {
                process_id,
                secret_key
            })
        );
    }
    for length in [0, 1, 3, 257, 1000] {
        assert_malformed(b'K', &body(length));
    }
}

#[test]
fn a_row_description_has_the_columns_it_counts() {
    let body = row_description(2, &[0, 1]);
    let column = |format_code| Column {
        name: b"id",
        table_oid: 0x0001_0203,
        column_attribute_number: 5,
        type_oid: 23,
        type_size: 4,
        type_modifier: -1,
        format_code,
    };
    let columns = RowDescription { body: &body };
    assert_eq!(parse(b'T', &body), Ok(Message::RowDescription { columns }));
    assert!(columns.iter().eq([column(0), column(1)]));
    for end in 0..body.len() {
        assert_malformed(b'T', &body[..end]);
    }
    assert_malformed(b'T', &[&body[..], &[0]].concat());
    // Fewer and more options than the count says, a negative count, and a count that no body can hold.
    for count in [-1, 0, 1, 3, i16::MIN, i16::MAX] {
        assert_malformed(b'T', &row_description(count, &[0, 1]));
    }
    assert_malformed(b'T', &row_description(-1, &[]));
    assert_malformed(b'T', &row_description(-1, &[0; 0xffff]));
    assert_eq!(
        parse(b'T', &row_description(0, &[])),
        Ok(Message::RowDescription {
            columns: RowDescription::NONE
        })
    );
}

#[test]
fn a_format_code_is_0_or_1() {
    for code in [-1, 2, i16::MIN, i16::MAX] {
        assert_malformed(b'T', &row_description(1, &[code]));
    }
}

#[test]
fn parameters_are_as_many_as_counted() {
    let parameters = |body: &[u8]| ParameterDescription::parse(body).map(|of| of.iter().collect());
    assert_eq!(parameters(b"\0\0"), Ok(vec![]));
    assert_eq!(
        parameters(b"\0\x02\0\0\0\x17\x01\x02\x03\x04"),
        Ok(vec![23, 0x0102_0304])
    );
    for body in [
        &b"\0\x01"[..],
        b"\0\x01\0\0\0",
        b"\0\x01\0\0\0\x17\0\0\0\x17",
        b"\xff\xff\0\0\0\x17",
    ] {
        assert_eq!(parameters(body), Err(Malformed), "{body:?}");
    }
}

#[test]
fn a_copy_response_has_a_format_for_each_column_it_counts() {
    for tag in *b"GHW" {
        assert!(parse(tag, b"\0\0\0").is_ok());
        for body in [
            &b"\0\0\x01"[..],
            b"\0\0\x01\0",
            b"\0\0\0\0\0",
            b"\0\xff\xff\0\0",
        ] {
            assert_malformed(tag, body);
        }
    }
}

/// The count comes from the server, and a loop runs that many times.
#[test]
fn options_are_as_many_as_counted() {
    for count in [-1, 0, 1, 3, i32::MIN, i32::MAX] {
        let body = [&b"\0\x03\0\0"[..], &count.to_be_bytes(), b"a\0b\0"].concat();
        assert_malformed(b'v', &body);
    }
}

#[test]
fn mechanisms_end_with_an_empty_one() {
    for list in [
        &b""[..],
        b"SCRAM-SHA-256",
        b"SCRAM-SHA-256\0",
        b"\0\0",
        b"A\0\0B\0\0",
    ] {
        assert_malformed(b'R', &[b"\0\0\0\x0a", list].concat());
    }
    assert_eq!(
        parse(b'R', b"\0\0\0\x0a\0"),
        Ok(Message::AuthenticationSasl { mechanisms: b"\0" })
    );
}

/// js/wasm/messages.ts names messages by this table.
#[test]
fn the_table_of_messages_has_each_type_and_its_name() {
    let is_known = |tag: &u8| parse(*tag, b"") != Err(DecodeError::UnknownType(*tag));
    let mut listed: Vec<u8> = BACKEND.iter().map(|(tag, _)| *tag).collect();
    listed.sort_unstable();
    assert_eq!(listed, (0..=255).filter(is_known).collect::<Vec<_>>());
    for (tag, body, message) in messages() {
        let (_, name) = BACKEND.iter().find(|(listed, _)| *listed == tag).unwrap();
        let found = alloc::format!("{:?}", parse(tag, body).unwrap());
        assert!(found.starts_with(name), "{name}: {message:?}");
    }
}
