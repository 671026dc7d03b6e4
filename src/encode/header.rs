//! The bytes before the first row: the names of the columns, in the style of the format.
//!
//! The core writes the beginning and the end of a result, because only the core knows when the first row comes and
//! whether a result has ended well:
//!
//! - The beginning waits for the first row or for ReadyForQuery, so a query that fails before its first row has written
//!   nothing.
//! - The end is written at ReadyForQuery without an error, not at CommandComplete: a deferred constraint can still fail
//!   at the Sync.
//! - Every row begins with a comma in JSON and columnar output. The `[` around all rows overwrites the first one, so
//!   the hot path has no special case for the first row.
//! - Caps on bytes count beginning and end, so a row that would leave no room for the end is refused. The mark of a
//!   truncation is not counted: it says that the cap was reached. TOON and CSV refuse truncation before anything is
//!   sent, because any mark there would look like a row.

use super::form::Names;
use super::{ColumnDescription, RowForm, csv};
use crate::protocol::writer::decimal;
use crate::types::json_string;
use crate::types::output::{Output, Target};
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Returns the names to use, in camel case if the form says so. With `rename_duplicates` each name is used once: the
/// second `id` becomes `id_2`, or takes the next number that is free.
pub(super) fn names<'a>(columns: &[ColumnDescription<'a>], form: RowForm) -> Vec<Cow<'a, [u8]>> {
    let mut used: Vec<Cow<'a, [u8]>> = Vec::new();
    // For each name, the number up to which all its variants are taken. Searching from 2 on took seconds for 1,600
    // columns of one name.
    let mut numbers = Vec::new();
    for &ColumnDescription { name, .. } in columns {
        let name = if form.camel_case {
            camel_case(name)
        } else {
            Cow::Borrowed(name)
        };
        let mut unique = name.clone();
        if form.rename_duplicates
            && let Some(first) = place(&used, &name)
            && let Some(number) = numbers.get_mut(first)
        {
            while place(&used, &unique).is_some() {
                *number = u32::saturating_add(*number, 1);
                unique = Cow::Owned([&name, b"_".as_slice(), decimal(*number).as_bytes()].concat());
            }
        }
        used.push(unique);
        numbers.push(1);
    }
    used
}

/// Converts a name to camel case: drops an underscore between a letter or digit and a lower-case letter, all ASCII, and
/// makes that letter a capital. `created_at` becomes `createdAt`. Other underscores stay: `_id`, `a__b`, `line_2`.
pub(crate) fn camel_case(name: &[u8]) -> Cow<'_, [u8]> {
    if !name.contains(&b'_') {
        return Cow::Borrowed(name);
    }
    let mut camel = Vec::with_capacity(name.len());
    let mut before = b'_';
    let mut letters = name.iter().copied().peekable();
    while let Some(letter) = letters.next() {
        let goes = letter == b'_' && before.is_ascii_alphanumeric();
        match letters.next_if(|next| goes && next.is_ascii_lowercase()) {
            Some(next) => {
                camel.push(next.to_ascii_uppercase());
                before = next;
            }
            None => {
                camel.push(letter);
                before = letter;
            }
        }
    }
    Cow::Owned(camel)
}

#[inline(never)]
fn place(names: &[Cow<'_, [u8]>], name: &[u8]) -> Option<usize> {
    names.iter().position(|known| **known == *name)
}

/// Returns the bytes before the rows, up to but not including the `[` around them.
pub(super) fn head(form: RowForm, names: &[Cow<'_, [u8]>]) -> Box<[u8]> {
    let Some(head) = form.format.facts().head else {
        return Box::default();
    };
    // A statement without columns gets no header line in CSV.
    if head.names == Names::Csv && (names.is_empty() || !form.csv_header) {
        return Box::default();
    }
    let mut text = Output::default();
    text.write(|out| {
        out.put_slice(head.before);
        for (index, name) in names.iter().enumerate() {
            if index > 0 {
                out.put(b",");
            }
            match head.names {
                Names::Csv => csv::append_name(out, name, form.escape_formulas),
                Names::Toon if is_bare(name) => out.put_slice(name),
                Names::Toon | Names::Json => json_string::append(out, name),
            }
        }
        out.put_slice(head.after);
    });
    Vec::from(text).into()
}

/// Returns whether TOON writes the name without quotes, by pgz's rule.
fn is_bare(name: &[u8]) -> bool {
    let special = |byte: &u8| {
        matches!(
            byte,
            0..=b' ' | b',' | b'"' | b'\\' | b'{' | b'}' | b'[' | b']'
        )
    };
    !name.is_empty() && !name.iter().any(special)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::RowFormat;
    use alloc::string::String;

    fn renamed(given: &[&'static str]) -> Vec<String> {
        let form = RowForm {
            rename_duplicates: true,
            ..RowForm::from(RowFormat::Json)
        };
        named(given, form)
    }

    fn named(given: &[&'static str], form: RowForm) -> Vec<String> {
        let column = |name: &&'static str| ColumnDescription {
            name: name.as_bytes(),
            type_oid: 0,
            format_code: 0,
        };
        let columns: Vec<_> = given.iter().map(column).collect();
        names(&columns, form)
            .iter()
            .map(|name| String::from_utf8(name.to_vec()).unwrap())
            .collect()
    }

    #[test]
    fn a_renamed_column_meets_no_other() {
        assert_eq!(renamed(&["a", "b"]), ["a", "b"]);
        assert_eq!(renamed(&["a", "a", "a"]), ["a", "a_2", "a_3"]);
        assert_eq!(renamed(&["a", "a_2", "a"]), ["a", "a_2", "a_3"]);
        assert_eq!(
            renamed(&["a", "a", "a_2", "a", "a_2"]),
            ["a", "a_2", "a_2_2", "a_3", "a_2_3"]
        );
        assert_eq!(
            renamed(&["?column?", "?column?"]),
            ["?column?", "?column?_2"]
        );
    }

    /// The same cases as in tests/unit/objects.test.ts.
    #[test]
    fn underscores_become_capitals() {
        let form = RowForm {
            camel_case: true,
            ..RowForm::from(RowFormat::Json)
        };
        for (name, camel) in CAMEL_CASES {
            assert_eq!(named(&[name], form), [camel]);
        }
        let both = RowForm {
            rename_duplicates: true,
            ..form
        };
        assert_eq!(
            named(&["a_b", "aB", "aB_2"], both),
            ["aB", "aB_2", "aB_2_2"]
        );
    }

    const CAMEL_CASES: [(&str, &str); 12] = [
        ("id", "id"),
        ("created_at", "createdAt"),
        ("a_b_c", "aBC"),
        ("_id", "_id"),
        ("id_", "id_"),
        ("a__b", "a__b"),
        ("line_2", "line_2"),
        ("line2_b", "line2B"),
        ("A_b", "AB"),
        ("a_B", "a_B"),
        ("é_a", "é_a"),
        ("", ""),
    ];

    /// PostgreSQL allows 1,664 columns. An earlier search tried, for each of them, all numbers before its own.
    #[test]
    fn many_columns_of_one_name_are_renamed_at_once() {
        let names = renamed(&["a"; 1_664]);
        assert_eq!(names[1_663], "a_1664");
    }

    #[test]
    fn names_of_toon_are_bare_where_they_can_be() {
        for (name, bare) in [
            ("id", true),
            ("a:b", true),
            ("ü", true),
            ("", false),
            ("n m", false),
            ("a,b", false),
            ("a]", false),
        ] {
            assert_eq!(is_bare(name.as_bytes()), bare, "{name}");
        }
    }
}
