//! A line as words, numbers and quoted bytes.

use std::iter::Peekable;

/// A line in words and quoted bytes.
pub struct Tokens<'a> {
    rest: Peekable<std::str::Chars<'a>>,
}

impl<'a> Tokens<'a> {
    /// The tokens of one line.
    pub fn new(line: &'a str) -> Self {
        Tokens {
            rest: line.chars().peekable(),
        }
    }

    /// Whether anything but spaces remains.
    pub fn more(&mut self) -> bool {
        while self.rest.next_if_eq(&' ').is_some() {}
        self.rest.peek().is_some()
    }

    /// Nothing may remain.
    pub fn end(&mut self) -> Result<(), String> {
        if self.more() {
            Err(format!(
                "and then: {}",
                self.rest.clone().collect::<String>()
            ))
        } else {
            Ok(())
        }
    }

    /// A list without a count ends here: at `\\x00`, or with the line.
    pub fn ends_list(&mut self) -> bool {
        !self.more() || self.rest.peek() == Some(&'\\')
    }

    /// The next token's first character.
    pub fn peek(&mut self) -> Option<char> {
        self.more().then(|| self.rest.peek().copied()).flatten()
    }

    /// Characters up to the next space.
    pub fn word(&mut self) -> Result<String, String> {
        if !self.more() {
            return Err("the line ends too early".into());
        }
        Ok(std::iter::from_fn(|| self.rest.next_if(|character| *character != ' ')).collect())
    }

    /// A whole number.
    pub fn number<T: std::str::FromStr>(&mut self) -> Result<T, String> {
        let word = self.word()?;
        word.parse()
            .map_err(|_| format!("{word} is no number that fits"))
    }

    /// The bytes between two `mark`s.
    pub fn quoted(&mut self, mark: char) -> Result<Vec<u8>, String> {
        if self.peek() != Some(mark) {
            return Err(format!(
                "{mark} must come before: {}",
                self.rest.clone().collect::<String>()
            ));
        }
        self.rest.next();
        let mut bytes = Vec::new();
        loop {
            match self
                .rest
                .next()
                .ok_or_else(|| format!("no closing {mark}"))?
            {
                '\\' => bytes.push(self.escaped()?),
                character if character == mark => return Ok(bytes),
                character => bytes.extend(character.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
    }

    fn escaped(&mut self) -> Result<u8, String> {
        match self.rest.next() {
            Some('n') => Ok(b'\n'),
            Some('x') => {
                let digits: String = self.rest.by_ref().take(2).collect();
                u8::from_str_radix(&digits, 16).map_err(|_| format!("\\x{digits} is no byte"))
            }
            Some(character @ ('\\' | '"' | '\'')) => Ok(character as u8),
            other => Err(format!("no escape begins with \\{}", other.unwrap_or(' '))),
        }
    }
}
