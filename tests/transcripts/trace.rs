//! Messages as lines of PQtrace's form, and lines as messages: the only place that knows how a transcript spells a
//! message.
//!
//! ```text
//! F Parse 45 "" "select $1" 1 23          side, PostgreSQL's name, the value of the length field, the fields in wire order
//! B DataRow 12 1 2 'ab'                   "…" ends in a NUL on the wire, '…' is counted by a length before it or by the message
//! B ErrorResponse 30 S "ERROR" … \x00     \x00 ends a list that has no count
//! B raw 44 00 00 00 03                    what is no message
//! ```
//! `?` may stand for the length: it is then counted. Inside quotes `\n`, `\\`, `\"`, `\'` and `\xNN` stand for bytes;
//! all other text is UTF-8. libpq's own form has tabs, and the length before the name. Knows layouts only: nothing of
//! when a message may come.

#![allow(dead_code, reason = "transcripts.rs and properties.rs each use a part")]

use std::fmt::Write;
use std::iter::Peekable;

/// How a message is laid out. `fields`, one character each:
///
/// ```text
/// c character    b int8    h int16    w int32    o unsigned int32    s string    r all that remains
/// v int32 length (-1: no bytes follow) and bytes
/// (…) int16 count and as many groups    [.] the same with an int32 count    {…} groups up to a zero byte
/// ```
struct Layout {
    side: char,
    name: &'static str,
    /// The type byte; none before and in StartupMessage.
    tag: Option<u8>,
    /// The int32 that tells apart what shares a type byte, or has none.
    code: Option<i32>,
    fields: &'static str,
}

const fn typed(side: char, name: &'static str, tag: u8, fields: &'static str) -> Layout {
    Layout {
        side,
        name,
        tag: Some(tag),
        code: None,
        fields,
    }
}

const fn authentication(name: &'static str, code: i32, fields: &'static str) -> Layout {
    Layout {
        side: 'B',
        name,
        tag: Some(b'R'),
        code: Some(code),
        fields,
    }
}

const MESSAGES: &[Layout] = &[
    authentication("AuthenticationOk", 0, ""),
    authentication("AuthenticationCleartextPassword", 3, ""),
    authentication("AuthenticationMD5Password", 5, "bbbb"),
    authentication("AuthenticationSASL", 10, "{s}"),
    authentication("AuthenticationSASLContinue", 11, "r"),
    authentication("AuthenticationSASLFinal", 12, "r"),
    typed('B', "BackendKeyData", b'K', "or"),
    typed('B', "BindComplete", b'2', ""),
    typed('B', "CloseComplete", b'3', ""),
    typed('B', "CommandComplete", b'C', "s"),
    typed('B', "CopyBothResponse", b'W', "b(h)"),
    typed('B', "CopyData", b'd', "r"),
    typed('B', "CopyDone", b'c', ""),
    typed('B', "CopyInResponse", b'G', "b(h)"),
    typed('B', "CopyOutResponse", b'H', "b(h)"),
    typed('B', "DataRow", b'D', "(v)"),
    typed('B', "EmptyQueryResponse", b'I', ""),
    typed('B', "ErrorResponse", b'E', "{cs}"),
    typed('B', "NegotiateProtocolVersion", b'v', "w[s]"),
    typed('B', "NoData", b'n', ""),
    typed('B', "NoticeResponse", b'N', "{cs}"),
    typed('B', "NotificationResponse", b'A', "oss"),
    typed('B', "ParameterDescription", b't', "(o)"),
    typed('B', "ParameterStatus", b'S', "ss"),
    typed('B', "ParseComplete", b'1', ""),
    typed('B', "PortalSuspended", b's', ""),
    typed('B', "ReadyForQuery", b'Z', "c"),
    typed('B', "RowDescription", b'T', "(sohohwh)"),
    typed('F', "Bind", b'B', "ss(h)(v)(h)"),
    typed('F', "Close", b'C', "cs"),
    typed('F', "CopyDone", b'c', ""),
    typed('F', "CopyFail", b'f', "s"),
    typed('F', "Describe", b'D', "cs"),
    typed('F', "Execute", b'E', "sw"),
    typed('F', "Parse", b'P', "ss(o)"),
    typed('F', "PasswordMessage", b'p', "s"),
    typed('F', "Query", b'Q', "s"),
    typed('F', "SASLInitialResponse", b'p', "sv"),
    typed('F', "SASLResponse", b'p', "r"),
    typed('F', "Sync", b'S', ""),
    typed('F', "Terminate", b'X', ""),
    Layout {
        side: 'F',
        name: "CancelRequest",
        tag: None,
        code: Some(80_877_102),
        fields: "or",
    },
    Layout {
        side: 'F',
        name: "SSLRequest",
        tag: None,
        code: Some(80_877_103),
        fields: "",
    },
    Layout {
        side: 'F',
        name: "StartupMessage",
        tag: None,
        code: None,
        fields: "hh{ss}",
    },
];

