//! The benchmark's result sets as DataRow bodies in binary, as a server sends them. The native bench, the allocation
//! test and any other code that needs rows without a server share this file.

use pgz_edge::encode::{ColumnDescription, Plan, RowFormat};
use pgz_edge::types::oid;

/// One result set.
pub struct Shape {
    /// The name in `spec/pgz.md`, part (d).
    pub name: &'static str,
    columns: &'static [(&'static str, u32)],
    /// The bodies of the DataRow messages.
    pub rows: Vec<Vec<u8>>,
}

impl Shape {
    /// RowDescription and the rows, as a server sends them.
    #[allow(dead_code)] // for the bench only; the allocation test shares this file
    pub fn messages(&self) -> Vec<u8> {
        let mut description = (self.columns.len() as u16).to_be_bytes().to_vec();
        for (name, type_oid) in self.columns {
            // int32 table, int16 attribute; type; int16 size, int32 modifier, int16 format.
            let fields = [
                name.as_bytes(),
                &[0; 7],
                &type_oid.to_be_bytes(),
                &[0; 6],
                &[0, 1],
            ];
            description.extend(fields.concat());
        }
        let mut messages = message(b'T', &description);
        for row in &self.rows {
            messages.extend(message(b'D', row));
        }
        messages
    }

    /// The plan of the shape's columns.
    pub fn plan(&self, format: RowFormat) -> Plan {
        let column = |&(name, type_oid): &(&'static str, u32)| ColumnDescription {
            name: name.as_bytes(),
            type_oid,
            format_code: 1,
        };
        Plan::new(self.columns.iter().map(column), format.into()).unwrap()
    }
}

/// All shapes, `count` rows each.
pub fn shapes(count: i32) -> Vec<Shape> {
    let shape = |name,
                 columns: &'static [(&'static str, u32)],
                 row: &dyn Fn(i32) -> Vec<Option<Vec<u8>>>| Shape {
        name,
        columns,
        rows: (1..=count).map(|g| data_row(&row(g))).collect(),
    };
    let int4 = |g: i32| Some(g.to_be_bytes().to_vec());
    vec![
        shape("narrow_int", &[("id", oid::INT4)], &|g| vec![int4(g)]),
        shape(
            "mixed_5col",
            &[
                ("id", oid::INT4),
                ("name", oid::TEXT),
                ("score", oid::FLOAT8),
                ("flag", oid::BOOL),
                ("meta", oid::JSONB),
            ],
            &|g| {
                let score = (f64::from(g) / 3.0).to_be_bytes().to_vec();
                vec![
                    int4(g),
                    Some(format!("name-{g}").into()),
                    Some(score),
                    Some(vec![u8::from(g % 2 == 0)]),
                    jsonb(&format!("{{\"k\": {g}}}")),
                ]
            },
        ),
        shape(
            "wide_jsonb",
            &[("id", oid::INT4), ("j", oid::JSONB)],
            &|g| vec![int4(g), jsonb("{\"a\": 1, \"b\": [1, 2, 3], \"c\": \"x\"}")],
        ),
        shape("null_heavy", &[("id", oid::INT4), ("v", oid::TEXT)], &|g| {
            vec![int4(g), (g % 2 != 0).then(|| format!("row-{g}").into())]
        }),
        shape(
            "array_int",
            &[("id", oid::INT4), ("arr", oid::INT4_ARRAY)],
            &|g| vec![int4(g), Some(int4_array(g..g + 10))],
        ),
        shape(
            "numeric",
            &[
                ("id", oid::INT4),
                ("price", oid::NUMERIC),
                ("rate", oid::NUMERIC),
            ],
            &|g| {
                let cents = u64::from(g.unsigned_abs()) * 123_457;
                vec![
                    int4(g),
                    Some(numeric(cents, 4)),
                    Some(numeric(cents % 10_000_000, 6)),
                ]
            },
        ),
    ]
}

