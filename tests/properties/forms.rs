//! The form of a value's JSON, by type: forms that a server can write, and no others.
//!
//! Uses the standard library's parsers, and knows nothing of the core's. A type for which any text is a value always
//! passes.

use crate::values::passes_json_on;
use pgz_edge::types::oid;
use serde_json::Value;
use std::fmt::Display;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Returns whether `json` is the JSON of some value of the type.
pub(crate) fn is_value(type_oid: u32, json: &str) -> bool {
    if let Some((_, element)) = find(oid::ARRAYS, type_oid) {
        let is_vector = matches!(type_oid, oid::INT2VECTOR | oid::OIDVECTOR);
        return passes_json_on(type_oid) || is_array(element, is_vector, json);
    }
    match type_oid {
        oid::BOOL => matches!(json, "true" | "false"),
        oid::INT2 => is_written::<i16>(json),
        oid::INT4 => is_written::<i32>(json),
        oid::INT8 | 20_000 => is_written::<i64>(json.trim_matches('"')),
        oid::OID => is_written::<u32>(json),
        oid::FLOAT4 | oid::FLOAT8 => is_special(json) || is_float(type_oid, json),
        oid::NUMERIC => is_special(json) || is_numeric(json.trim_matches('"')),
        oid::HSTORE => {
            let parsed: Value = serde_json::from_str(json).unwrap();
            let is_field = |value: &Value| value.is_string() || value.is_null();
            parsed.as_object().unwrap().values().all(is_field)
        }
        20_003 => is_array(20_002, false, json),
        20_002 => {
            let parsed: Value = serde_json::from_str(json).unwrap();
            parsed.as_object().unwrap().keys().eq(["\"\n", "a"].iter())
        }
        _ => match serde_json::from_str::<Value>(json) {
            Ok(Value::String(text)) => is_text(type_oid, &text),
            _ => passes_json_on(type_oid),
        },
    }
}

fn find(list: &[(u16, u16)], type_oid: u32) -> Option<(u32, u32)> {
    let found = list.iter().find(|(one, _)| u32::from(*one) == type_oid)?;
    Some((found.0.into(), found.1.into()))
}

/// Checks that all rows of a level have the same number of elements, and that each is a value.
fn is_array(element: u32, is_vector: bool, json: &str) -> bool {
    let Ok(parsed) = serde_json::from_str::<Value>(json) else {
        // serde_json cannot hold this number.
        return matches!(element, oid::NUMERIC | oid::FLOAT4 | oid::FLOAT8);
    };
    let mut level = vec![parsed];
    // These elements are arrays themselves.
    let is_element_array = find(oid::ARRAYS, element).is_some();
    for _ in 0..=6 {
        let is_row = |value: &Value| value.is_array();
        if !level.iter().all(is_row) || is_element_array {
            break;
        }
        let rows: Vec<Vec<Value>> = level
            .iter()
            .map(|row| row.as_array().unwrap().clone())
            .collect();
        if rows.iter().any(|row| row.len() != rows[0].len()) {
            return false;
        }
        level = rows.concat();
        if level.is_empty() {
            return json == "[]";
        }
    }
    let is_number = matches!(element, oid::NUMERIC | oid::FLOAT4 | oid::FLOAT8);
    level.iter().all(|value| match value {
        Value::Null => !is_vector,
        Value::Number(_) if is_number => true,
        value => is_element_array || is_value(element, &value.to_string()),
    })
}

