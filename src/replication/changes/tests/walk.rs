//! Feeds each message to each place: the place it leads to, or that it is refused.
//!
//! A letter is the place afterwards: `o`utside, `t`ransaction, `p`repared, `s`tream part; `x`: the message has no place
//! there, and the stream fails. Capital letters are places in transactions that were yielded earlier, where nothing is
//! yielded.

use super::*;

const ONE_COLUMN: &[u8] = b"\0\0\x40\x01app\0users\0d\0\x01\x01id\0\0\0\0\x17\xff\xff\xff\xff";
/// Transaction 7, which ends at 0x128, and transaction 8, which ends at 0x228. Only 7 was yielded earlier.
const XIDS: [u8; 2] = [7, 8];

fn end_of(xid: u8) -> u64 {
    if xid == 7 { 0x128 } else { 0x228 }
}

fn bytes(positions: &[u64]) -> Vec<u8> {
    positions
        .iter()
        .flat_map(|position| position.to_be_bytes())
        .collect()
}

fn prepared(tag: &[u8], xid: u8) -> Vec<u8> {
    let end = end_of(xid);
    let gid: &[u8] = &[0, 0, 0, xid, b'x', 0];
    [tag, &bytes(&[end - 1, end, 0]), gid].concat()
}

fn begin(xid: u8) -> Vec<u8> {
    [b"B", &*bytes(&[end_of(xid) - 0x28, 0]), &[0, 0, 0, xid]].concat()
}

fn commit(xid: u8) -> Vec<u8> {
    [b"C\0", &*bytes(&[end_of(xid) - 1, end_of(xid), 0])].concat()
}

fn stream_commit(xid: u8) -> Vec<u8> {
    let positions = bytes(&[end_of(xid) - 1, end_of(xid), 0]);
    [b"c", &[0, 0, 0, xid, 0][..], &positions].concat()
}

/// A message of a transaction's content. In a part, the transaction's id comes after its tag.
fn content(tag: u8, rest: &[u8], xid: u8, is_part: bool) -> Vec<u8> {
    let id: &[u8] = if is_part { &[0, 0, 0, xid] } else { &[] };
    [&[tag], id, rest].concat()
}

/// The messages that lead from the outside to each place.
fn places() -> Vec<(char, u8, Vec<Vec<u8>>)> {
    let inside = XIDS.into_iter().flat_map(|xid| {
        let start = [b"S", &[0, 0, 0, xid, 1][..]].concat();
        [
            ('t', Vec::from([begin(xid)])),
            ('p', Vec::from([prepared(b"b", xid)])),
            ('s', Vec::from([start])),
        ]
        .map(|(letter, messages)| {
            let known = letter.to_ascii_uppercase();
            (if xid == 7 { known } else { letter }, xid, messages)
        })
    });
    let mut places = Vec::from([('o', 8, Vec::new())]);
    places.extend(inside);
    places
}

/// Each message, and the place to which it leads from each place: outside, then a transaction, a prepared one and a
/// part that were yielded earlier, then those that were not.
fn table(xid: u8, is_part: bool) -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let row = b"\0\x01t\0\0\0\x011";
    let of_users = |more: &[u8]| [b"\0\0\x40\x01", more, row].concat();
    let content = |tag, rest: &[u8]| content(tag, rest, xid, is_part);
    let logical = |flags| {
        let rest = [&[flags], &*bytes(&[0x99]), b"p\0\0\0\0\x01x"].concat();
        content(b'M', &rest)
    };
    Vec::from([
        ("Begin", begin(8), "txxxxxx"),
        ("BeginPrepare", prepared(b"b", 8), "pxxxxxx"),
        ("StreamStart", b"S\0\0\0\x08\x01".to_vec(), "sxxxxxx"),
        ("StreamCommit", stream_commit(8), "oxxxxxx"),
        ("StreamPrepare", prepared(b"p\0", 8), "oxxxxxx"),
        ("StreamAbort", b"A\0\0\0\x08\0\0\0\x08".to_vec(), "oxxxxxx"),
        ("CommitPrepared", prepared(b"K\0", 8), "oxxxxxx"),
        (
            "RollbackPrepared",
            [b"r\0", &*bytes(&[1, 0x228, 0, 0]), b"\0\0\0\x08x\0"].concat(),
            "oxxxxxx",
        ),
        ("Commit", commit(xid), "xoxxoxx"),
        ("Prepare", prepared(b"P\0", xid), "xxoxxox"),
        ("StreamStop", b"E".to_vec(), "xxxoxxo"),
        (
            "Origin",
            [b"O", &*bytes(&[0]), b"far\0"].concat(),
            "xTPStps",
        ),
        ("Relation", content(b'R', ONE_COLUMN), "xTPStps"),
        ("Type", content(b'Y', b"\0\0\x40\x02app\0mood\0"), "xTPStps"),
        ("Insert", content(b'I', &of_users(b"N")), "xTPStps"),
        ("Update", content(b'U', &of_users(b"N")), "xTPStps"),
        ("Delete", content(b'D', &of_users(b"K")), "xTPStps"),
        (
            "Truncate",
            content(b'T', b"\0\0\0\x01\0\0\0\x40\x01"),
            "xTPStps",
        ),
        ("Message", logical(1), "xTPStps"),
        // The server sends it at once, between transactions. Inside it does no harm.
        ("Message, not transactional", logical(0), "oTPStps"),
    ])
}

