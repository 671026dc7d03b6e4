//! Types with few forms, geometric types, and types without a binary form here.

use super::{all_refused, strings};
use crate::types::tests::{json, text_json};
use crate::types::{AsStrings, Encoder, oid};
use alloc::vec::Vec;

/// Asserts that every text becomes a string of itself.
fn all_read(type_oid: u32, texts: &[&str]) {
    for text in texts {
        strings(type_oid, &[(text, text)]);
    }
}

#[test]
fn uuids() {
    let uuid = "550e8400-e29b-41d4-a716-446655440000";
    all_read(oid::UUID, &[uuid]);
    all_refused(
        oid::UUID,
        &[
            "",
            &uuid.to_uppercase(),
            &uuid.replace('-', ""),
            &uuid[1..],
            &uuid[..35],
            &uuid.replace("00-e2", "0-0e2"),
            &uuid.replace("e2", "g2"),
            &uuid.replace('-', "\""),
            &[uuid, "0"].concat(),
            &[uuid, " "].concat(),
            &["{", uuid, "}"].concat(),
        ],
    );
}

#[test]
fn hardware_addresses() {
    all_read(oid::MACADDR, &["08:00:2b:01:02:03"]);
    all_read(oid::MACADDR8, &["08:00:2b:01:02:03:04:ff"]);
    for (type_oid, texts) in [
        (
            oid::MACADDR,
            ["08:00:2b:01:02:03:04:05", "08-00-2b-01-02-03"],
        ),
        (oid::MACADDR8, ["08:00:2b:01:02:03", "08002b:0102030405"]),
    ] {
        all_refused(type_oid, &texts);
        all_refused(
            type_oid,
            &[
                "",
                "08:00:2B:01:02:03",
                "08:00:2b:01:02:0",
                "8:0:2b:1:2:3",
                "08:00:2g:01:02:03:04:05",
            ],
        );
    }
}

#[test]
fn addresses() {
    all_read(
        oid::INET,
        &[
            "0.0.0.0",
            "255.255.255.255",
            "10.0.0.1/8",
            "0.0.0.0/0",
            "::",
            "::1/0",
            "::1.2.3.4",
            "::ffff:1.2.3.4/120",
            "2001:db8::1:0:0:1",
            "1:0:2:3:4:5:6:7",
            "1:2:3:4:5:6::/127",
        ],
    );
    let neither = [
        "",
        "1",
        "1.2.3",
        "1.2.3.4.5",
        "256.0.0.1",
        "01.2.3.4",
        "1.2.3.4/",
        "1.2.3.4/08",
        "1.2.3.4/33",
        "1.2.3.4/-1",
        "1.2.3.4/256",
        "1.2.3.4/8/8",
        "1.2.3.4 ",
        " 1.2.3.4",
        "1.2.3.4/8 ",
        "/8",
        "a.b.c.d",
        ":",
        ":::",
        "::/129",
        "1::2::3",
        "2001:DB8::/32",
        "02001::/32",
        "::0/64",
        "0:0:0:0:0:0:0:0/64",
        "1:2:3:4:5:6:7::/64",
        "::ffff:102:304/128",
        "1:2:3:4:5:6:7:8:9",
        "fe80::1%eth0",
        "é",
    ];
    all_refused(oid::INET, &neither);
    all_refused(oid::INET, &["1.2.3.4/32", "::1/128"]);
    all_read(
        oid::CIDR,
        &[
            "10.0.0.0/8",
            "10.1.2.3/32",
            "10.1.2.128/25",
            "0.0.0.0/0",
            "::/0",
            "2001:db8::/32",
            "::1/128",
            "::8000:0:0:0/65",
        ],
    );
    all_refused(oid::CIDR, &neither);
    // A network has no bit set after its prefix.
    all_refused(
        oid::CIDR,
        &[
            "10.0.0.0",
            "::",
            "10.0.0.1/8",
            "10.128.0.0/8",
            "10.0.0.1/31",
            "128.0.0.0/0",
            "2001:db8:1::/32",
            "::1/127",
        ],
    );
}

