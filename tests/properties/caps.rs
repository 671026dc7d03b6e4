//! Caps stop at the same row however its bytes are cut.

use crate::{cases, cut_at, transcript};
use pgz_edge::boundary::status;
use pgz_edge::connection::caps::Caps;
use pgz_edge::connection::{Connection, ExecuteRequest, Login, Settings};
use pgz_edge::encode::RowForm;
use pgz_edge::types::oid;
use proptest::collection::vec;
use proptest::prelude::*;

/// Types whose output is never shorter than the value, types whose output loses line breaks, and a type of any length.
const CAPPED: [u32; 5] = [oid::TEXT, oid::JSON, oid::JSONB, oid::BYTEA, oid::NUMERIC];

/// Returns a field of a type of `CAPPED` with about that many bytes; `None` is NULL.
fn field(column: usize, length: Option<usize>) -> Vec<u8> {
    let Some(length) = length else {
        return (-1_i32).to_be_bytes().to_vec();
    };
    let value: Vec<u8> = match CAPPED[column] {
        // The decoded text is a sixth as long, but every format writes the escapes unchanged.
        oid::JSON if length % 3 == 0 => {
            let text = b"\\u0041".repeat(length / 6);
            [&b"\""[..], &text, b"\""].concat()
        }
        oid::JSON => b"1\r\n \n"
            .iter()
            .copied()
            .cycle()
            .take(length + 1)
            .collect(),
        oid::JSONB => [vec![1], vec![b'7'; length + 1]].concat(),
        oid::NUMERIC => vec![0; 8],
        _ => b"plain, \"\\\n"
            .iter()
            .copied()
            .cycle()
            .take(length)
            .collect(),
    };
    [&(value.len() as i32).to_be_bytes()[..], &value].concat()
}

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    [&[tag][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

/// Returns rows whose fields have about these lengths.
fn data_rows(lengths: &[Vec<Option<usize>>]) -> Vec<Vec<u8>> {
    let body = |fields: &Vec<Option<usize>>| {
        let count = (fields.len() as u16).to_be_bytes().to_vec();
        let fields = fields
            .iter()
            .enumerate()
            .flat_map(|(column, length)| field(column, *length));
        count.into_iter().chain(fields).collect::<Vec<u8>>()
    };
    lengths
        .iter()
        .map(|fields| message(b'D', &body(fields)))
        .collect()
}

/// A session that has logged in, and its results since: bytes of rows, and events.
struct Session {
    connection: Connection,
    rows: Vec<u8>,
    events: String,
}

impl Session {
    fn new(most: usize) -> Self {
        let mut connection = Connection::new(Settings {
            max_message_bytes: most,
            ..Settings::default()
        });
        connection.start(&Login {
            parameters: "user\0a\0",
            options: Login::default().options,
            ..Login::default()
        });
        let mut session = Session {
            connection,
            rows: vec![],
            events: String::new(),
        };
        session.feed(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I");
        session
    }

    fn feed(&mut self, bytes: &[u8]) {
        let connection = &mut self.connection;
        connection.input(bytes.len()).copy_from_slice(bytes);
        let mut ended = connection.received(bytes.len());
        loop {
            self.rows.extend_from_slice(connection.rows());
            connection.rows_taken();
            self.events += &transcript::events(connection, ended).concat();
            connection.take_output();
            if connection.status() & status::MORE == 0 {
                return;
            }
            ended = connection.received(0);
        }
    }
}

/// Returns the server's response to an execution with these rows.
fn answer(rows: &[Vec<u8>]) -> Vec<u8> {
    let column = |type_oid: &u32| {
        [
            &b"c\0\0\0\0\0\0\0"[..],
            &type_oid.to_be_bytes(),
            &[0xff; 6],
            &[0, 1],
        ]
        .concat()
    };
    let columns: Vec<u8> = CAPPED.iter().flat_map(column).collect();
    let count = (CAPPED.len() as u16).to_be_bytes();
    [
        b"1\0\0\0\x042\0\0\0\x04",
        &message(b'T', &[&count[..], &columns].concat())[..],
        &rows.concat(),
        b"C\0\0\0\x0dSELECT 9\0Z\0\0\0\x05I",
    ]
    .concat()
}

/// Returns the bytes of rows and the events of one result, whose bytes are cut into pieces of these sizes.
fn result(
    rows: &[Vec<u8>],
    form: u32,
    caps: Caps,
    most: usize,
    sizes: &[usize],
) -> (Vec<u8>, String) {
    let mut session = Session::new(most);
    let request = ExecuteRequest {
        shape: 1,
        statement: b"\0\x01\0\x01select\0\0\0",
        parameters: &[0; 4],
        columns_known: false,
        parse_anew: false,
    };
    session
        .connection
        .execute(&request, RowForm::from_code(form), caps);
    let stream = answer(rows);
    let cuts = cut_at(sizes, stream.len());
    let mut start = 0;
    for end in (1..=stream.len()).filter(|end| cuts[*end] || *end == stream.len()) {
        session.feed(&stream[start..end]);
        start = end;
    }
    (session.rows, session.events)
}

/// The numbers of the forms (docs/architecture.md).
const NDJSON: u32 = 1;
const COLUMNS: u32 = 7;

fn lengths() -> impl Strategy<Value = Vec<Vec<Option<usize>>>> {
    let length = prop_oneof![0..9_usize, 0..300_usize, 0..40_000_usize];
    vec(vec(prop::option::weighted(0.9, length), CAPPED.len()), 0..5)
}

proptest! {
    #![proptest_config(cases(600))]

    /// A cap trips at the same row, with the same number, however the bytes are cut. A row is refused exactly when it
    /// would cross the cap, and exactly the whole rows before it are delivered.
    #[test]
    fn caps_do_not_depend_on_the_chunks(
        lengths in lengths(), form in NDJSON..=COLUMNS, row_cap in 0..5_u64,
        bytes in prop_oneof![Just(0), 0..500_u64, 0..90_000_u64],
        field_bytes in prop_oneof![Just(0), 1..500_u64, 1..60_000_u64],
        most in prop_oneof![Just(1 << 30), 0..60_000_usize], sizes in vec(1..30_000_usize, 1..9),
    ) {
        let rows = data_rows(&lengths);
        let caps = Caps { rows: row_cap, bytes, field_bytes, ..Caps::default() };
        let (whole, events) = result(&rows, form, caps, most, &[usize::MAX >> 1]);
        let (cut, cut_events) = result(&rows, form, caps, most, &sizes);
        prop_assert_eq!(&events, &cut_events);
        if form == COLUMNS {
            return Ok(()); // a batch ends where rows are taken
        }
        prop_assert_eq!(whole == cut, true, "{} and {} bytes", whole.len(), cut.len());
        if most < 1 << 30 {
            return Ok(());
        }
        let field_of = |row: &Vec<u8>| {
            let mut longest = 0;
            let mut rest = &row[7..];
            while let Some((length, behind)) = rest.split_first_chunk() {
                let length = i32::from_be_bytes(*length).max(0) as usize;
                longest = longest.max(length as u64);
                rest = &behind[length..];
            }
            longest
        };
        let uncapped = |rows: &[Vec<u8>]| result(rows, form, Caps::default(), most, &[usize::MAX >> 1]).0;
        let within = |count: usize| {
            (row_cap == 0 || count as u64 <= row_cap)
                && (field_bytes == 0 || rows[..count].iter().all(|row| field_of(row) <= field_bytes))
                && (bytes == 0 || count == 0 || uncapped(&rows[..count]).len() as u64 <= bytes)
        };
        let passed = (0..=rows.len()).rev().find(|count| within(*count)).unwrap();
        let is_capped = events.contains("\"limit\"");
        prop_assert_eq!(is_capped, passed < rows.len(), "{} of {} rows fit: {}", passed, rows.len(), events);
        if passed == rows.len() {
            prop_assert!(whole == uncapped(&rows));
        } else {
            let next = uncapped(&rows[..passed]);
            let is_next = passed == 0 || next.starts_with(&whole) && next.len() - whole.len() <= 2;
            prop_assert!(is_next, "{} of {} bytes", whole.len(), next.len());
        }
    }
}
