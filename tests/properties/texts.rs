//! Values in the server's text form: any text is refused, or becomes the JSON of some value of its type: valid JSON, on
//! one line, not much longer than the text, and in a form that values of the type have.

use crate::cases;
use crate::forms::is_value;
use crate::values::{DEFINED, TYPES, is_json};
use flate2::read::GzDecoder;
use pgz_edge::types::{AsStrings, Encoder, oid};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use std::path::Path;
use std::sync::LazyLock;
use std::{fs, io};

/// Types with texts of their values: those of a server (tests/oracle), and some types of `DEFINED`.
static TEXTS: LazyLock<Vec<(u32, String)>> = LazyLock::new(|| {
    let mut texts: Vec<(u32, String)> = OWN
        .iter()
        .map(|(type_oid, text)| (*type_oid, (*text).to_owned()))
        .collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle");
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "gz") {
            continue;
        }
        // Every seventh line has some of each: a value and its edges, arrays, under both settings.
        let lines = io::read_to_string(GzDecoder::new(fs::File::open(path).unwrap())).unwrap();
        for line in lines.lines().step_by(7) {
            let fields: Vec<&str> = line.split('\t').collect();
            let type_oid = fields[1].parse().unwrap();
            texts.extend(
                fields[4..]
                    .iter()
                    .map(|text| (type_oid, (*text).to_owned())),
            );
        }
    }
    texts
});

const OWN: [(u32, &str); 6] = [
    (20001, "sad"),
    (20002, r#"(5,"a ""b\\,")"#),
    (20003, r#"{"(5,\"a \"\"b\\\\\\\\,\")",NULL}"#),
    (20004, r#"["a b","c""\\")"#),
    (20005, r#"{["a b",),(,"")}"#),
    (20006, r#"("{""(5,x)""}","[a,b)","{[a,b)}","(1,2)")"#),
];

/// numeric, its ranges and multiranges, and arrays of these.
const NUMERICS: [u32; 6] = [oid::NUMERIC, oid::NUMERIC_ARRAY, 3906, 3907, 4532, 6151];

/// A change at some place of a text.
#[derive(Clone, Debug)]
enum Edit {
    Put(u8),
    Insert(&'static str),
    Remove,
    Cut,
    Repeat(usize),
}

fn edit() -> impl Strategy<Value = (Index, Edit)> {
    let marks = r#"" \ { } ( ) [ ] , ; = => "" - + : . \x \000 {{{{{{{"#.split(' ');
    let words = "NULL 0 9 99999999999 P T infinity e-7 E+4 é".split(' ');
    let others = [" ", " BC", "\n", "\u{1}"];
    let pieces: Vec<&str> = marks.chain(words).chain(others).collect();
    let edit = prop_oneof![
        any::<u8>().prop_map(Edit::Put),
        select(pieces).prop_map(Edit::Insert),
        Just(Edit::Remove),
        Just(Edit::Cut),
        (1..20_usize).prop_map(Edit::Repeat),
    ];
    (any::<Index>(), edit)
}

fn spoilt(text: &str, edits: &[(Index, Edit)]) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for (place, edit) in edits {
        let at = place.index(bytes.len() + 1);
        let end = (at + 1).min(bytes.len());
        match edit {
            Edit::Put(byte) => drop(bytes.splice(at..end, [*byte])),
            Edit::Insert(piece) => drop(bytes.splice(at..at, piece.bytes())),
            Edit::Remove => drop(bytes.drain(at..end)),
            Edit::Cut => bytes.truncate(at),
            Edit::Repeat(times) => {
                let tail = bytes[at..].repeat(*times);
                bytes.extend(tail);
            }
        }
    }
    bytes
}

/// Returns the JSON of the text, or `None` if the text is refused.
fn read(type_oid: u32, text: &[u8], strings: AsStrings, keep: bool) -> Option<Vec<u8>> {
    let encoder = DEFINED.with(|types| Encoder::with_types(type_oid, 0, strings, types));
    let mut encoder = encoder.unwrap();
    if keep {
        encoder.keep_unread();
    }
    let mut out = Vec::new();
    encoder.encode(text, &mut out).ok().map(|()| out)
}

fn check(type_oid: u32, text: &[u8], objects: bool) -> Result<(), TestCaseError> {
    let strings = if objects {
        AsStrings::ALL
    } else {
        AsStrings::NONE
    };
    let strict = read(type_oid, text, strings, false);
    let kept = read(type_oid, text, strings, true);
    if strict.is_some() {
        prop_assert_eq!(&kept, &strict);
    } else if let Some(kept) = &kept {
        // The whole text must be kept, with nothing before it.
        let as_string = read(25, text, strings, false);
        prop_assert_eq!(Some(kept), as_string.as_ref());
    }
    let Some(out) = strict else {
        return Ok(());
    };
    // A byte may become six of JSON, a comma a field with its name, and the exponent of a numeric that many zeros.
    let is_exponent = |byte: &&u8| NUMERICS.contains(&type_oid) && matches!(byte, b'e' | b'E');
    let exponents = text.iter().filter(is_exponent).count();
    let most = 20 * (text.len() + 1) + exponents * 150_000;
    prop_assert!(out.len() <= most, "{} bytes", out.len());
    is_json(type_oid, &out)?;
    if let Ok(json) = str::from_utf8(&out) {
        prop_assert!(
            is_value(type_oid, json),
            "type {}: {} from {}",
            type_oid,
            json,
            text.escape_ascii()
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(60_000))]

    /// A server's text, corrupted, is read or refused, also as a value of another type.
    #[test]
    fn spoilt_texts_are_refused_or_read(at in any::<Index>(), other in any::<Index>(), edits in vec(edit(), 0..4), objects in any::<bool>()) {
        let (type_oid, text) = &TEXTS[at.index(TEXTS.len())];
        let bytes = spoilt(text, &edits);
        check(*type_oid, &bytes, objects)?;
        check(TYPES[other.index(TYPES.len())], &bytes, objects)?;
    }

    /// Any bytes are read or refused.
    #[test]
    fn any_bytes_are_refused_or_read(at in any::<Index>(), bytes in vec(any::<u8>(), 0..40), pieces in vec(edit(), 0..12)) {
        let type_oid = TYPES[at.index(TYPES.len())];
        check(type_oid, &bytes, false)?;
        check(type_oid, &spoilt("", &pieces), true)?;
    }
}