fn is_text(type_oid: u32, text: &str) -> bool {
    if let Some((_, subtype)) = find(oid::RANGES, type_oid) {
        return text == "empty" || is_range(subtype, text);
    }
    if let Some((_, range)) = find(oid::MULTIRANGES, type_oid) {
        let (_, subtype) = find(oid::RANGES, range).unwrap();
        let ranges = text
            .strip_prefix('{')
            .and_then(|text| text.strip_suffix('}'));
        return ranges.is_some_and(|ranges| {
            let pieces = ranges.split_inclusive([')', ']']).enumerate();
            let mut pieces = pieces.map(|(index, piece)| (index > 0, piece));
            pieces.all(|(is_behind, piece)| {
                let comma = if is_behind { "," } else { "" };
                piece
                    .strip_prefix(comma)
                    .is_some_and(|range| is_range(subtype, range))
            })
        });
    }
    match type_oid {
        oid::CHAR => {
            let is_octal =
                |octal: &str| u8::from_str_radix(octal, 8).is_ok_and(|byte| byte >= 0x80);
            text.len() <= 1 || text.strip_prefix('\\').is_some_and(is_octal) && text.len() == 4
        }
        oid::BYTEA => text
            .strip_prefix("\\x")
            .is_some_and(|hex| is_hex(hex, hex.len() / 2 * 2)),
        oid::UUID => {
            let parts: Vec<&str> = text.split('-').collect();
            let lengths = [8, 4, 4, 4, 12];
            parts.len() == 5
                && parts
                    .iter()
                    .zip(lengths)
                    .all(|(part, length)| is_hex(part, length))
        }
        oid::MACADDR => text.len() == 17 && text.split(':').all(|byte| is_hex(byte, 2)),
        oid::MACADDR8 => text.len() == 23 && text.split(':').all(|byte| is_hex(byte, 2)),
        oid::INET | oid::CIDR => is_address(type_oid, text),
        oid::BIT | oid::VARBIT => text.bytes().all(|byte| matches!(byte, b'0' | b'1')),
        oid::XID | oid::CID => is_written::<u32>(text),
        oid::XID8 => is_written::<u64>(text),
        oid::TID => {
            let inner = text
                .strip_prefix('(')
                .and_then(|text| text.strip_suffix(')'));
            inner
                .and_then(|inner| inner.split_once(','))
                .is_some_and(|(block, offset)| {
                    is_written::<u32>(block) && is_written::<u16>(offset)
                })
        }
        oid::PG_LSN => text.split_once('/').is_some_and(|(high, low)| {
            let is_half =
                |half| u32::from_str_radix(half, 16).is_ok_and(|n| format!("{n:X}") == half);
            is_half(high) && is_half(low)
        }),
        oid::DATE => is_infinite(text) || is_date(text, 5_874_897),
        oid::TIME => is_time(text),
        oid::TIMETZ => text.rfind(['+', '-']).is_some_and(|at| {
            is_time(&text[..at]) && is_zone(&text[at + 1..]) && &text[at..] != "-00"
        }),
        oid::TIMESTAMP => is_infinite(text) || is_moment(text, ""),
        oid::TIMESTAMPTZ => is_infinite(text) || is_moment(text, "+00:00"),
        oid::INTERVAL => is_infinite(text) || is_interval(text),
        oid::POINT => shape(text) == "(n,n)",
        oid::LSEG => shape(text) == "[(n,n),(n,n)]",
        oid::BOX => shape(text) == "(n,n),(n,n)",
        oid::LINE => shape(text) == "{n,n,n}",
        oid::CIRCLE => shape(text) == "<(n,n),n>",
        oid::PATH | oid::POLYGON => {
            let shape = shape(text);
            let points = &shape[1..shape.len() - 1];
            let is_open = shape.starts_with('[') && shape.ends_with(']');
            let is_closed = shape.starts_with('(') && shape.ends_with(')');
            (is_closed || is_open && type_oid == oid::PATH)
                && format!("{points},").replace("(n,n),", "").is_empty()
        }
        oid::VECTOR => {
            let numbers = text
                .strip_prefix('[')
                .and_then(|text| text.strip_suffix(']'));
            numbers.is_some_and(|numbers| numbers.split(',').all(|one| is_float(oid::FLOAT4, one)))
        }
        // Any text is a value.
        oid::TEXT | oid::VARCHAR | oid::BPCHAR | oid::NAME | oid::UNKNOWN => true,
        oid::REFCURSOR | oid::CSTRING | oid::JSONPATH | 10_000.. => true,
        // The server's JSON, and the text of an anonymous record, pass as they are.
        oid::JSON | oid::JSONB | oid::RECORD => true,
        _ => panic!("type {type_oid}: say here what its text looks like"),
    }
}

