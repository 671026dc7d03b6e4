//! Whatever a server sends, there is no panic, every line of JSON is whole, and the result does not depend on the
//! pieces.

use super::*;
use proptest::prelude::*;

/// A transaction with a table, rows, a message; a part of another one; keepalives.
fn stream() -> Vec<Vec<u8>> {
    let head = [0x10_u64, 0x20, 0].map(u64::to_be_bytes).concat();
    let data = |parts: &[&[u8]]| message(b'd', &[b"w", &*head, &parts.concat()].concat());
    let [seven, eight, nine] = [7, 8, 9].map(|xid| [0, 0, 0, xid]);
    let [one, two] = [1_u64, 2].map(u64::to_be_bytes);
    Vec::from([
        data(&[b"B", &two, &one, &nine]),
        data(&[b"R\0\0\x40\x01app\0users\0d\0\x02\x01id\0\0\0\0\x17\xff\xff\xff\xff\0name\0\0\0\0\x19\xff\xff\xff\xff"]),
        data(&[b"I\0\0\x40\x01N\0\x02b\0\0\0\x04\0\0\0\x01t\0\0\0\x03Ann"]),
        data(&[b"U\0\0\x40\x01K\0\x02t\0\0\0\x011nN\0\x02t\0\0\0\x012u"]),
        data(&[b"D\0\0\x40\x01K\0\x02t\0\0\0\x012n"]),
        data(&[b"T\0\0\0\x01\x03\0\0\x40\x01"]),
        logical(),
        data(&[b"C\0", &one, &two, &one]),
        data(&[b"S", &eight, b"\x01"]),
        data(&[b"M", &eight, b"\x01", &one, b"p\0\0\0\0\x01x"]),
        data(&[b"E"]),
        data(&[b"c", &eight, b"\0", &one, &two, &one]),
        data(&[b"A", &seven, &seven]),
        keepalive(1),
    ])
}

/// Messages of a stream, some with a changed byte, some cut off, and random bytes.
fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    let sample = || prop::sample::select(stream());
    // Most messages have a place only inside. The samples begin with a transaction of eight.
    let inside = |from: usize, to: usize| {
        let all = stream();
        let (first, last) = (all[from].clone(), all[to].clone());
        let content = all[from + 1..to].to_vec();
        prop::sample::subsequence(content, 0..to - from)
            .prop_map(move |content| [first.clone(), content.concat(), last.clone()].concat())
    };
    let spoilt =
        (sample(), any::<prop::sample::Index>(), any::<u8>()).prop_map(|(mut bytes, at, byte)| {
            let at = at.index(bytes.len());
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
            bytes
        });
    let changed =
        (sample(), prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(bytes, other)| {
            message(
                b'd',
                &[bytes.get(5..30).unwrap_or_default(), &other].concat(),
            )
        });
    prop_oneof![
        3 => inside(0, 7),
        2 => inside(8, 10),
        2 => sample(),
        3 => spoilt,
        2 => changed,
        1 => prop::collection::vec(any::<u8>(), 0..20),
    ]
}

/// All lines of the stream, and why it failed.
fn read(bytes: &[u8], piece: usize) -> (Vec<u8>, String) {
    let mut lines = Vec::new();
    let failure = read_into(streaming(), bytes, piece, |piece| {
        lines.extend_from_slice(piece)
    });
    (lines, failure)
}

/// Reads all of `bytes` in pieces, and takes all changes. Returns why it failed.
fn read_into(
    mut replication: Replication,
    bytes: &[u8],
    piece: usize,
    mut take: impl FnMut(&[u8]),
) -> String {
    for chunk in bytes.chunks(piece.max(1)) {
        let mut happened = receive(&mut replication, chunk);
        // The types stay unknown: reading continues without them.
        while happened & status::TYPES_WANTED != 0 {
            replication.take_wanted_types();
            happened = replication.received(0);
        }
        if replication.seal() > 0 {
            take(replication.changes());
        }
        replication.changes_taken();
        replication.update_status(1, 0, false);
    }
    replication.failure()
}

/// The same connection, whose changes become objects.
fn streaming_objects() -> Replication {
    let options = Options {
        objects: true,
        streams: true,
        ..Options::default()
    };
    start_streaming(Replication::new(1 << 20, options))
}

/// The number of heads in a batch. Checks that its parts are as long as it says, and that its JSON can be parsed.
fn heads_of(batch: &[u8]) -> u32 {
    let (parts, tail) = batch.split_at(batch.len() - 12);
    let (numbers, _) = tail.as_chunks();
    let [count, text, json] = [0, 1, 2].map(|index| u32::from_le_bytes(numbers[index]));
    let (_, json) = parts.split_at(parts.len() - json as usize);
    assert!(parts.len() >= 8 + 32 * count as usize + text as usize + json.len());
    if !json.is_empty() {
        let json: serde_json::Value = serde_json::from_str(&String::from_utf8_lossy(json)).unwrap();
        assert!(json.is_array());
    }
    count
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn lines_are_whole_and_the_same_in_all_pieces(parts in prop::collection::vec(any_bytes(), 0..12), piece in 1_usize..40) {
        let bytes = parts.concat();
        let whole = read(&bytes, usize::MAX);
        prop_assert_eq!(&read(&bytes, piece), &whole);
        let (lines, _) = whole;
        prop_assert!(lines.is_empty() || lines.ends_with(b"\n"));
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            // Bytes that are not UTF-8, as in a database in SQL_ASCII, stay unchanged, as in rows.
            let value: serde_json::Value = serde_json::from_str(&String::from_utf8_lossy(line)).unwrap();
            prop_assert!(value.get("kind").is_some_and(|kind| kind.is_string()));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn batches_are_whole_and_count_the_same_in_all_pieces(parts in prop::collection::vec(any_bytes(), 0..12), piece in 1_usize..40) {
        let bytes = parts.concat();
        let read = |piece| {
            let mut heads = 0;
            let failure = read_into(streaming_objects(), &bytes, piece, |batch| heads += heads_of(batch));
            (heads, failure)
        };
        prop_assert_eq!(read(piece), read(usize::MAX));
    }
}

/// The samples themselves can be read; otherwise the property would hold trivially.
#[test]
fn the_samples_are_a_stream() {
    let (lines, failure) = read(&stream().concat(), usize::MAX);
    assert_eq!(failure, "");
    // StreamAbort is dropped, because nothing of its transaction was yielded.
    assert_eq!(lines.iter().filter(|byte| **byte == b'\n').count(), 11);
}
