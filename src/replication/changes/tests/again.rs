//! What the server sends again on the next connection, because its commit was not acknowledged.

use super::*;

const INSERT: [&[u8]; 2] = [b"I\0\0\x40\x01N", ANN];

impl Stream {
    fn prepared(&mut self, tag: &[u8], xid: u8, end_position: u64) -> &mut Stream {
        let positions = [end_position - 1, end_position, AT];
        self.receive(&[tag, &of(&positions), &[0, 0, 0, xid], b"tx\0"])
    }

    fn rolled_back(&mut self, xid: u8, end_position: u64) -> &mut Stream {
        let positions = [1, end_position, AT, AT];
        self.receive(&[b"r\0", &of(&positions), &[0, 0, 0, xid], b"tx\0"])
    }

    fn insert(&mut self) -> &mut Stream {
        self.receive(&INSERT)
    }

    /// A part with one row.
    fn part(&mut self, xid: u8, is_first: bool) -> &mut Stream {
        let id = [0, 0, 0, xid];
        self.receive(&[b"S", &id, &[is_first.into()]])
            .receive(&[b"R", &id, USERS])
            .receive(&[b"I", &id, b"\0\0\x40\x01N", ANN])
            .receive(&[b"E"])
    }

    fn stream_commit(&mut self, xid: u8, end_position: u64) -> &mut Stream {
        let positions = of(&[end_position - 1, end_position, AT]);
        self.receive(&[b"c", &[0, 0, 0, xid, 0], &positions])
    }

    fn abort(&mut self, xid: u8, subxid: u8) -> &mut Stream {
        self.receive(&[b"A", &[0, 0, 0, xid], &[0, 0, 0, subxid]])
    }

    /// The next connection. All commits so far were yielded.
    fn restart(&mut self) -> &mut Stream {
        let committed = self.changes.committed();
        self.changes.restart(committed);
        self
    }

    /// The kinds of the changes so far.
    fn kinds(&mut self) -> String {
        self.changes.seal(0);
        let output = self.changes.output().to_vec();
        self.changes.output_taken(0);
        let text = String::from_utf8_lossy(&output);
        let mut lines = text.split("{\"kind\":\"").skip(1).map(|line| {
            let (kind, _) = line.split_once('"').unwrap();
            kind
        });
        let kinds: Vec<_> = match self.changes.batch {
            None => lines.collect(),
            Some(_) => heads(&output)
                .filter_map(|kind| match kind {
                    kind::COLUMNS => None,
                    kind::BEGIN => Some("begin"),
                    kind::COMMIT => Some("commit"),
                    kind::INSERT => Some("insert"),
                    _ => lines.next(),
                })
                .collect(),
        };
        kinds.join(" ")
    }
}

/// The kinds of a batch's heads.
fn heads(batch: &[u8]) -> impl Iterator<Item = u32> {
    let number = |at: usize| u32::from_le_bytes(*batch[at..].first_chunk().unwrap());
    let count = if batch.is_empty() {
        0
    } else {
        number(batch.len() - 12)
    };
    (0..count as usize).map(move |head| number(8 + 32 * head))
}

fn of(positions: &[u64]) -> Vec<u8> {
    let bytes = positions.iter().map(|position| position.to_be_bytes());
    bytes.collect::<Vec<_>>().concat()
}

/// With lines and with objects.
fn both() -> [Stream; 2] {
    [false, true].map(|objects| {
        Stream::with(Options {
            objects,
            streams: true,
            ..Options::default()
        })
    })
}

#[test]
fn what_was_yielded_whole_is_not_yielded_again() {
    for mut stream in both() {
        stream.begin(7, 0x100).users().insert().commit(0x128);
        stream.begin(8, 0x200).insert().commit(0x228).kinds();
        stream.restart();
        stream.begin(7, 0x100).users().insert().commit(0x128);
        stream.begin(8, 0x200).insert().commit(0x228);
        assert_eq!(stream.kinds(), "");
        assert_eq!(stream.changes.committed(), 0x228);
        // Its commit record begins where the last one has ended.
        stream.begin(9, 0x228).insert().commit(0x250);
        assert_eq!(stream.kinds(), "begin insert commit");
    }
}

/// The position of a restart is where the last yielded commit has ended. A commit record that ends there is known, and
/// one that ends a byte later is not.
#[test]
fn a_restart_cuts_between_two_positions() {
    for (end_position, is_yielded) in [(0x127, false), (0x128, false), (0x129, true)] {
        for mut stream in both() {
            stream.changes.restart(0x128);
            let begins = if is_yielded { 0x128 } else { 0x100 };
            stream
                .begin(7, begins)
                .users()
                .insert()
                .commit(end_position);
            assert_eq!(stream.kinds() != "", is_yielded, "{end_position:#x}");
        }
    }
}

#[test]
fn a_transaction_that_broke_off_begins_again() {
    for mut stream in both() {
        stream.begin(7, 0x100).users().kinds();
        stream.restart();
        stream.begin(7, 0x100).users().insert().commit(0x128);
        assert_eq!(stream.kinds(), "begin insert commit");
    }
}

#[test]
fn parts_that_were_yielded_to_their_commit_are_not_yielded_again() {
    for mut stream in both() {
        stream.part(7, true).part(7, false).stream_commit(7, 0x128);
        assert_eq!(stream.kinds(), "stream schema insert stream insert commit");
        for _ in 0..2 {
            stream.restart().part(7, true).abort(7, 9).part(7, false);
            stream.stream_commit(7, 0x128);
            assert_eq!(stream.kinds(), "");
            assert_eq!(stream.changes.committed(), 0x128);
        }
    }
}