/// libpq's name for the one byte that answers SSLRequest; the documentation has none.
const SSL_RESPONSE: &str = "SSLResponse";

/// The names of all backend messages.
pub fn backend_messages() -> impl Iterator<Item = &'static str> {
    MESSAGES
        .iter()
        .filter(|layout| layout.side == 'B')
        .map(|layout| layout.name)
}

/// One line as what it says.
pub struct Line {
    /// `'F'` or `'B'`.
    pub side: char,
    /// The message's name, or `raw`.
    pub name: String,
    /// The bytes on the wire.
    pub bytes: Vec<u8>,
}

/// Reads one line.
pub fn parse(line: &str) -> Result<Line, String> {
    let mut tokens = Tokens::new(line);
    let side = match tokens.word()?.as_str() {
        "F" => 'F',
        "B" => 'B',
        other => return Err(format!("a line begins with F or B, not with {other}")),
    };
    let name = tokens.word()?;
    let bytes = match name.as_str() {
        "raw" => raw(&mut tokens)?,
        SSL_RESPONSE => {
            tokens.word()?;
            vec![character(&mut tokens)?]
        }
        _ => {
            let layout = MESSAGES
                .iter()
                .find(|layout| layout.side == side && layout.name == name);
            message(
                layout.ok_or_else(|| format!("no {side} message is named {name}"))?,
                &mut tokens,
            )?
        }
    };
    tokens.end()?;
    Ok(Line { side, name, bytes })
}

fn raw(tokens: &mut Tokens<'_>) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    while tokens.more() {
        let pair = tokens.word()?;
        bytes.push(
            u8::from_str_radix(&pair, 16)
                .map_err(|_| format!("{pair} is no byte in hexadecimal"))?,
        );
    }
    Ok(bytes)
}

fn message(layout: &Layout, tokens: &mut Tokens<'_>) -> Result<Vec<u8>, String> {
    let said = tokens.word()?;
    let mut body = Vec::from_iter(layout.code.into_iter().flat_map(i32::to_be_bytes));
    write_fields(layout.fields, tokens, &mut body)?;
    let length = body.len() + 4;
    if said != "?" && said != length.to_string() {
        return Err(format!(
            "{} says length {said}, its fields make {length}",
            layout.name
        ));
    }
    let header = (length as u32).to_be_bytes();
    Ok(layout.tag.into_iter().chain(header).chain(body).collect())
}

fn write_fields(
    mut fields: &str,
    tokens: &mut Tokens<'_>,
    body: &mut Vec<u8>,
) -> Result<(), String> {
    while let Some((field, group, rest)) = next_field(fields) {
        fields = rest;
        match field {
            'c' => body.push(character(tokens)?),
            'b' => body.push(tokens.number()?),
            'h' => body.extend(tokens.number::<i16>()?.to_be_bytes()),
            'w' => body.extend(tokens.number::<i32>()?.to_be_bytes()),
            'o' => body.extend(tokens.number::<u32>()?.to_be_bytes()),
            's' => {
                body.extend(tokens.quoted('"')?);
                body.push(0);
            }
            'r' => body.extend(tokens.quoted('\'')?),
            'v' => write_value(tokens, body)?,
            '{' => {
                while !tokens.ends_list() {
                    write_fields(group, tokens, body)?;
                }
                tokens.word()?;
                body.push(0);
            }
            _ => {
                let count = tokens.number::<u16>()?;
                let bytes = if field == '(' {
                    count.to_be_bytes().to_vec()
                } else {
                    u32::from(count).to_be_bytes().to_vec()
                };
                body.extend(bytes);
                for _ in 0..count {
                    write_fields(group, tokens, body)?;
                }
            }
        }
    }
    Ok(())
}

