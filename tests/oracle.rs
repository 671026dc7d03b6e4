//! Compares our JSON with the server's own: the golden values of tests/oracle (its `generate` says how they were made).
//!
//! Two differences are intended and applied here by rule: an oid is a bare number where the server quotes it, and CR
//! and LF between the tokens of a json value are dropped. Any other difference fails.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::{env, fs, io};

use flate2::read::GzDecoder;
use pgz_edge::boundary::slots;
use pgz_edge::encode::columns::Blocks;
use pgz_edge::encode::{ColumnDescription, Output, Plan, RowForm, RowFormat};
use pgz_edge::types::{AsStrings, Encoder, has_binary_encoder, oid};

struct Line {
    type_name: String,
    type_oid: u32,
    binary: Vec<u8>,
    json: String,
    /// The server's text under its default settings, and also under odd settings if that text differs.
    texts: Vec<String>,
}

fn lines() -> Vec<Line> {
    let committed = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/oracle");
    let directory = env::var_os("ORACLE_DIRECTORY").map_or(committed, PathBuf::from);
    let mut files: Vec<PathBuf> = fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "gz"));
    files.sort();
    files
        .iter()
        .flat_map(|path| {
            let packed = fs::File::open(path).unwrap();
            io::read_to_string(GzDecoder::new(packed))
                .unwrap()
                .split_terminator('\n')
                .map(line)
                .collect::<Vec<_>>()
        })
        .collect()
}

fn line(text: &str) -> Line {
    let mut fields = text.split('\t');
    let mut next = || fields.next().expect("five fields");
    let written = |field: &str| {
        field
            .replace('\u{2409}', "\t")
            .replace('\u{240a}', "\n")
            .replace('\u{240d}', "\r")
    };
    Line {
        type_name: next().to_owned(),
        type_oid: next().parse().unwrap(),
        binary: next()
            .as_bytes()
            .chunks(2)
            .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect(),
        json: written(next()),
        texts: [next()].into_iter().chain(fields).map(written).collect(),
    }
}

/// Returns the server's JSON with the two intended differences.
fn decided(line: &Line) -> String {
    match line.type_oid {
        oid::OID | oid::OID_ARRAY | oid::OIDVECTOR => line.json.replace('"', ""),
        oid::JSON | oid::JSON_ARRAY => line.json.replace(['\r', '\n'], ""),
        _ => line.json.clone(),
    }
}

fn encode(encoder: &Encoder, value: &[u8]) -> String {
    let mut out = Vec::new();
    encoder
        .encode(value, &mut out)
        .unwrap_or_else(|error| panic!("{error:?} for {value:x?}"));
    String::from_utf8(out).unwrap()
}

#[test]
fn binary_values_equal_to_json() {
    let mut counts = BTreeMap::<String, usize>::new();
    for line in lines() {
        let encoder = Encoder::new(line.type_oid, 1, AsStrings::NONE).unwrap();
        assert_eq!(
            encode(&encoder, &line.binary),
            decided(&line),
            "{} {:02x?}",
            line.type_name,
            line.binary
        );
        *counts.entry(line.type_name).or_default() += 1;
    }
    for (type_name, count) in &counts {
        println!("{type_name}: {count} values");
        // bool has only two values, and both are there.
        let wanted = if type_name == "bool" { 2 } else { 200 };
        assert!(*count >= wanted, "only {count} values of {type_name}");
    }
    println!(
        "{} values of {} types",
        counts.values().sum::<usize>(),
        counts.len()
    );
    // The vectors are in the files of their elements.
    let is_own = |name: &&String| !name.ends_with("[]") && !name.ends_with("vector");
    let of_types = counts.keys().filter(is_own).count();
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/types.md")).unwrap();
    assert!(
        page.contains(&format!(" of {of_types} built-in types and their arrays")),
        "docs/types.md: say {of_types} built-in types"
    );
    let values: BTreeSet<u32> = lines().iter().map(|line| line.type_oid).collect();
    let has_arrays = |type_oid: u32| {
        let mut arrays = oid::ARRAYS
            .iter()
            .filter(|(_, of)| u32::from(*of) == type_oid);
        arrays.all(|(array, _)| values.contains(&u32::from(*array)))
    };
    for (name, type_oid) in BUILT_IN {
        let wanted = has_binary_encoder(*type_oid) && !WITHOUT_VALUES.contains(name);
        assert!(
            !wanted || values.contains(type_oid) && has_arrays(*type_oid),
            "{name} or its array has no values: add them to tests/oracle/generate"
        );
    }
}