/// Returns whether this is the shortest text of the number.
fn is_written<T: FromStr + Display>(text: &str) -> bool {
    text.parse::<T>()
        .is_ok_and(|number| number.to_string() == text)
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_special(json: &str) -> bool {
    matches!(json, "\"NaN\"" | "\"Infinity\"" | "\"-Infinity\"")
}

/// Returns whether JavaScript has the float too, except at the very end of its type.
fn is_float(type_oid: u32, text: &str) -> bool {
    let Ok(number) = text.parse::<f64>() else {
        return false;
    };
    let digits = text.split(['e', 'E']).next().unwrap();
    if !digits.bytes().any(|byte| matches!(byte, b'1'..=b'9')) {
        return number == 0.0;
    }
    let (least, most) = if type_oid == oid::FLOAT4 {
        (9.999e-46, 4.001e38)
    } else {
        // 2e+308, which some settings write, is an infinity in JavaScript.
        (f64::from_bits(1), f64::INFINITY)
    };
    (least..=most).contains(&number.abs())
}

fn is_numeric(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_digits(whole) && is_digits(fraction) && (whole == "0" || !whole.starts_with('0'))
}

fn is_address(type_oid: u32, text: &str) -> bool {
    let (address, bits) = text
        .split_once('/')
        .map_or((text, None), |(a, b)| (a, Some(b)));
    let most = match (address.parse::<Ipv4Addr>(), address.parse::<Ipv6Addr>()) {
        (Ok(_), _) => 32,
        (_, Ok(_)) => 128,
        _ => return false,
    };
    let is_lower = !address.bytes().any(|byte| byte.is_ascii_uppercase());
    let has_bits = match bits {
        None => type_oid == oid::INET,
        Some(bits) => {
            let limit = most + u8::from(type_oid == oid::CIDR);
            is_written::<u8>(bits) && bits.parse::<u8>().unwrap() < limit.max(most)
        }
    };
    is_lower && has_bits
}

fn is_infinite(text: &str) -> bool {
    matches!(text, "infinity" | "-infinity")
}

fn is_date(text: &str, last_year: u32) -> bool {
    let (text, is_before_christ) = text
        .strip_suffix(" BC")
        .map_or((text, false), |text| (text, true));
    let fields: Vec<&str> = text.split('-').collect();
    let [year, month, day] = fields[..] else {
        return false;
    };
    let (Ok(number), Ok(month), Ok(day)) = (
        year.parse::<u32>(),
        month.parse::<u32>(),
        day.parse::<u32>(),
    ) else {
        return false;
    };
    let astronomical = if is_before_christ {
        1 - i64::from(number)
    } else {
        number.into()
    };
    let is_leap = astronomical % 4 == 0 && (astronomical % 100 != 0 || astronomical % 400 == 0);
    let last_day = match month {
        2 => 28 + u32::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    let is_written = fields[1].len() == 2 && fields[2].len() == 2 && year == format!("{number:04}");
    let last_year = if is_before_christ { 4714 } else { last_year };
    is_written
        && (1..=last_year).contains(&number)
        && (1..=12).contains(&month)
        && (1..=last_day).contains(&day)
}

fn is_time(text: &str) -> bool {
    let (clock, fraction) = text.split_once('.').unwrap_or((text, "1"));
    let fields: Vec<u32> = clock
        .split(':')
        .filter_map(|field| field.parse().ok())
        .collect();
    let [hour, minute, second] = fields[..] else {
        return false;
    };
    let is_fraction = fraction.bytes().all(|byte| byte.is_ascii_digit())
        && (1..=6).contains(&fraction.len())
        && !fraction.ends_with('0');
    let is_within = (hour < 24 && minute < 60 && second < 60) || text == "24:00:00";
    clock.len() == 8 && is_fraction && is_within
}

/// Checks a zone without its sign.
fn is_zone(text: &str) -> bool {
    let fields: Vec<&str> = text.split(':').collect();
    let is_field =
        |field: &&str| field.len() == 2 && field.parse::<u32>().is_ok_and(|number| number < 60);
    fields.iter().all(is_field) && fields.len() <= 3 && fields[0] < "16"
}

/// Checks for `T` between date and time, then the zone, then the era.
fn is_moment(text: &str, zone: &str) -> bool {
    let (text, era) = text
        .strip_suffix(" BC")
        .map_or((text, ""), |text| (text, " BC"));
    let moment = text
        .strip_suffix(zone)
        .and_then(|text| text.split_once('T'));
    moment.is_some_and(|(date, time)| {
        is_date(&format!("{date}{era}"), 294_276) && is_time(time) && time != "24:00:00"
    })
}

/// Checks that units descend from the greatest, and that none is zero.
fn is_interval(text: &str) -> bool {
    if text == "PT0S" {
        return true;
    }
    let Some(rest) = text.strip_prefix('P') else {
        return false;
    };
    let (days, time) = rest
        .split_once('T')
        .map_or((rest, None), |(days, time)| (days, Some(time)));
    let units = |text: &str, units: &str| {
        let mut last = 0;
        text.split_inclusive(|letter: char| letter.is_ascii_alphabetic())
            .all(|part| {
                let (number, unit) = part.split_at(part.len() - 1);
                let place = units.find(unit).map(|at| at + 1).unwrap_or(0);
                let is_behind = place > last;
                last = place;
                let limit = if unit == "Y" || unit == "D" || unit == "H" {
                    i64::MAX
                } else if units == "YMD" {
                    12
                } else {
                    60
                };
                let is_number = if unit == "S" {
                    let (whole, fraction) = number.split_once('.').unwrap_or((number, "1"));
                    let whole = whole.strip_prefix('-').unwrap_or(whole);
                    (1..=6).contains(&fraction.len())
                        && !fraction.ends_with('0')
                        && is_written::<u8>(whole)
                        && whole.parse::<i64>().unwrap() < limit
                        && !number.trim_matches(['-', '0', '.']).is_empty()
                } else {
                    is_written::<i64>(number)
                        && number != "0"
                        && number.parse::<i64>().unwrap().abs() < limit
                };
                is_behind && is_number
            })
    };
    units(days, "YMD")
        && time.is_none_or(|time| !time.is_empty() && units(time, "HMS"))
        && text != "P"
}

/// Checks the brackets, and that the bounds are values of the subtype, quoted if they contain a blank.
fn is_range(subtype: u32, text: &str) -> bool {
    let inner = text
        .strip_prefix(['[', '('])
        .and_then(|text| text.strip_suffix([']', ')']));
    let Some((lower, upper)) = inner.and_then(|inner| inner.split_once(',')) else {
        return false;
    };
    let is_bound = |bound: &str| {
        let unquoted = bound.trim_matches('"');
        if unquoted.contains(' ') != (bound.len() == unquoted.len() + 2) {
            return false;
        }
        match subtype {
            oid::INT4 | oid::INT8 => is_value(subtype, unquoted),
            oid::NUMERIC => is_special(&format!("\"{unquoted}\"")) || is_numeric(unquoted),
            oid::TIMESTAMP => {
                is_infinite(unquoted) || is_moment(&unquoted.replacen(' ', "T", 1), "")
            }
            oid::TIMESTAMPTZ => {
                is_infinite(unquoted) || is_moment(&unquoted.replacen(' ', "T", 1), "+00")
            }
            _ => is_text(subtype, unquoted),
        }
    };
    let is_side = |bound: &str, bracket: bool| {
        if bound.is_empty() {
            !bracket
        } else {
            is_bound(bound)
        }
    };
    is_side(lower, text.starts_with('[')) && is_side(upper, text.ends_with(']'))
}

/// Returns the text with an `n` in place of each float.
fn shape(text: &str) -> String {
    let is_frame = |letter: char| "()[]{}<>,".contains(letter);
    let mut shape = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(is_frame).unwrap_or(rest.len());
        if is_frame(first) {
            shape.push(first);
            rest = &rest[1..];
            continue;
        }
        let number = &rest[..end];
        let is_number =
            matches!(number, "NaN" | "Infinity" | "-Infinity") || is_float(oid::FLOAT8, number);
        shape.push(if is_number { 'n' } else { '?' });
        rest = &rest[end..];
    }
    shape
}