fn receive(changes: &mut Changes, message: &[u8]) -> Result<(), &'static str> {
    let data = [b"w", &*bytes(&[0x10, 0x20, 0]), message].concat();
    let outcome = changes.receive(&data);
    outcome.map(|_| ()).map_err(|failure| failure.reason.code)
}

/// A stream on its second connection, which knows a table and transaction 7.
fn stream(options: Options) -> Changes {
    let mut changes = Changes::new(options);
    let relation = [b"R", ONE_COLUMN].concat();
    let prepare = prepared(b"P\0", 7);
    for message in [prepared(b"b", 7), relation, prepare, begin(7), commit(7)] {
        receive(&mut changes, &message).unwrap();
    }
    changes.restart(0x128);
    taken(&mut changes);
    changes
}

fn taken(changes: &mut Changes) {
    changes.seal(0);
    changes.output_taken(0);
}

fn letter(place: Place) -> char {
    let letter = match place {
        Place::Outside => 'o',
        Place::Transaction(_) => 't',
        Place::Prepared(_) => 'p',
        Place::Part(_) => 's',
    };
    match place.is_known() {
        true => letter.to_ascii_uppercase(),
        false => letter,
    }
}

/// In each form of output, with and without parts of open transactions.
fn forms() -> impl Iterator<Item = Options> {
    let forms = [(false, false), (false, true), (true, false), (true, true)];
    forms.into_iter().map(|(objects, streams)| Options {
        objects,
        streams,
        ..Options::default()
    })
}

#[test]
fn each_place_meets_each_message() {
    for options in forms() {
        for (at, (from, xid, lead)) in places().into_iter().enumerate() {
            let is_part = from.eq_ignore_ascii_case(&'s');
            if is_part && !options.streams {
                continue;
            }
            for (name, message, expected) in table(xid, is_part) {
                let mut changes = stream(options);
                for message in &lead {
                    receive(&mut changes, message).unwrap();
                }
                assert_eq!(letter(changes.place), from);
                taken(&mut changes);
                // PostgreSQL 18 sends StreamAbort without being asked.
                let is_of_parts = name.starts_with("Stream") && name != "StreamAbort";
                let is_unasked = is_of_parts && !options.streams;
                let expected = match expected.chars().nth(at) {
                    Some(letter) if !is_unasked => letter,
                    _ => 'x',
                };
                let led = match receive(&mut changes, &message) {
                    Ok(()) => letter(changes.place),
                    Err(code) => {
                        assert_eq!(code, "UNEXPECTED_MESSAGE", "{name} in {from}");
                        assert!(!changes.has_output(), "{name} in {from}");
                        'x'
                    }
                };
                assert_eq!(led, expected, "{name} in {from} with {options:?}");
                // Of transaction 8 nothing was yielded.
                assert!(name != "StreamAbort" || !changes.has_output());
                let is_dropped = from.is_ascii_uppercase();
                assert!(!is_dropped || !changes.has_output(), "{name} in {from}");
            }
        }
    }
}