fn write_value(tokens: &mut Tokens<'_>, body: &mut Vec<u8>) -> Result<(), String> {
    let length = tokens.number::<i32>()?;
    body.extend(length.to_be_bytes());
    if length >= 0 {
        let bytes = tokens.quoted('\'')?;
        if bytes.len() != length as usize {
            return Err(format!(
                "a value says length {length} and has {} bytes",
                bytes.len()
            ));
        }
        body.extend(bytes);
    }
    Ok(())
}

fn character(tokens: &mut Tokens<'_>) -> Result<u8, String> {
    let word = tokens.word()?;
    match word.as_bytes() {
        [byte] => Ok(*byte),
        _ => Err(format!("{word} is not one character")),
    }
}

/// The first field of a layout, the group it repeats, and what follows.
fn next_field(fields: &str) -> Option<(char, &str, &str)> {
    let first = fields.chars().next()?;
    let close = match first {
        '(' => ')',
        '[' => ']',
        '{' => '}',
        _ => return Some((first, "", &fields[1..])),
    };
    let end = fields
        .find(close)
        .expect("groups are closed and not nested");
    Some((first, &fields[1..end], &fields[end + 1..]))
}

/// Writes lines. Remembers the little that a message's bytes do not say by themselves.
#[derive(Default)]
pub struct Printer {
    /// StartupMessage has been seen: from now on frontend messages have a type byte.
    started: bool,
    /// SSLRequest has been seen: one byte answers it.
    tls_asked: bool,
    /// The last authentication request: it tells which message a `p` is.
    authentication: i32,
}

impl Printer {
    /// The lines of these bytes; what is no message is `raw`, to its end where it says a length that can be, else to
    /// the end.
    pub fn lines(&mut self, side: char, mut bytes: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        while !bytes.is_empty() {
            let (line, rest) = self.line(side, bytes).unwrap_or_else(|| {
                let end = self
                    .frame(side, bytes)
                    .map_or(bytes.len(), |frame| frame.len());
                (hexadecimal(side, &bytes[..end]), &bytes[end..])
            });
            lines.push(line);
            bytes = rest;
        }
        lines
    }

    fn line<'a>(&mut self, side: char, bytes: &'a [u8]) -> Option<(String, &'a [u8])> {
        if side == 'B' && std::mem::take(&mut self.tls_asked) {
            let (answer, rest) = bytes.split_first()?;
            return Some((
                format!(
                    "B {SSL_RESPONSE} 1 {}",
                    char::from_u32(u32::from(*answer)).filter(char::is_ascii_alphabetic)?
                ),
                rest,
            ));
        }
        let frame = self.frame(side, bytes)?;
        let (tag, message) = if self.has_type(side) {
            (Some(frame[0]), &frame[1..])
        } else {
            (None, frame)
        };
        let layout = self.layout(side, tag, &message[4..])?;
        let body = &message[if layout.code.is_some() { 8 } else { 4 }..];

        let mut line = format!("{side} {} {}", layout.name, message.len());
        let remaining = print_fields(layout.fields, body, &mut line)?;
        self.remember(layout);
        // A line must mean exactly these bytes, else it hides something.
        let exact = remaining.is_empty() && parse(&line).is_ok_and(|line| line.bytes == frame);
        exact.then(|| (line, &bytes[frame.len()..]))
    }

    /// The bytes of the first message by its length field.
    fn frame<'a>(&self, side: char, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let header = usize::from(self.has_type(side));
        let length = i32::from_be_bytes(*bytes.get(header..)?.first_chunk()?);
        bytes.get(..header + usize::try_from(length).ok().filter(|length| *length >= 4)?)
    }

    fn has_type(&self, side: char) -> bool {
        side == 'B' || self.started
    }

    fn layout(&self, side: char, tag: Option<u8>, body: &[u8]) -> Option<&'static Layout> {
        let code = body.first_chunk().map(|code| i32::from_be_bytes(*code));
        let answer = match self.authentication {
            10 => "SASLInitialResponse",
            11 => "SASLResponse",
            // A guess, in front of the question.
            0 if body.starts_with(b"SCRAM-SHA-256\0") => "SASLInitialResponse",
            _ => "PasswordMessage",
        };
        MESSAGES.iter().find(|layout| {
            layout.side == side
                && layout.tag == tag
                && (layout.code.is_none() || layout.code == code)
                && (layout.tag != Some(b'p') || layout.name == answer)
        })
    }

    fn remember(&mut self, layout: &Layout) {
        self.started |= layout.name == "StartupMessage";
        self.tls_asked = layout.name == "SSLRequest";
        if layout.tag == Some(b'R') {
            self.authentication = layout.code.unwrap_or_default();
        }
    }
}

