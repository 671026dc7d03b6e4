//! Reads batches by their documented layout, not with the code that makes them.

use crate::boundary::change_kinds as kind;
use crate::replication::changes::{Changes, Options};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};

const AT: [u8; 8] = [0; 8];
const USERS: &[u8] = b"R\0\0\x40\x01app\0users\0d\0\x03\
    \x01id\0\0\0\0\x17\xff\xff\xff\xff\0name\0\0\0\0\x19\xff\xff\xff\xff\0big\0\0\0\0\x14\xff\xff\xff\xff";

/// The numbers of a head, and what they refer to.
#[derive(Debug, PartialEq)]
struct Seen {
    kind: u32,
    of: u32,
    ids: [u32; 2],
    position: String,
    bytes: u32,
}

/// A batch, split as its layout says.
struct Parts {
    heads: Vec<Seen>,
    slots: Vec<[u32; 2]>,
    texts: String,
    json: String,
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn parts(batch: &[u8]) -> Parts {
    let tail = batch.len() - 12;
    let [count, text, json] = [0, 4, 8].map(|at| number(batch, tail + at) as usize);
    let [json_at, text_at] = [tail - json, tail - json - text];
    let slots_at = 8 + 32 * count;
    let mut at = text_at;
    let heads = batch[8..slots_at].chunks(32).map(|head| {
        let [kind, of, xid, subxid, length, bytes] =
            [0, 4, 8, 12, 16, 20].map(|at| number(head, at));
        assert_eq!(head[24..], [0; 8]);
        let mut take = |length: u32| {
            at += length as usize;
            String::from_utf8(batch[at - length as usize..at].to_vec()).unwrap()
        };
        let mut position = take(length);
        if matches!(kind, kind::BEGIN | kind::COMMIT) {
            position = format!("{position} {}", take(of));
        }
        Seen {
            kind,
            of: if matches!(kind, kind::BEGIN | kind::COMMIT) {
                0
            } else {
                of
            },
            ids: [xid, subxid],
            position,
            bytes,
        }
    });
    let heads = heads.collect();
    assert_eq!(at - text_at, number(batch, 0) as usize);
    let slots = batch[slots_at..text_at].chunks(8);
    Parts {
        heads,
        slots: slots
            .map(|slot| [number(slot, 0), number(slot, 4)])
            .collect(),
        texts: String::from_utf8(batch[at..json_at].to_vec()).unwrap(),
        json: String::from_utf8(batch[json_at..tail].to_vec()).unwrap(),
    }
}

fn changes() -> Changes {
    Changes::new(Options {
        objects: true,
        ..Options::default()
    })
}

fn receive(changes: &mut Changes, start: u64, body: &[u8]) -> bool {
    let head = [start, 0, 0].map(u64::to_be_bytes).concat();
    changes.receive(&[b"w", &*head, body].concat()).is_ok()
}

fn taken(changes: &mut Changes) -> Vec<u8> {
    changes.seal(0);
    let batch = changes.output().to_vec();
    changes.output_taken(0);
    batch
}

fn begin(position: u64) -> Vec<u8> {
    [b"B", &position.to_be_bytes()[..], &AT, &[0, 0, 0, 7]].concat()
}

fn seen(kind: u32, of: u32, ids: [u32; 2], position: &str, bytes: u32) -> Seen {
    let position = position.to_string();
    Seen {
        kind,
        of,
        ids,
        position,
        bytes,
    }
}

const TIME: &str = "2000-01-01T00:00:00+00:00";

#[test]
fn a_transaction_is_heads_slots_texts_and_json() {
    let mut changes = changes();
    let insert = b"I\0\0\x40\x01N\0\x03t\0\0\0\x011t\0\0\0\x03Annt\0\0\0\x019";
    let update = b"U\0\0\x40\x01N\0\x03t\0\0\0\x012nn";
    let unchanged = b"U\0\0\x40\x01N\0\x03t\0\0\0\x012nu";
    let commit = [
        b"C\0",
        &*[0x120_u64, 0x128, 0].map(u64::to_be_bytes).concat(),
    ]
    .concat();
    for (start, body) in [
        (0, &*begin(0x100)),
        (0, USERS),
        (0x10, insert),
        (0x1f_ffff_ffff, update),
        (0x12, unchanged),
        (0x13, &commit),
    ] {
        assert!(receive(&mut changes, start, body), "{body:?}");
    }
    let Parts {
        heads,
        slots,
        texts,
        json,
    } = parts(&taken(&mut changes));
    let users = 0x4001;
    assert_eq!(
        heads,
        vec![
            seen(kind::BEGIN, 0, [7, 0], &format!("0/100 {TIME}"), 0),
            seen(kind::LINE, 0, [0, 0], "", USERS.len() as u32),
            seen(kind::COLUMNS, users, [0, 0], "", 0),
            seen(kind::INSERT, users, [7, 0], "0/10", insert.len() as u32),
            seen(
                kind::UPDATE,
                users,
                [7, 0],
                "1F/FFFFFFFF",
                update.len() as u32
            ),
            seen(kind::LINE, 0, [0, 0], "", unchanged.len() as u32),
            seen(
                kind::COMMIT,
                0,
                [7, 0],
                &format!("0/128 {TIME}"),
                commit.len() as u32
            ),
        ]
    );
    // Only texts: the numbers are JSON.
    assert_eq!(slots, [[3, 3], [u32::MAX, u32::MAX]]);
    assert_eq!(texts, "Ann");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let json = json.as_array().unwrap();
    assert_eq!(json.len(), 7);
    assert_eq!(json[0]["kind"], "schema");
    assert_eq!(
        json[1..6],
        [
            serde_json::json!([4, 3, 4]),
            1.into(),
            9.into(),
            2.into(),
            serde_json::Value::Null
        ]
    );
    assert_eq!(json[6]["unchanged"], serde_json::json!(["big"]));
}

#[test]
fn columns_are_told_once_and_again_when_types_are_known() {
    let mut changes = changes();
    let insert = b"I\0\0\x40\x01N\0\x03nnn";
    let kinds = |changes: &mut Changes| {
        assert!(receive(changes, 0x10, insert));
        let heads = parts(&taken(changes)).heads;
        heads.iter().map(|head| head.kind).collect::<Vec<_>>()
    };
    assert!(receive(&mut changes, 0, &begin(0x100)));
    assert!(receive(&mut changes, 0, USERS));
    taken(&mut changes);
    assert_eq!(kinds(&mut changes), [kind::COLUMNS, kind::INSERT]);
    assert_eq!(kinds(&mut changes), [kind::INSERT]);
    changes.define_types(crate::types::Types::default());
    assert_eq!(kinds(&mut changes), [kind::COLUMNS, kind::INSERT]);
}

#[test]
fn nothing_stays_of_a_row_that_is_broken() {
    let mut changes = changes();
    assert!(receive(&mut changes, 0, &begin(0x100)));
    assert!(receive(&mut changes, 0, USERS));
    taken(&mut changes);
    for broken in [
        &b"I\0\0\x40\x01N\0\x03t\0\0\0\x011t\0\0\0\x03Annt\0\0\0\x09"[..],
        b"I\0\0\x40\x01N\0\x03nnnn",
        b"I\0\0\x40\x01N\0\x02nn",
    ] {
        assert!(!receive(&mut changes, 0x10, broken), "{broken:?}");
        assert!(!changes.has_output(), "{broken:?}");
    }
}
