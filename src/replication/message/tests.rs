use super::*;
use alloc::vec::Vec;

const AT: Timestamp = [0, 0, 0, 0, 0, 0, 0, 9];

/// Joins `parts`.
fn bytes(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

fn int64(value: u64) -> [u8; 8] {
    value.to_be_bytes()
}

/// One message of each kind, with the result of reading it.
fn samples() -> Vec<(Vec<u8>, Message<'static>)> {
    let prepared = Prepared {
        end_position: 2,
        at: AT,
        xid: 7,
        gid: b"gid",
    };
    let prepared_bytes = bytes(&[&int64(1), &int64(2), &AT, &[0, 0, 0, 7], b"gid\0"]);
    let tuple = Tuple {
        count: 2,
        values: b"nt\0\0\0\x01x",
    };
    let tuple_bytes = b"\0\x02nt\0\0\0\x01x";
    vec_of([
        (
            bytes(&[b"B", &int64(1), &AT, &[0, 0, 0, 7]]),
            Message::Begin {
                final_position: 1,
                committed_at: AT,
                xid: 7,
            },
        ),
        (
            bytes(&[b"C\0", &int64(1), &int64(2), &AT]),
            Message::Commit {
                commit_position: 1,
                end_position: 2,
                committed_at: AT,
            },
        ),
        (
            bytes(&[b"O", &int64(1), b"other\0"]),
            Message::Origin { name: b"other" },
        ),
        (
            bytes(&[b"M\x01", &int64(3), b"app\0", &[0, 0, 0, 2], b"hi"]),
            Message::Logical {
                is_transactional: true,
                position: 3,
                prefix: b"app",
                content: b"hi",
            },
        ),
        (
            bytes(&[
                b"R\0\0\x40\x01public\0t\0d\0\x01",
                b"\x01id\0\0\0\0\x17\xff\xff\xff\xff",
            ]),
            Message::Relation(RelationMessage {
                oid: 0x4001,
                schema: b"public",
                name: b"t",
                replica_identity: b'd',
                columns: b"\0\x01\x01id\0\0\0\0\x17\xff\xff\xff\xff",
            }),
        ),
        (
            bytes(&[b"Y\0\0\x40\x02public\0mood\0"]),
            Message::Type {
                type_oid: 0x4002,
                schema: b"public",
                name: b"mood",
            },
        ),
        (
            bytes(&[b"I\0\0\x40\x01N", tuple_bytes]),
            Message::Insert {
                relation: 0x4001,
                new: tuple,
            },
        ),
        (
            bytes(&[b"U\0\0\x40\x01N", tuple_bytes]),
            Message::Update {
                relation: 0x4001,
                old: None,
                new: tuple,
            },
        ),
        (
            bytes(&[b"U\0\0\x40\x01K", tuple_bytes, b"N", tuple_bytes]),
            Message::Update {
                relation: 0x4001,
                old: Some(Old {
                    is_key: true,
                    tuple,
                }),
                new: tuple,
            },
        ),
        (
            bytes(&[b"D\0\0\x40\x01O", tuple_bytes]),
            Message::Delete {
                relation: 0x4001,
                old: Old {
                    is_key: false,
                    tuple,
                },
            },
        ),
        (
            bytes(&[b"T\0\0\0\x02\x03\0\0\x40\x01\0\0\x40\x02"]),
            Message::Truncate {
                relations: &[[0, 0, 0x40, 1], [0, 0, 0x40, 2]],
                cascade: true,
                restart_identity: true,
            },
        ),
        (
            bytes(&[b"S\0\0\0\x07\x01"]),
            Message::StreamStart {
                xid: 7,
                is_first: true,
            },
        ),
        (bytes(&[b"E"]), Message::StreamStop),
        (
            bytes(&[b"c\0\0\0\x07\0", &int64(1), &int64(2), &AT]),
            Message::StreamCommit {
                xid: 7,
                end_position: 2,
                committed_at: AT,
            },
        ),
        (
            bytes(&[b"A\0\0\0\x07\0\0\0\x08"]),
            Message::StreamAbort { xid: 7, subxid: 8 },
        ),
        (
            bytes(&[b"b", &prepared_bytes]),
            Message::BeginPrepare(prepared),
        ),
        (
            bytes(&[b"P\0", &prepared_bytes]),
            Message::Prepare(prepared),
        ),
        (
            bytes(&[b"p\0", &prepared_bytes]),
            Message::StreamPrepare(prepared),
        ),
        (
            bytes(&[b"K\0", &prepared_bytes]),
            Message::CommitPrepared(prepared),
        ),
        (
            bytes(&[
                b"r\0",
                &int64(1),
                &int64(2),
                &int64(8),
                &AT,
                &[0, 0, 0, 7],
                b"gid\0",
            ]),
            Message::RollbackPrepared(prepared),
        ),
    ])
}

fn vec_of<T, const N: usize>(all: [T; N]) -> Vec<T> {
    Vec::from(all)
}

#[test]
fn each_message_is_read() {
    for (body, message) in samples() {
        assert_eq!(
            Message::parse(&body, false),
            Ok((message, None)),
            "{body:?}"
        );
    }
}

/// Reads a message and all values of its rows.
fn read_whole(body: &[u8]) -> Result<(), Malformed> {
    let (message, _) = Message::parse(body, false)?;
    let (old, new) = match message {
        Message::Insert { new, .. } => (None, Some(new)),
        Message::Update { old, new, .. } => (old, Some(new)),
        Message::Delete { old, .. } => (Some(old), None),
        _ => (None, None),
    };
    old.iter()
        .map(|old| old.tuple)
        .chain(new)
        .flat_map(|tuple| tuple.values())
        .try_for_each(|value| value.map(|_| ()))
}

#[test]
fn a_message_that_is_too_short_or_too_long_is_malformed() {
    for (body, message) in samples() {
        assert_eq!(read_whole(&body), Ok(()), "{message:?}");
        for end in 0..body.len() {
            let read = read_whole(&body[..end]);
            assert_eq!(read, Err(Malformed), "{end} bytes of {message:?}");
        }
        let longer = bytes(&[&body, b"\0"]);
        assert_eq!(read_whole(&longer), Err(Malformed), "{message:?}");
    }
}

#[test]
fn values_end_behind_an_error() {
    let values = b"nn?";
    let tuple = Tuple { count: 2, values };
    let read: Vec<_> = tuple.values().collect();
    assert_eq!(read, [Ok(Value::Null), Ok(Value::Null), Err(Malformed)]);
}

#[test]
fn changes_in_a_part_of_a_transaction_have_its_id_in_front() {
    for (body, message) in samples() {
        let has_xid = b"MRYIUDT".contains(&body[0]);
        let xid: &[u8] = if has_xid { &[0, 0, 0, 5] } else { &[] };
        let streamed = bytes(&[&body[..1], xid, &body[1..]]);
        let subxid = has_xid.then_some(5);
        assert_eq!(Message::parse(&streamed, true), Ok((message, subxid)));
    }
}

#[test]
fn an_abort_of_version_4_says_where_and_when_it_was() {
    let body = bytes(&[b"A\0\0\0\x07\0\0\0\x07", &int64(1), &AT]);
    let abort = Message::StreamAbort { xid: 7, subxid: 7 };
    assert_eq!(Message::parse(&body, false), Ok((abort, None)));
}

#[test]
fn values_come_in_four_kinds() {
    let body = b"I\0\0\x40\x01N\0\x04nut\0\0\0\x01xb\0\0\0\x02\0\x01";
    let (Message::Insert { new, .. }, _) = Message::parse(body, false).unwrap() else {
        panic!("no Insert");
    };
    let values: Result<Vec<_>, _> = new.values().collect();
    let four = [
        Value::Null,
        Value::Unchanged,
        Value::Text(b"x"),
        Value::Binary(&[0, 1]),
    ];
    assert_eq!(values, Ok(four.into()));
}

#[test]
fn columns_are_read_in_their_order() {
    let body = b"R\0\0\x40\x01\0t\0f\0\x02\x01id\0\0\0\0\x17\xff\xff\xff\xff\0name\0\0\0\x04\x13\0\0\0\x24";
    let (Message::Relation(relation), _) = Message::parse(body, false).unwrap() else {
        panic!("no Relation");
    };
    let columns: Vec<_> = relation.columns().collect();
    assert_eq!(
        columns,
        [
            ColumnOfRelation {
                is_key: true,
                name: b"id",
                type_oid: 23,
                type_modifier: -1,
            },
            ColumnOfRelation {
                is_key: false,
                name: b"name",
                type_oid: 1043,
                type_modifier: 36,
            },
        ]
    );
}