fn hexadecimal(side: char, bytes: &[u8]) -> String {
    bytes.iter().fold(format!("{side} raw"), |line, byte| {
        line + &format!(" {byte:02x}")
    })
}

/// What remains of `body` behind the fields; `None` when it does not have them.
fn print_fields<'a>(mut fields: &str, mut body: &'a [u8], line: &mut String) -> Option<&'a [u8]> {
    while let Some((field, group, rest)) = next_field(fields) {
        fields = rest;
        match field {
            'c' => {
                let (byte, after) = body
                    .split_first()
                    .filter(|(byte, _)| byte.is_ascii_graphic())?;
                write!(line, " {}", char::from(*byte)).ok()?;
                body = after;
            }
            'b' => {
                let (byte, after) = body.split_first()?;
                write!(line, " {byte}").ok()?;
                body = after;
            }
            'h' => body = print_number(body, line, i16::from_be_bytes)?.1,
            'w' => body = print_number(body, line, i32::from_be_bytes)?.1,
            'o' => body = print_number(body, line, u32::from_be_bytes)?.1,
            's' => {
                let end = body.iter().position(|byte| *byte == 0)?;
                quote('"', &body[..end], line);
                body = &body[end + 1..];
            }
            'r' => quote('\'', std::mem::take(&mut body), line),
            'v' => {
                let (length, after) = print_number(body, line, i32::from_be_bytes)?;
                body = after;
                if length != -1 {
                    let (value, after) = body.split_at_checked(usize::try_from(length).ok()?)?;
                    quote('\'', value, line);
                    body = after;
                }
            }
            '{' => {
                while *body.first()? != 0 {
                    body = print_fields(group, body, line)?;
                }
                line.push_str(" \\x00");
                body = &body[1..];
            }
            _ => {
                let (count, after) = if field == '(' {
                    let (count, after) = print_number(body, line, u16::from_be_bytes)?;
                    (u32::from(count), after)
                } else {
                    print_number(body, line, u32::from_be_bytes)?
                };
                body = after;
                for _ in 0..count {
                    body = print_fields(group, body, line)?;
                }
            }
        }
    }
    Some(body)
}

fn print_number<'a, const SIZE: usize, T: std::fmt::Display + Copy>(
    body: &'a [u8],
    line: &mut String,
    from_be_bytes: impl Fn([u8; SIZE]) -> T,
) -> Option<(T, &'a [u8])> {
    let (bytes, rest) = body.split_first_chunk()?;
    let number = from_be_bytes(*bytes);
    write!(line, " {number}").ok()?;
    Some((number, rest))
}

/// Appends a space and the bytes between quotes. Text stays readable; control characters and what is no UTF-8 become
/// `\xNN`.
pub fn quote(mark: char, bytes: &[u8], line: &mut String) {
    line.push(' ');
    line.push(mark);
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\n' => line.push_str("\\n"),
                '\\' => line.push_str("\\\\"),
                _ if character == mark => line.extend(['\\', mark]),
                _ if character.is_control() => {
                    escape(character.encode_utf8(&mut [0; 4]).as_bytes(), line)
                }
                _ => line.push(character),
            }
        }
        escape(chunk.invalid(), line);
    }
    line.push(mark);
}

fn escape(bytes: &[u8], line: &mut String) {
    for byte in bytes {
        write!(line, "\\x{byte:02x}").expect("a string takes all");
    }
}

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

    fn ends_list(&mut self) -> bool {
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
