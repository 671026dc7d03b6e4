//! The tag of CommandComplete: words that name the command, then numbers, of which the last counts rows.
//!
//! ```text
//! SELECT 3      INSERT 0 5      CREATE TABLE
//! ```

/// A tag, split into its two parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandTag<'a> {
    /// The words, unchanged. Empty for EmptyQueryResponse, which has no tag.
    pub words: &'a [u8],
    /// `None`: the command counts no rows, or more than a `u64` holds.
    pub row_count: Option<u64>,
}

impl<'a> CommandTag<'a> {
    /// Splits any tag; cannot fail.
    pub fn parse(tag: &'a [u8]) -> Self {
        let is_word = |byte: &u8| !matches!(byte, b'0'..=b'9' | b' ');
        let end = tag.iter().rposition(is_word).map_or(0, |last| last + 1);
        let (words, numbers) = tag.split_at_checked(end).unwrap_or((tag, b""));
        CommandTag {
            words,
            row_count: numbers.rsplit(|byte| *byte == b' ').next().and_then(count),
        }
    }
}

fn count(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |count, digit| {
        count.checked_mul(10)?.checked_add((digit - b'0').into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_row_count() {
        for (tag, words, row_count) in [
            ("SELECT 3", "SELECT", Some(3)),
            ("INSERT 0 5", "INSERT", Some(5)),
            ("CREATE TABLE", "CREATE TABLE", None),
            ("", "", None),
            ("5", "", Some(5)),
            ("COPY 007", "COPY", Some(7)),
            ("FETCH 5 ", "FETCH", None),
            ("SELECT 18446744073709551615", "SELECT", Some(u64::MAX)),
            ("SELECT 18446744073709551616", "SELECT", None),
        ] {
            let words = words.as_bytes();
            assert_eq!(
                CommandTag::parse(tag.as_bytes()),
                CommandTag { words, row_count },
                "{tag}"
            );
        }
    }
}