/// A server whose memory is used by other transactions decides otherwise.
#[test]
fn what_comes_again_may_be_whole_that_was_in_parts_and_the_reverse() {
    for mut stream in both() {
        stream.part(7, true).stream_commit(7, 0x128);
        stream.begin(8, 0x200).insert().commit(0x228).kinds();
        stream.restart().begin(7, 0x100).insert().commit(0x128);
        stream.part(8, true).stream_commit(8, 0x228);
        assert_eq!(stream.kinds(), "");
    }
}

/// The server sends it again from its first part, or whole, or not at all if it was rolled back meanwhile.
#[test]
fn parts_without_an_end_are_taken_back() {
    for mut stream in both() {
        stream.part(7, true).part(8, true).part(9, true).abort(8, 8);
        stream.stream_commit(9, 0x128).kinds();
        stream.restart();
        assert_eq!(stream.kinds(), "abort");
        stream.restart().part(7, true).stream_commit(7, 0x228);
        assert_eq!(stream.kinds(), "stream insert commit");
    }
    let mut stream = Stream::of_parts();
    stream.part(7, true).lines();
    stream.restart();
    assert_eq!(
        stream.lines(),
        "{\"kind\":\"abort\",\"position\":\"0/13\",\"xid\":7}\n"
    );
}

#[test]
fn what_was_prepared_is_not_yielded_again_and_its_outcome_is_yielded() {
    for (in_parts, ends) in [(false, "commitPrepared"), (true, "rollbackPrepared")] {
        for mut stream in both() {
            let prepare = |stream: &mut Stream| {
                if in_parts {
                    stream.part(7, true).prepared(b"p\0", 7, 0x128);
                } else {
                    stream
                        .prepared(b"b", 7, 0x128)
                        .users()
                        .insert()
                        .prepared(b"P\0", 7, 0x128);
                }
            };
            let end = |stream: &mut Stream| {
                if ends == "commitPrepared" {
                    stream.prepared(b"K\0", 7, 0x228);
                } else {
                    stream.rolled_back(7, 0x228);
                }
            };
            prepare(&mut stream);
            assert!(stream.kinds().ends_with("insert prepare"));
            stream.restart();
            prepare(&mut stream);
            end(&mut stream);
            assert_eq!(stream.kinds(), ends);
            // The prepare was acknowledged, its outcome was not.
            stream.changes.acknowledged(0x128);
            stream.restart();
            prepare(&mut stream);
            end(&mut stream);
            assert_eq!(stream.kinds(), "");
        }
    }
}

/// A transaction that was prepared before its slot was changed to two-phase commit comes at COMMIT PREPARED, with the
/// position of its PREPARE.
#[test]
fn a_prepare_before_what_was_yielded_may_be_new() {
    for mut stream in both() {
        stream
            .begin(8, 0x200)
            .users()
            .insert()
            .commit(0x228)
            .kinds();
        stream.changes.acknowledged(0x228);
        stream.restart();
        for expected in ["beginPrepare insert prepare commitPrepared", ""] {
            stream
                .prepared(b"b", 7, 0x128)
                .insert()
                .prepared(b"P\0", 7, 0x128);
            stream.prepared(b"K\0", 7, 0x328);
            assert_eq!(stream.kinds(), expected);
            stream.restart();
        }
    }
}

/// What is not yielded does not say how a table was described then.
#[test]
fn an_old_description_of_a_table_is_not_yielded_again() {
    let columns = |count: u8| {
        let column = b"\x01id\0\0\0\0\x17\xff\xff\xff\xff".repeat(count.into());
        [b"R\0\0\x40\x01app\0users\0d\0", &[count][..], &column].concat()
    };
    let one: [&[u8]; 1] = [b"I\0\0\x40\x01N\0\x01t\0\0\0\x011"];
    let two: [&[u8]; 1] = [b"I\0\0\x40\x01N\0\x02t\0\0\0\x011t\0\0\0\x012"];
    for mut stream in both() {
        let both_transactions = |stream: &mut Stream| {
            stream
                .begin(7, 0x100)
                .receive(&[&columns(1)])
                .receive(&one)
                .commit(0x128);
            stream
                .begin(8, 0x200)
                .receive(&[&columns(2)])
                .receive(&two)
                .commit(0x228);
        };
        both_transactions(&mut stream);
        assert_eq!(
            stream.kinds(),
            "begin schema insert commit begin schema insert commit"
        );
        stream.restart();
        both_transactions(&mut stream);
        assert_eq!(stream.kinds(), "");
        stream.begin(9, 0x300).receive(&two).commit(0x328);
        assert_eq!(stream.kinds(), "begin insert commit");
        // A later transaction describes its table itself.
        stream.restart().begin(7, 0x100);
        stream.receive(&[&columns(1)]).receive(&one).commit(0x128);
        stream.begin(9, 0x330).receive(&[&columns(2)]);
        stream.receive(&two).commit(0x340);
        assert_eq!(stream.kinds(), "begin insert commit");
        // If a change needs it after all, it is yielded first.
        stream.restart();
        stream
            .begin(9, 0x300)
            .receive(&[&columns(1)])
            .receive(&one)
            .commit(0x328);
        stream.begin(10, 0x400).receive(&one).commit(0x428);
        assert_eq!(stream.kinds(), "begin schema insert commit");
    }
}
