mod again;
mod walk;

use super::*;
use alloc::string::String;

const AT: u64 = 0;

/// A stream of changes, with the log as a server would send it.
struct Stream {
    changes: Changes,
    start: u64,
}

impl Stream {
    fn new() -> Stream {
        Stream::with(Options::default())
    }

    /// Parts of open transactions are asked for.
    fn of_parts() -> Stream {
        Stream::with(Options {
            streams: true,
            ..Options::default()
        })
    }

    fn with(options: Options) -> Stream {
        Stream {
            changes: Changes::new(options),
            start: 0x10,
        }
    }

    fn try_receive(&mut self, parts: &[&[u8]]) -> Result<Option<Keepalive>, Failure> {
        self.start += 1;
        let head = [self.start, self.start + 0x100, AT]
            .map(u64::to_be_bytes)
            .concat();
        self.changes
            .receive(&[b"w", &*head, &parts.concat()].concat())
    }

    fn receive(&mut self, parts: &[&[u8]]) -> &mut Stream {
        assert_eq!(self.try_receive(parts), Ok(None));
        self
    }

    fn begin(&mut self, xid: u8, final_position: u64) -> &mut Stream {
        self.receive(&[
            b"B",
            &final_position.to_be_bytes(),
            &AT.to_be_bytes(),
            &[0, 0, 0, xid],
        ])
    }

    fn commit(&mut self, end_position: u64) -> &mut Stream {
        let positions = [end_position - 1, end_position, AT]
            .map(u64::to_be_bytes)
            .concat();
        self.receive(&[b"C\0", &positions])
    }

    /// Table `app.users` with `id int4` as its key and `full_name text`. The server gives no position for it.
    fn users(&mut self) -> &mut Stream {
        let message = [b"w", &[0; 24][..], b"R", USERS].concat();
        assert_eq!(self.changes.receive(&message), Ok(None));
        self
    }

    fn lines(&mut self) -> String {
        let lines = String::from_utf8(self.changes.output().to_vec()).unwrap();
        self.changes.output_taken(1 << 16);
        lines
    }
}

const USERS: &[u8] = b"\0\0\x40\x01app\0users\0d\0\x02\
    \x01id\0\0\0\0\x17\xff\xff\xff\xff\0full_name\0\0\0\0\x19\xff\xff\xff\xff";
/// `id` 1 in binary, `full_name` as text.
const ANN: &[u8] = b"\0\x02b\0\0\0\x04\0\0\0\x01t\0\0\0\x03Ann";
/// Only the key.
const KEY: &[u8] = b"\0\x02b\0\0\0\x04\0\0\0\x01n";

#[test]
fn a_transaction_is_its_lines() {
    let mut stream = Stream::new();
    stream.begin(7, 0x100).users();
    stream.receive(&[b"I\0\0\x40\x01N", ANN]);
    stream.receive(&[b"U\0\0\x40\x01K", KEY, b"N\0\x02b\0\0\0\x04\0\0\0\x02u"]);
    stream.receive(&[b"D\0\0\x40\x01K", KEY]);
    stream.receive(&[b"T\0\0\0\x01\x01\0\0\x40\x01"]);
    stream.commit(0x128);
    assert_eq!(
        stream.lines(),
        r#"{"kind":"begin","position":"0/100","xid":7,"committedAt":"2000-01-01T00:00:00+00:00"}
{"kind":"schema","position":"0/100","xid":7,"schema":"app","table":"users","oid":16385,"replicaIdentity":"default","columns":[{"name":"id","typeOid":23,"typeModifier":-1,"key":true},{"name":"full_name","typeOid":25,"typeModifier":-1,"key":false}]}
{"kind":"insert","position":"0/12","xid":7,"schema":"app","table":"users","new":{"id":1,"full_name":"Ann"}}
{"kind":"update","position":"0/13","xid":7,"schema":"app","table":"users","old":{"id":1},"new":{"id":2},"unchanged":["full_name"]}
{"kind":"delete","position":"0/14","xid":7,"schema":"app","table":"users","old":{"id":1}}
{"kind":"truncate","position":"0/15","xid":7,"tables":[{"schema":"app","table":"users"}],"cascade":true,"restartIdentity":false}
{"kind":"commit","position":"0/128","xid":7,"committedAt":"2000-01-01T00:00:00+00:00"}
"#
    );
    assert_eq!(stream.changes.committed(), 0x128);
    assert!(stream.changes.is_outside());
}