/// Single types: rows of one column.
pub fn type_shapes(count: i32) -> Vec<Shape> {
    let moment = |g: i32| {
        (i64::from(g) * 8_640_123_457 + 700_000_000_000_000)
            .to_be_bytes()
            .to_vec()
    };
    let one =
        |name, columns: &'static [(&'static str, u32)], value: &dyn Fn(i32) -> Vec<u8>| Shape {
            name,
            columns,
            rows: (1..=count).map(|g| data_row(&[Some(value(g))])).collect(),
        };
    let long = |g: i32| format!("{g} ").repeat(150).into_bytes();
    vec![
        one("int8", &[("v", oid::INT8)], &|g| {
            (i64::from(g) * 1_234_567_890_123).to_be_bytes().to_vec()
        }),
        one("float8 digits", &[("v", oid::FLOAT8)], &|g| {
            f64::from(g).sqrt().to_be_bytes().to_vec()
        }),
        one("float8 cents", &[("v", oid::FLOAT8)], &|g| {
            (f64::from(g) / 100.0).to_be_bytes().to_vec()
        }),
        one("float8 large", &[("v", oid::FLOAT8)], &|g| {
            (f64::from(g) * 1.1e20).to_be_bytes().to_vec()
        }),
        one("text 40 bytes", &[("v", oid::TEXT)], &|g| {
            format!("{g:040}").into()
        }),
        one("text 1 kB", &[("v", oid::TEXT)], &|g| long(g)),
        one("text 40, escapes", &[("v", oid::TEXT)], &|g| {
            format!("a \"quoted\" word\n and {g:018}").into()
        }),
        one("json 1 kB", &[("v", oid::JSON)], &|g| {
            format!("{{\"a\":\"{}\"}}", "x".repeat(1000 + g as usize % 7)).into()
        }),
        one("timestamptz", &[("v", oid::TIMESTAMPTZ)], &moment),
        one("date", &[("v", oid::DATE)], &|g| {
            (g % 20_000).to_be_bytes().to_vec()
        }),
        one("uuid", &[("v", oid::UUID)], &|g| {
            [g.to_be_bytes(); 4].concat()
        }),
        one("bytea 32 bytes", &[("v", oid::BYTEA)], &|g| {
            [g.to_be_bytes(); 8].concat()
        }),
        one("interval", &[("v", oid::INTERVAL)], &|g| {
            [
                moment(g),
                g.to_be_bytes().to_vec(),
                g.to_be_bytes().to_vec(),
            ]
            .concat()
        }),
    ]
}

/// Texts of 64 KiB, for the escape scan.
#[allow(dead_code)] // for the bench only; the allocation test shares this file
pub fn scan_shapes(count: i32) -> Vec<Shape> {
    let one = |name, piece: &str| Shape {
        name,
        columns: &[("v", oid::TEXT)],
        rows: (0..count)
            .map(|_| data_row(&[Some(piece.repeat(65_536 / piece.len()).into())]))
            .collect(),
    };
    vec![
        one(
            "escape_scan plain",
            "a text without any of them, of 48 letters, says  ",
        ),
        one(
            "escape_scan utf8",
            "ein Text, der schöne Wörter hat: übermäßig höflich ",
        ),
        one(
            "escape_scan quotes",
            "one \"quoted\" word in each 48 letters of this text",
        ),
        one(
            "escape_scan json",
            "{\"id\":17,\"name\":\"a b\",\"list\":[\"x\",\"y\"],\"note\":null}",
        ),
        one("escape_scan dense", "\"\\\n"),
    ]
}

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    [&[tag], &(body.len() as u32 + 4).to_be_bytes()[..], body].concat()
}

fn data_row(fields: &[Option<Vec<u8>>]) -> Vec<u8> {
    let mut body = (fields.len() as u16).to_be_bytes().to_vec();
    for field in fields {
        body.extend(
            field
                .as_ref()
                .map_or(-1, |field| field.len() as i32)
                .to_be_bytes(),
        );
        body.extend(field.iter().flatten());
    }
    body
}

fn jsonb(text: &str) -> Option<Vec<u8>> {
    Some([b"\x01", text.as_bytes()].concat())
}

fn int4_array(values: core::ops::Range<i32>) -> Vec<u8> {
    let mut array: Vec<u8> = [1, 0, oid::INT4 as i32, values.len() as i32, 1]
        .iter()
        .flat_map(|field| field.to_be_bytes())
        .collect();
    for value in values {
        array.extend(4_i32.to_be_bytes());
        array.extend(value.to_be_bytes());
    }
    array
}

/// `unscaled / 10^scale` in base 10000.
fn numeric(unscaled: u64, scale: u32) -> Vec<u8> {
    let mut groups = Vec::new();
    // Padded so that the point falls between two groups.
    let mut rest = unscaled * 10_u64.pow(scale.next_multiple_of(4) - scale);
    while rest > 0 {
        groups.push((rest % 10_000) as u16);
        rest /= 10_000;
    }
    let weight = groups.len() as i32 - 1 - (scale.div_ceil(4)) as i32;
    let digits: Vec<u16> = groups.iter().rev().copied().collect();
    let kept = digits.len() - digits.iter().rev().take_while(|digit| **digit == 0).count();
    let header = [kept as u16, weight as u16, 0, scale as u16];
    header
        .iter()
        .chain(&digits[..kept])
        .flat_map(|field| field.to_be_bytes())
        .collect()
}