#[test]
fn bit_strings() {
    for type_oid in [oid::BIT, oid::VARBIT] {
        all_read(type_oid, &["", "0", "1", "101101110"]);
        all_refused(type_oid, &["2", "10 1", "x1", "B'1'", "10\""]);
    }
}

#[test]
fn transactions() {
    for type_oid in [oid::XID, oid::CID, oid::XID8] {
        all_read(type_oid, &["0", "7", "4294967295"]);
        all_refused(
            type_oid,
            &[
                "",
                "-1",
                "007",
                "+7",
                "7 ",
                "1.5",
                "1e5",
                "18446744073709551616",
            ],
        );
    }
    all_read(oid::XID8, &["18446744073709551615"]);
    all_refused(oid::XID, &["4294967296"]);
    all_refused(oid::CID, &["4294967296"]);
    all_read(oid::TID, &["(0,0)", "(4294967295,65535)"]);
    all_refused(
        oid::TID,
        &[
            "",
            "0,0",
            "(0,0",
            "(0,0))",
            "(0)",
            "(,)",
            "(0,)",
            "(0;0)",
            "(0, 0)",
            "(-1,0)",
            "(01,0)",
            "(4294967296,0)",
            "(0,65536)",
        ],
    );
}

/// With the zeros of PostgreSQL 19 and without them; the output has none, as from binary.
#[test]
fn log_sequence_numbers() {
    strings(
        oid::PG_LSN,
        &[
            ("0/0", "0/0"),
            ("16/B374D848", "16/B374D848"),
            ("FFFFFFFF/FFFFFFFF", "FFFFFFFF/FFFFFFFF"),
            ("0/00000010", "0/10"),
        ],
    );
    all_refused(
        oid::PG_LSN,
        &[
            "",
            "/",
            "0",
            "0/",
            "/0",
            "0/0/0",
            "16/b374d848",
            "16/+1",
            "G/0",
            "0/000000010",
            "100000000/0",
            "0/0 ",
            "-1/0",
        ],
    );
}

#[test]
fn one_byte() {
    strings(
        oid::CHAR,
        &[
            ("", ""),
            ("x", "x"),
            ("\\", "\\\\"),
            ("\n", "\\n"),
            ("\\200", "\\\\200"),
            ("\\377", "\\\\377"),
        ],
    );
    all_refused(
        oid::CHAR,
        &[
            "xy", "é", "\0", "\\1", "\\177", "\\400", "\\38x", "\\2000", "x200",
        ],
    );
    // Before PostgreSQL 15 a byte of 0x80 or more arrives unescaped.
    let mut out = Vec::new();
    let encoder = Encoder::new(oid::CHAR, 0, AsStrings::NONE).unwrap();
    encoder.encode(&[0xc3], &mut out).unwrap();
    assert_eq!(out, json(oid::CHAR, [0xc3]).as_bytes());
}

