//! A row of `COPY … TO STDOUT` in text format.
//!
//! ```text
//! value TAB value TAB … value NEWLINE
//! ```
//! `\N` alone is NULL. In other values a backslash and a letter stand for backspace, form feed, newline, carriage
//! return, tab, vertical tab, and the backslash itself.
//!
//! Knows the format. Must not know columns or their types.

use super::message::Value;
use crate::protocol::reader::Malformed;
use alloc::vec::Vec;

/// One row at a time. The buffers are used again for the next one.
#[derive(Debug, Default)]
pub(super) struct CopyRow {
    /// All values, unescaped, without anything in between.
    text: Vec<u8>,
    /// For each value where it ends in `text`. `None`: NULL.
    ends: Vec<Option<usize>>,
}

impl CopyRow {
    /// Reads the row of a table with so many columns: the content of one CopyData.
    pub fn read(&mut self, line: &[u8], columns: usize) -> Result<(), Malformed> {
        self.text.clear();
        self.ends.clear();
        // Without columns a row has no value; with one column the same line is an empty text.
        if columns == 0 && line == b"\n" {
            return Ok(());
        }
        let mut rest = line;
        loop {
            rest = self.value(rest)?;
            match rest {
                [b'\t', next @ ..] => rest = next,
                [b'\n'] => return Ok(()),
                _ => return Err(Malformed),
            }
        }
    }

    /// Reads a value, and returns the bytes behind it.
    fn value<'a>(&mut self, line: &'a [u8]) -> Result<&'a [u8], Malformed> {
        if let [b'\\', b'N', rest @ ..] = line {
            self.ends.push(None);
            return Ok(rest);
        }
        let mut rest = line;
        loop {
            let special = |byte: &u8| matches!(byte, b'\t' | b'\n' | b'\\');
            let plain = rest.iter().position(special).ok_or(Malformed)?;
            let (text, behind) = rest.split_at(plain);
            self.text.extend_from_slice(text);
            let [b'\\', letter, next @ ..] = behind else {
                self.ends.push(Some(self.text.len()));
                return Ok(behind);
            };
            self.text.push(unescaped(*letter)?);
            rest = next;
        }
    }

    /// Number of values.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// The values, all as text.
    pub fn values(&self) -> impl Iterator<Item = Result<Value<'_>, Malformed>> {
        let mut start = 0;
        self.ends.iter().map(move |end| {
            let Some(end) = *end else {
                return Ok(Value::Null);
            };
            let text = self.text.get(start..end).ok_or(Malformed)?;
            start = end;
            Ok(Value::Text(text))
        })
    }
}

/// The byte that a letter after a backslash stands for.
fn unescaped(letter: u8) -> Result<u8, Malformed> {
    Ok(match letter {
        b'b' => 0x08,
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 0x0b,
        b'\\' => b'\\',
        _ => return Err(Malformed),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;
    use proptest::prelude::*;

    /// What PostgreSQL's CopyAttributeOutText writes.
    fn written(row: &[Option<String>]) -> Vec<u8> {
        let value = |value: &Option<String>| {
            let Some(text) = value else {
                return String::from("\\N");
            };
            let escaped = text.replace('\\', "\\\\").replace('\t', "\\t");
            let escaped = escaped.replace('\n', "\\n").replace('\r', "\\r");
            escaped
                .replace('\x08', "\\b")
                .replace('\x0b', "\\v")
                .replace('\x0c', "\\f")
        };
        let values: Vec<_> = row.iter().map(value).collect();
        alloc::format!("{}\n", values.join("\t")).into_bytes()
    }

    fn read(line: &[u8], columns: usize) -> Option<Vec<Option<String>>> {
        let mut row = CopyRow::default();
        row.read(line, columns).ok()?;
        let values = row.values().map(|value| match value {
            Ok(Value::Null) => None,
            Ok(Value::Text(text)) => Some(String::from_utf8_lossy(text).into_owned()),
            other => panic!("{other:?}"),
        });
        let values: Vec<_> = values.collect();
        assert_eq!(values.len(), row.count());
        Some(values)
    }

    proptest! {
        #[test]
        fn what_the_server_writes_is_read(
            row in prop::collection::vec(prop::option::of("[a\\\\N\t\n\r\u{8}\u{b}\u{c}ü]{0,6}"), 1..5)
        ) {
            prop_assert_eq!(read(&written(&row), row.len()), Some(row));
        }

        #[test]
        fn nothing_panics(line in prop::collection::vec(any::<u8>(), 0..12), columns in 0_usize..3) {
            let _ = read(&line, columns);
        }
    }

    #[test]
    fn a_row_without_columns_has_no_value_and_an_empty_text_is_one() {
        assert_eq!(read(b"\n", 0), Some(Vec::new()));
        assert_eq!(read(b"\n", 1), Some(Vec::from([Some(String::new())])));
    }

    #[test]
    fn other_lines_are_malformed() {
        for line in [
            &b""[..],
            b"a",
            b"a\nb\n",
            b"\\Na\n",
            b"a\\N\n",
            b"\\x41\n",
            b"\\",
            b"a\\\n",
            b"\\N",
            b"\\.\n",
        ] {
            assert_eq!(read(line, 1), None, "{line:?}");
        }
    }
}