/// Types that are text by another name; a record, which tests/integration compares; and vectors, because arrays of them
/// are not used (the vectors themselves have values, as arrays of their elements).
const WITHOUT_VALUES: &[&str] = &[
    "unknown",
    "refcursor",
    "cstring",
    "record",
    "int2vector",
    "oidvector",
];

/// The server's text, under any settings that we read, gives the same JSON as binary.
#[test]
fn text_values_equal_binary_ones() {
    let json_as_text = AsStrings {
        json: true,
        ..AsStrings::ALL
    };
    let (mut count, mut odd) = (0, BTreeSet::new());
    for line in lines() {
        for strings in [AsStrings::NONE, AsStrings::ALL, json_as_text] {
            let binary = Encoder::new(line.type_oid, 1, strings).unwrap();
            let text = Encoder::new(line.type_oid, 0, strings).unwrap();
            let expected = encode(&binary, &line.binary);
            for one in &line.texts {
                let read = encode(&text, one.as_bytes());
                assert_eq!(read, expected, "{} {one}", line.type_name);
                count += 1;
            }
        }
        if line.texts.len() > 1 {
            odd.insert(line.type_name);
        }
    }
    println!("{count} values in text form; {odd:?} differ by settings");
    // timestamptz, interval, bytea; arrays of these; tstzrange, tstzmultirange and their arrays.
    assert_eq!(odd.len(), 10);
}

