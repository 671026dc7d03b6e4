//! Bytes as lines. A line is written only if it means exactly these bytes; all else is `raw`.

use super::layout::{Layout, MESSAGES, SSL_RESPONSE, next_field};
use super::parse::parse;
use std::fmt::Write;

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
    /// Behind a login.
    pub fn logged_in() -> Self {
        Printer {
            started: true,
            ..Printer::default()
        }
    }

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
            0 if body.starts_with(b"SCRAM-SHA-256") => "SASLInitialResponse",
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
fn quote(mark: char, bytes: &[u8], line: &mut String) {
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