#[test]
fn geometry() {
    all_read(oid::POINT, &["(1,2)", "(-0.5,1e+20)", "(NaN,-Infinity)"]);
    all_read(oid::LSEG, &["[(1,2),(3,4)]"]);
    all_read(oid::BOX, &["(3,4),(1,2)"]);
    all_read(
        oid::PATH,
        &["((1,2))", "[(1,2)]", "((1,2),(3,4),(5,6))", "[(1,2),(3,4)]"],
    );
    all_read(oid::POLYGON, &["((1,2))", "((1,2),(3,4))"]);
    all_read(oid::LINE, &["{1,2,3}"]);
    all_read(oid::CIRCLE, &["<(1,2),3>"]);
    for (type_oid, texts) in [
        (
            oid::POINT,
            &["(1,2", "1,2", "(1,2,3)", "[1,2]", "(1,2),(3,4)"][..],
        ),
        (
            oid::LSEG,
            &[
                "[(1,2)]",
                "(1,2),(3,4)",
                "[(1,2),(3,4)",
                "[(1,2),(3,4))",
                "[(1,2),(3,4),(5,6)]",
            ],
        ),
        (
            oid::BOX,
            &["(3,4)", "(3,4)(1,2)", "(3,4);(1,2)", "((3,4),(1,2))"],
        ),
        (
            oid::PATH,
            &[
                "(1,2)", "()", "[]", "((1,2)]", "[(1,2))", "((1,2),)", "{(1,2)}",
            ],
        ),
        (oid::POLYGON, &["(1,2)", "()", "[(1,2)]", "((1,2)(3,4))"]),
        (
            oid::LINE,
            &["{1,2}", "{1,2,3,4}", "(1,2,3)", "{1,2,3", "{1;2;3}"],
        ),
        (
            oid::CIRCLE,
            &["<(1,2)>", "<1,2,3>", "((1,2),3)", "<(1,2),3", "<(1,2),3,4>"],
        ),
    ] {
        all_refused(type_oid, texts);
    }
    let spoil = |text: &str, from, to| text.replacen(from, to, 1);
    for (type_oid, text) in [
        (oid::POINT, "(1,2)"),
        (oid::LSEG, "[(1,2),(3,4)]"),
        (oid::BOX, "(1,2),(3,4)"),
        (oid::PATH, "((1,2),(3,4))"),
        (oid::POLYGON, "((1,2),(3,4))"),
        (oid::LINE, "{1,2,3}"),
        (oid::CIRCLE, "<(1,2),3>"),
    ] {
        for number in ["", "x", "01", "1e999", " 1", "infinity"] {
            all_refused(
                type_oid,
                &[&spoil(text, "1", number), &spoil(text, "2", number)],
            );
            all_refused(type_oid, &[&[text, number, "x"].concat()]);
        }
    }
    all_refused(oid::CIRCLE, &["<(1,2),x>"]);
    all_refused(oid::LINE, &["{1,2,x}"]);
    all_refused(oid::LSEG, &["[(1,2),(x,4)]"]);
}

#[test]
fn vectors() {
    all_read(oid::VECTOR, &["[1]", "[1,2.5,-3]", "[1e-07,3.4028235e+38]"]);
    all_refused(
        oid::VECTOR,
        &[
            "",
            "[",
            "[]",
            "[,]",
            "[1,]",
            "[1 ,2]",
            "1,2",
            "(1,2)",
            "[1,2]]",
            "[NaN]",
            "[Infinity]",
            "[1e+39]",
            "[x]",
        ],
    );
}

/// They pass as text, but are checked.
#[test]
fn types_without_a_binary_form() {
    for type_oid in [oid::PG_SNAPSHOT, oid::TXID_SNAPSHOT] {
        all_read(type_oid, &["10:20:", "10:20:10", "10:20:10,14,15"]);
        all_refused(
            type_oid,
            &[
                "",
                "10",
                "10:20",
                "10:20:,",
                "10:20:10,",
                "10:20:,10",
                "10:20:10;14",
                "a:20:",
                "10:x:",
                "10:20:x",
                "10:20:10:14",
                "-1:20:",
            ],
        );
    }
    all_read(
        oid::MONEY,
        &[
            "$1.00",
            "-$1,234,567.50",
            "1.234,50 €",
            "($92,233,720,368,547,758.08)",
            "0",
        ],
    );
    all_refused(
        oid::MONEY,
        &["", "$", "€", "$1.00\n", "\0", "$123456789012345678901"],
    );
}

/// Any text is valid.
#[test]
fn free_texts() {
    for type_oid in [
        oid::TEXT,
        oid::JSONPATH,
        oid::NAME,
        142,
        3614,
        3615,
        999_999,
    ] {
        for text in ["", "\\", "{", "a'b", "\u{1}é"] {
            let expected = serde_json::to_string(text).unwrap();
            assert_eq!(text_json(type_oid, text), expected);
        }
    }
}