#[test]
fn a_full_replica_identity_gives_the_whole_old_row() {
    let mut stream = Stream::new();
    stream.begin(7, 0x100).users().lines();
    stream.receive(&[b"D\0\0\x40\x01O", ANN]);
    let lines = stream.lines();
    assert!(
        lines.ends_with("\"old\":{\"id\":1,\"full_name\":\"Ann\"}}\n"),
        "{lines}"
    );
}

#[test]
fn an_origin_is_a_member_of_the_begin() {
    let mut stream = Stream::new();
    stream.begin(7, 0x100);
    stream.receive(&[b"O", &[0; 8], b"node \"b\"\0"]);
    stream.commit(0x128);
    let lines = stream.lines();
    let (begin, _) = lines.split_once('\n').unwrap();
    assert!(begin.ends_with(r#","origin":"node \"b\""}"#), "{begin}");
}

#[test]
fn a_table_is_described_once_and_again_when_it_has_changed() {
    let mut stream = Stream::new();
    stream.begin(7, 0x100).users().lines();
    assert_eq!(stream.users().lines(), "");
    stream.commit(0x128).lines();
    stream.changes.restart(0);
    let lines = stream.begin(8, 0x200).users().lines();
    assert_eq!(
        lines.matches("schema").count(),
        0,
        "a new connection describes the same table"
    );
    stream.receive(&[b"R\0\0\x40\x01app\0users\0f\0\x01\x01id\0\0\0\0\x17\xff\xff\xff\xff"]);
    assert!(stream.lines().contains("\"replicaIdentity\":\"full\""));
}

#[test]
fn a_table_that_takes_its_name_back_is_described_again() {
    let mut stream = Stream::new();
    stream.begin(7, 0x100).users().lines();
    let another = [b"R\0\0\x40\x02", &USERS[4..]].concat();
    stream.receive(&[&another]);
    assert!(stream.lines().contains("\"oid\":16386"));
    assert!(stream.users().lines().contains("\"oid\":16385"));
    assert_eq!(stream.users().lines(), "");
}

#[test]
fn messages_are_text_or_bytes_and_may_be_outside_of_a_transaction() {
    let mut stream = Stream::new();
    stream.receive(&[b"M\0", &0x99_u64.to_be_bytes(), b"app\0\0\0\0\x02hi"]);
    stream.receive(&[b"M\0", &0x99_u64.to_be_bytes(), b"app\0\0\0\0\x01\xff"]);
    assert_eq!(
        stream.lines(),
        concat!(
            r#"{"kind":"message","position":"0/99","transactional":false,"prefix":"app","content":"hi"}"#,
            "\n",
            r#"{"kind":"message","position":"0/99","transactional":false,"prefix":"app","bytes":"\\xff"}"#,
            "\n"
        )
    );
}

#[test]
fn parts_of_a_transaction_say_which_and_whether_they_are_rolled_back() {
    let mut stream = Stream::of_parts();
    stream.receive(&[b"S\0\0\0\x07\x01"]);
    stream.receive(&[b"R\0\0\0\x07", USERS]);
    stream.receive(&[b"I\0\0\0\x08\0\0\x40\x01N", ANN]);
    stream.receive(&[b"E"]);
    stream.receive(&[b"A\0\0\0\x07\0\0\0\x08"]);
    stream.receive(&[
        b"c\0\0\0\x07\0",
        &[0x127_u64, 0x128, AT].map(u64::to_be_bytes).concat(),
    ]);
    let lines = stream.lines();
    let heads: Vec<_> = lines
        .lines()
        .map(|line| line.split(",\"schema\"").next().unwrap())
        .collect();
    assert_eq!(
        heads,
        [
            r#"{"kind":"stream","position":"0/11","xid":7,"first":true}"#,
            r#"{"kind":"schema","position":"0/12","xid":7"#,
            r#"{"kind":"insert","position":"0/13","xid":7,"subxid":8"#,
            r#"{"kind":"abort","position":"0/15","xid":7,"subxid":8}"#,
            r#"{"kind":"commit","position":"0/128","xid":7,"committedAt":"2000-01-01T00:00:00+00:00"}"#,
        ]
    );
}

#[test]
fn two_phase_commit_has_its_own_kinds() {
    let mut stream = Stream::new();
    let prepared = [
        &[0x127_u64, 0x128, AT].map(u64::to_be_bytes).concat()[..],
        b"\0\0\0\x07tx\0",
    ]
    .concat();
    stream
        .receive(&[b"b", &prepared])
        .receive(&[b"P\0", &prepared])
        .receive(&[b"K\0", &prepared]);
    let rolled_back = [
        &[1, 0x130, AT, AT].map(u64::to_be_bytes).concat()[..],
        b"\0\0\0\x07tx\0",
    ]
    .concat();
    stream.receive(&[b"r\0", &rolled_back]);
    assert_eq!(
        stream.lines(),
        r#"{"kind":"beginPrepare","position":"0/127","xid":7,"gid":"tx"}
{"kind":"prepare","position":"0/128","xid":7,"gid":"tx","at":"2000-01-01T00:00:00+00:00"}
{"kind":"commitPrepared","position":"0/128","xid":7,"gid":"tx","at":"2000-01-01T00:00:00+00:00"}
{"kind":"rollbackPrepared","position":"0/130","xid":7,"gid":"tx","at":"2000-01-01T00:00:00+00:00"}
"#
    );
}

#[test]
fn names_and_numbers_are_as_the_options_say() {
    let strings = AsStrings {
        int8: true,
        ..AsStrings::NONE
    };
    let mut stream = Stream::with(Options {
        strings,
        camel_case: true,
        ..Options::default()
    });
    stream.begin(7, 0x100).lines();
    stream.receive(&[b"R\0\0\x40\x01app\0t\0d\0\x01\x01order_id\0\0\0\0\x14\xff\xff\xff\xff"]);
    stream.receive(&[b"I\0\0\x40\x01N\0\x01t\0\0\0\x019"]);
    stream.receive(&[b"I\0\0\x40\x01N\0\x01b\0\0\0\x08\0\0\0\0\0\0\0\x09"]);
    let lines = stream.lines();
    assert!(lines.contains(r#""name":"orderId""#), "{lines}");
    assert_eq!(
        lines.matches(r#""new":{"orderId":"9"}"#).count(),
        2,
        "{lines}"
    );
}

#[test]
fn types_of_the_database_are_read_once_they_are_known() {
    let mut stream = Stream::new();
    stream.begin(7, 0x100);
    // 16400 is an array of the enum 16399.
    stream
        .receive(&[b"R\0\0\x40\x01app\0t\0d\0\x01\0moods\0\0\0\x40\x10\xff\xff\xff\xff"])
        .lines();
    let insert: [&[u8]; 1] = [b"I\0\0\x40\x01N\0\x01t\0\0\0\x06{calm}"];
    assert!(
        stream
            .receive(&insert)
            .lines()
            .contains(r#""new":{"moods":"{calm}"}"#)
    );
    let types = [16_399, 0, 25, 0, 16_400, 1, 16_399, 0];
    stream.changes.define_types(Types::new(&types, &[], ""));
    let lines = stream.receive(&insert).lines();
    assert!(lines.contains(r#""new":{"moods":["calm"]}"#), "{lines}");
}

#[test]
fn a_keepalive_says_where_the_log_ends_and_whether_an_answer_is_due() {
    let mut stream = Stream::new();
    let keepalive = [
        b"k",
        &0x500_u64.to_be_bytes()[..],
        &AT.to_be_bytes(),
        b"\x01",
    ]
    .concat();
    let said = Keepalive {
        end: 0x500,
        wants_status: true,
    };
    assert_eq!(stream.changes.receive(&keepalive), Ok(Some(said)));
    assert_eq!(stream.changes.end(), 0x500);
}

#[test]
fn a_status_update_is_a_copy_data() {
    let mut buffer = Vec::new();
    status_update(&mut buffer, 0x128, 5, true);
    let expected = [
        b"d\0\0\0\x26r",
        &[0x128_u64, 0x128, 0x128, 5].map(u64::to_be_bytes).concat()[..],
        b"\x01",
    ];
    assert_eq!(buffer, expected.concat());
}

#[test]
fn what_is_wrong_is_told_and_leaves_no_half_line() {
    for (wrong, code) in [
        (&[&b"I\0\0\x40\x09N"[..], ANN][..], "PROTOCOL_VIOLATION"),
        (&[&b"I\0\0\x40\x01N\0\x01n"[..]][..], "PROTOCOL_VIOLATION"),
        (
            &[&b"I\0\0\x40\x01N\0\x02b\0\0\0\x01xn"[..]][..],
            "INVALID_VALUE",
        ),
        (
            &[&b"I\0\0\x40\x01N\0\x02t\0\0\0\x03abcn"[..]][..],
            "INVALID_VALUE",
        ),
        (&[&b"?"[..]][..], "PROTOCOL_VIOLATION"),
        (
            &[&b"B\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\x08"[..]][..],
            "UNEXPECTED_MESSAGE",
        ),
    ] {
        let mut stream = Stream::new();
        stream.begin(7, 0x100).users().lines();
        let failure = stream.try_receive(wrong).unwrap_err();
        assert_eq!(failure.reason.code, code, "{failure:?}");
        assert_eq!(stream.lines(), "", "{failure:?}");
    }
    let mut stream = Stream::new();
    for wrong in [&b""[..], b"x", b"w\0", b"k\0"] {
        assert_eq!(
            stream.changes.receive(wrong).unwrap_err().reason.code,
            "PROTOCOL_VIOLATION"
        );
    }
}

/// The table of [`USERS`], as a snapshot describes it.
const USERS_NOW: Table<'_> = Table {
    oid: 0x4001,
    replica_identity: b'd',
    names: "app\0users\0id\0full_name\0",
    columns: &[[1, 23, u32::MAX], [0, 25, u32::MAX]],
};

#[test]
fn rows_of_a_snapshot_are_inserts_in_front_of_it() {
    let mut stream = Stream::new();
    stream.changes.snapshot_table(USERS_NOW, 0x100).unwrap();
    stream.changes.snapshot_row(0x4001, b"1\t\\N\n").unwrap();
    stream.changes.snapshot_over(0x100);
    let place = r#""position":"0/100","schema":"app","table":"users""#;
    let lines = stream.lines();
    let lines: Vec<_> = lines.lines().collect();
    assert!(lines[0].starts_with(&alloc::format!(r#"{{"kind":"schema",{place},"oid":16385"#)));
    assert_eq!(
        lines[1..],
        [
            alloc::format!(r#"{{"kind":"insert",{place},"new":{{"id":1,"full_name":null}}}}"#),
            r#"{"kind":"snapshot","position":"0/100"}"#.into(),
        ]
    );
    assert_eq!(stream.changes.committed(), 0x100);
    // The server describes the same table, which is reported only once.
    stream.begin(7, 0x200).users();
    assert_eq!(stream.lines().lines().count(), 1);
}

#[test]
fn a_row_of_a_snapshot_that_cannot_be_read_leaves_no_line() {
    let mut stream = Stream::new();
    stream.changes.snapshot_table(USERS_NOW, 0x100).unwrap();
    stream.lines();
    for (oid, row) in [
        (0x4001, b"1\n".as_slice()),
        (0x4001, b"1\ta\tb\n"),
        (0x4001, b"1\ta"),
        (0x4001, b"1\t\\x\n"),
        (0x4002, b"\n"),
    ] {
        assert!(stream.changes.snapshot_row(oid, row).is_err(), "{row:?}");
        assert_eq!(stream.lines(), "");
    }
}