/// The same holds for rows in every format, and for JavaScript.
#[test]
fn rows_of_text_equal_binary_ones() {
    let forms = RowFormat::ALL
        .into_iter()
        .filter(|format| *format != RowFormat::Columns)
        .flat_map(|format| {
            [false, true].map(|escape_formulas| RowForm {
                escape_formulas,
                ..format.into()
            })
        });
    let forms: Vec<RowForm> = forms.collect();
    for line in lines() {
        let row = |form: RowForm, format_code, value: &[u8]| {
            let mut out = Vec::new();
            let (plan, body) = row(line.type_oid, form, format_code, value);
            plan.encode_row(&body, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        for form in &forms {
            let expected = row(*form, 1, &line.binary);
            for text in &line.texts {
                let read = row(*form, 0, text.as_bytes());
                assert_eq!(read, expected, "{} {text} {form:?}", line.type_name);
            }
        }
        for strings in [AsStrings::NONE, AsStrings::ALL] {
            let expected = javascript(line.type_oid, strings, 1, &line.binary);
            for text in &line.texts {
                let read = javascript(line.type_oid, strings, 0, text.as_bytes());
                assert_eq!(read, expected, "{} {text}", line.type_name);
            }
        }
    }
}

/// Types whose binary values use the slot of a float.
const SLOTS_OF_FLOATS: [u32; 3] = [oid::INT8, oid::OID, oid::FLOAT8];

/// Returns a plan for one column, and a row of it.
fn row(type_oid: u32, form: RowForm, format_code: i16, value: &[u8]) -> (Plan, Vec<u8>) {
    let column = ColumnDescription {
        name: b"c",
        type_oid,
        format_code,
    };
    let length = (value.len() as u32).to_be_bytes();
    let plan = Plan::new([column].into_iter(), form).unwrap();
    (plan, [&[0, 1], &length[..], value].concat())
}

/// Returns, as JSON, what JavaScript makes of a batch of one value. It turns infinities and NaN into numbers, from text
/// too.
fn javascript(type_oid: u32, strings: AsStrings, format_code: i16, value: &[u8]) -> String {
    let form = RowForm {
        strings,
        ..RowFormat::Columns.into()
    };
    let (plan, body) = row(type_oid, form, format_code, value);
    let (mut batch, mut blocks) = (Output::default(), Blocks::default());
    let mut behind = std::iter::empty();
    let (_, outcome) = plan.encode_values(&body, &mut behind, 0, &mut batch, &mut blocks);
    outcome.unwrap();
    blocks.seal(&mut batch, &[], 0);
    let batch = Vec::from(batch);
    let number = |at: usize| i32::from_le_bytes(batch[at..at + 4].try_into().unwrap());
    let tail = batch.len() - 12;
    let text = |range| str::from_utf8(&batch[range]).unwrap();
    match batch[4] {
        slots::JSON => {
            let json = text(9..tail - 1);
            match json.parse::<f64>() {
                Ok(number) if SLOTS_OF_FLOATS.contains(&type_oid) => format!("{number:?}"),
                _ => json.to_owned(),
            }
        }
        slots::INT => number(8).to_string(),
        slots::BOOL => (number(8) == 1).to_string(),
        slots::FLOAT => match f64::from_le_bytes(batch[8..16].try_into().unwrap()) {
            number if number.is_finite() => format!("{number:?}"),
            number => format!("\"{number}\"").replace("inf", "Infinity"),
        },
        _ => serde_json::to_string(text(16..tail)).unwrap(),
    }
}

/// In JavaScript objects int8 and numeric are strings, also inside arrays; nothing else differs.
#[test]
fn objects_quote_what_a_javascript_number_cannot_hold() {
    for line in lines() {
        let mut expected = decided(&line);
        let is_array = line.type_name.ends_with("[]");
        if matches!(
            line.type_oid,
            oid::INT8 | oid::NUMERIC | oid::INT8_ARRAY | oid::NUMERIC_ARRAY
        ) {
            let mut value: serde_json::Value =
                serde_json::from_str(&quote_numbers(&expected)).unwrap();
            assert!(is_array == value.is_array());
            expected = value.take().to_string();
        }
        let encoder = Encoder::new(line.type_oid, 1, AsStrings::ALL).unwrap();
        assert_eq!(
            encode(&encoder, &line.binary),
            expected,
            "{}",
            line.type_name
        );
    }
}

/// Quotes every bare number.
fn quote_numbers(json: &str) -> String {
    json.split_inclusive([',', '[', ']'])
        .map(|piece| {
            let (body, end) = piece
                .strip_suffix([',', '[', ']'])
                .map_or((piece, ""), |body| (body, &piece[body.len()..]));
            if body.is_empty() || body == "null" || body.starts_with('"') {
                piece.to_owned()
            } else {
                format!("\"{body}\"{end}")
            }
        })
        .collect()
}

/// The types of pg_type of PostgreSQL 19 without arrays, and without pseudo-types that no column can have.
#[rustfmt::skip]
const BUILT_IN: &[(&str, u32)] = &[
    ("bool", 16), ("bytea", 17), ("char", 18), ("name", 19), ("int8", 20), ("int2", 21), ("int2vector", 22),
    ("int4", 23), ("regproc", 24), ("text", 25), ("oid", 26), ("tid", 27), ("xid", 28), ("cid", 29), ("oidvector", 30),
    ("json", 114), ("xml", 142), ("pg_node_tree", 194), ("point", 600), ("lseg", 601), ("path", 602), ("box", 603),
    ("polygon", 604), ("line", 628), ("cidr", 650), ("float4", 700), ("float8", 701), ("unknown", 705), ("circle", 718),
    ("macaddr8", 774), ("money", 790), ("macaddr", 829), ("inet", 869), ("aclitem", 1033), ("bpchar", 1042),
    ("varchar", 1043), ("date", 1082), ("time", 1083), ("timestamp", 1114), ("timestamptz", 1184), ("interval", 1186),
    ("timetz", 1266), ("bit", 1560), ("varbit", 1562), ("numeric", 1700), ("refcursor", 1790), ("regprocedure", 2202),
    ("regoper", 2203), ("regoperator", 2204), ("regclass", 2205), ("regtype", 2206), ("record", 2249),
    ("cstring", 2275), ("anyarray", 2277), ("void", 2278), ("uuid", 2950), ("txid_snapshot", 2970), ("pg_lsn", 3220),
    ("tsvector", 3614), ("tsquery", 3615), ("gtsvector", 3642), ("regconfig", 3734), ("regdictionary", 3769),
    ("jsonb", 3802), ("int4range", 3904), ("numrange", 3906), ("tsrange", 3908), ("tstzrange", 3910),
    ("daterange", 3912), ("int8range", 3926), ("jsonpath", 4072), ("regnamespace", 4089), ("regrole", 4096),
    ("regcollation", 4191), ("int4multirange", 4451), ("nummultirange", 4532), ("tsmultirange", 4533),
    ("tstzmultirange", 4534), ("datemultirange", 4535), ("int8multirange", 4536), ("pg_snapshot", 5038), ("xid8", 5069),
    ("oid8", 6437), ("regdatabase", 6490),
];

/// docs/types.md names the wire format of every built-in type, and of no other type.
#[test]
fn the_documented_wire_format_is_the_one_asked_for() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/types.md");
    let text = fs::read_to_string(path).unwrap();
    let mut documented = BTreeMap::new();
    for row in text.lines().filter(|line| line.starts_with("| `")) {
        let mut cells = row.split(" | ");
        let (names, wire) = (cells.next().unwrap(), cells.next().unwrap());
        for name in names.trim_start_matches("| ").split(", ") {
            assert_eq!(
                documented.insert(name.trim_matches('`'), wire),
                None,
                "{name}"
            );
        }
    }
    for (name, type_oid) in BUILT_IN {
        let wire = if has_binary_encoder(*type_oid) {
            "binary"
        } else {
            "text"
        };
        assert_eq!(documented.remove(name), Some(wire), "{name}");
    }
    assert!(documented.is_empty(), "{documented:?}");
    // Two examples of types of extensions, and arrays; every other type with a decoder is in the list.
    let listed = |type_oid: u32| BUILT_IN.iter().any(|(_, listed)| *listed == type_oid);
    let is_array = |type_oid: u32| {
        oid::ARRAYS
            .iter()
            .any(|(array, _)| u32::from(*array) == type_oid)
    };
    for type_oid in (3..10_000).filter(|type_oid| has_binary_encoder(*type_oid)) {
        assert!(listed(type_oid) || is_array(type_oid), "{type_oid}");
    }
}

/// Built-in types that no parameter can have.
const WITHOUT_PARAMETERS: &[&str] = &[
    "pg_node_tree",
    "record",
    "cstring",
    "anyarray",
    "void",
    "gtsvector",
];
/// Types whose name no expression of types.ts has: `true`, `char(3)`, `B'101'`, `row(…)`; and those that it leaves to
/// other tests.
const WITHOUT_EXPRESSIONS: &[&str] = &[
    "bool",
    "record",
    // The server's to_json has a string.
    "oid",
    "bpchar",
    "bit",
    "refcursor",
    "cstring",
    "unknown",
    "nummultirange",
    "tsmultirange",
    "int8multirange",
];

/// A new type is added to the cases that run on every runtime: as a value that is read, and as a parameter.
#[test]
fn the_integration_cases_have_each_type() {
    let words = |name: &str| {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/integration/cases");
        let text = fs::read_to_string(path.join(name)).unwrap();
        let (lists, _cases) = text.split_once(": Cases = {").unwrap();
        let words = lists.split(|character: char| !character.is_alphanumeric() && character != '_');
        words.map(str::to_owned).collect::<BTreeSet<String>>()
    };
    let (parameters, expressions) = (words("parameters.ts"), words("types.ts"));
    for (name, type_oid) in BUILT_IN {
        let is_given = parameters.contains(*name);
        assert_eq!(
            is_given,
            !WITHOUT_PARAMETERS.contains(name),
            "{name}: MATRIX of parameters.ts"
        );
        if has_binary_encoder(*type_oid) {
            let is_read = expressions.contains(*name);
            assert_eq!(
                is_read,
                !WITHOUT_EXPRESSIONS.contains(name),
                "{name}: VALUES of types.ts"
            );
        }
    }
}
