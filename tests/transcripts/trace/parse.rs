//! A line as a message's bytes.

use super::layout::{Layout, MESSAGES, SSL_RESPONSE, next_field};
use super::tokens::Tokens;

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
