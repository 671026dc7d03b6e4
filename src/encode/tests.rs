//! Whole rows in every format: the bytes around the values.

use super::*;
use crate::types::oid;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use proptest::prelude::*;

type Field<'a> = Option<&'a [u8]>;

fn plan(columns: &[(&str, u32)], format: RowFormat) -> Plan {
    let description = |&(name, type_oid)| ColumnDescription {
        name: str::as_bytes(name),
        type_oid,
        format_code: 1,
    };
    Plan::new(columns.iter().map(description), format.into()).unwrap()
}

fn whole(plan: &Plan, rows: &[&[Field<'_>]]) -> String {
    let mut out = Output::default();
    for (index, fields) in rows.iter().enumerate() {
        if index == 0 {
            plan.begin(&mut out);
        }
        let start = out.len();
        plan.encode_row(&body(fields), &mut out).unwrap();
        if index == 0 {
            plan.bracket(&mut out, start);
        }
    }
    plan.finish(rows.len() as u64, &mut out);
    String::from_utf8(out.into()).unwrap()
}

/// The table of [`RowFormat`], with results of no rows and of no columns.
#[test]
#[rustfmt::skip]
fn formats() {
    let columns = [("id", oid::INT4), ("n m", oid::TEXT)];
    let rows: [&[Field<'_>]; 2] = [&[Some(&[0, 0, 0, 1]), Some(b"x")], &[Some(&[0, 0, 0, 2]), None]];
    for format in RowFormat::ALL {
        let (two, none, bare) = match format {
            RowFormat::Ndjson => ("{\"id\":1,\"n m\":\"x\"}\n{\"id\":2,\"n m\":null}\n", "", "{}\n{}\n"),
            RowFormat::Arrays => ("[1,\"x\"]\n[2,null]\n", "", "[]\n[]\n"),
            RowFormat::Json => ("[{\"id\":1,\"n m\":\"x\"},{\"id\":2,\"n m\":null}]", "[]", "[{},{}]"),
            RowFormat::Columnar => (
                "{\"columns\":[\"id\",\"n m\"],\"rows\":[[1,\"x\"],[2,null]]}",
                "{\"columns\":[\"id\",\"n m\"],\"rows\":[]}",
                "{\"columns\":[],\"rows\":[[],[]]}",
            ),
            RowFormat::Toon => ("[?]{id,\"n m\"}\n1,\"x\"\n2,null\n", "[?]{id,\"n m\"}\n", "[?]{}\n\n\n"),
            RowFormat::Csv => ("id,n m\r\n1,x\r\n2,\r\n", "id,n m\r\n", "\r\n\r\n"),
            // Slots: src/encode/columns/tests.rs.
            RowFormat::Columns => continue,
        };
        let full = plan(&columns, format);
        assert_eq!(whole(&full, &rows), two);
        assert_eq!(whole(&full, &[]), none);
        assert_eq!(whole(&plan(&[], format), &[&[], &[]]), bare);
    }
}

/// NaN, and a number that is written as a string, have quotes in JSON.
#[test]
fn a_number_has_no_quotes_in_csv() {
    let form = RowForm {
        strings: AsStrings::ALL,
        ..RowFormat::Csv.into()
    };
    let column = |type_oid| ColumnDescription {
        name: b"n",
        type_oid,
        format_code: 1,
    };
    let types = [oid::INT8, oid::FLOAT8, oid::FLOAT8, oid::NUMERIC];
    let plan = Plan::new(types.map(column).into_iter(), form).unwrap();
    let (nan, half) = (f64::NAN.to_be_bytes(), 0.5_f64.to_be_bytes());
    let row: &[Field<'_>] = &[
        Some(&[0, 0, 0, 0, 0, 0, 0, 7]),
        Some(&nan),
        Some(&half),
        Some(&[0, 0, 0, 0, 0xc0, 0, 0, 0]),
    ];
    assert_eq!(whole(&plan, &[row]), "n,n,n,n\r\n7,NaN,0.5,NaN\r\n");
}

/// A cap on bytes acts early on json in CSV too, because CSV writes json as it is.
#[test]
fn how_short_a_value_may_become() {
    for format in RowFormat::ALL {
        for (type_oid, shortest) in [
            (oid::TEXT, Shortest::Value),
            (oid::BYTEA, Shortest::Value),
            (oid::JSONB, Shortest::Value),
            (oid::JSON, Shortest::WithoutLineBreaks),
            (oid::NUMERIC, Shortest::Unknown),
            (oid::INT4_ARRAY, Shortest::Unknown),
        ] {
            assert_eq!(plan(&[("a", type_oid)], format).shortest(0), shortest);
        }
        assert_eq!(plan(&[], format).shortest(0), Shortest::Unknown);
    }
    let value = b" [\n \"\\u0041\",\r\n 1 ]";
    let breaks = value.iter().filter(|byte| matches!(byte, b'\r' | b'\n'));
    let least = value.len() - breaks.count();
    for format in [RowFormat::Ndjson, RowFormat::Toon, RowFormat::Csv] {
        let plan = plan(&[("a", oid::JSON)], format);
        assert!(row(&plan, &body(&[Some(value)])).unwrap().len() >= least);
    }
}

/// The first bytes are those that OWASP names. A text that is quoted anyway gets quotes only once.
#[test]
fn formulas_in_csv() {
    let form = RowForm {
        escape_formulas: true,
        ..RowFormat::Csv.into()
    };
    let one = |type_oid, format_code, value: &[u8]| {
        let column = ColumnDescription {
            name: b"@n",
            type_oid,
            format_code,
        };
        let plan = Plan::new([column].into_iter(), form).unwrap();
        let text = whole(&plan, &[&[Some(value)]]);
        let cell = text.strip_prefix("\"'@n\"\r\n").unwrap();
        String::from(cell.strip_suffix("\r\n").unwrap())
    };
    for (value, expected) in [
        ("=1+1", "\"'=1+1\""),
        ("+", "\"'+\""),
        ("-a,b", "\"'-a,b\""),
        ("@\"", "\"'@\"\"\""),
        ("\t=", "\"'\t=\""),
        ("\r=", "\"'\r=\""),
        ("\n=", "\"'\n=\""),
        ("", "\"\""),
        ("\"", "\"\"\"\""),
        ("a=1", "a=1"),
        (" =1", " =1"),
    ] {
        for type_oid in [oid::TEXT, oid::VARCHAR, oid::BPCHAR, oid::NAME] {
            assert_eq!(one(type_oid, 1, value.as_bytes()), expected);
        }
        assert_eq!(one(oid::UNKNOWN, 0, value.as_bytes()), expected);
    }
    assert_eq!(one(oid::JSONB, 1, b"\x01-5"), "\"'-5\"");
    assert_eq!(one(oid::CHAR, 1, b"="), "\"'=\"");
    // An enum, or a type that has not been described, comes as text.
    assert_eq!(one(99_999, 0, b"=1"), "\"'=1\"");
}

/// The server decides what numbers and dates look like.
#[test]
fn numbers_and_dates_are_no_formulas() {
    let strings = AsStrings::ALL;
    for escape_formulas in [false, true] {
        let form = RowForm {
            escape_formulas,
            strings,
            csv_header: false,
            ..RowFormat::Csv.into()
        };
        let minus_one = [0xff; 8];
        for (type_oid, format_code, value, expected) in [
            (oid::INT2, 1, &minus_one[..2], "-1\r\n"),
            (oid::INT4, 1, &minus_one[..4], "-1\r\n"),
            (oid::INT8, 1, &minus_one, "-1\r\n"),
            (
                oid::NUMERIC,
                1,
                &[0, 1, 0, 0, 0x40, 0, 0, 0, 0, 1],
                "-1\r\n",
            ),
            (oid::FLOAT8, 1, &(-0.5_f64).to_be_bytes(), "-0.5\r\n"),
            (
                oid::FLOAT4,
                1,
                &f32::NEG_INFINITY.to_be_bytes(),
                "-Infinity\r\n",
            ),
            (oid::DATE, 1, &i32::MIN.to_be_bytes(), "-infinity\r\n"),
            (
                oid::TIMESTAMPTZ,
                1,
                &i64::MIN.to_be_bytes(),
                "-infinity\r\n",
            ),
            (oid::INT8, 0, b"-1", "-1\r\n"),
            (oid::NUMERIC, 0, b"-1.50", "-1.50\r\n"),
            (oid::INTERVAL, 0, b"-1 days", "P-1D\r\n"),
            (oid::DATE, 0, b"-infinity", "-infinity\r\n"),
            (oid::MONEY, 0, b"-$1.00", "-$1.00\r\n"),
        ] {
            let column = ColumnDescription {
                name: b"n",
                type_oid,
                format_code,
            };
            let plan = Plan::new([column].into_iter(), form).unwrap();
            assert_eq!(whole(&plan, &[&[Some(value)]]), expected);
        }
    }
}

#[test]
#[rustfmt::skip]
fn a_mark_where_rows_are_missing() {
    for (format, some, none) in [
        (
            RowFormat::Ndjson,
            "{\"$truncated\":{\"limit\":\"rows\",\"value\":9,\"rows\":1}}\n",
            "{\"$truncated\":{\"limit\":\"rows\",\"value\":9,\"rows\":0}}\n",
        ),
        (
            RowFormat::Json,
            ",{\"$truncated\":{\"limit\":\"rows\",\"value\":9,\"rows\":1}}]",
            "[{\"$truncated\":{\"limit\":\"rows\",\"value\":9,\"rows\":0}}]",
        ),
        (
            RowFormat::Columnar,
            "],\"$truncated\":{\"limit\":\"rows\",\"value\":9,\"rows\":1}}",
            "{\"columns\":[\"a\"],\"rows\":[],\"$truncated\":{\"limit\":\"rows\",\"value\":9,\"rows\":0}}",
        ),
    ] {
        let plan = plan(&[("a", oid::INT4)], format);
        for (rows, expected) in [(1, some), (0, none)] {
            let mut out = Vec::new();
            plan.truncate("rows", 9, rows, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}

fn body(fields: &[Field<'_>]) -> Vec<u8> {
    let mut body = (fields.len() as u16).to_be_bytes().to_vec();
    for field in fields {
        body.extend(field.map_or(-1, |field| field.len() as i32).to_be_bytes());
        body.extend(field.unwrap_or_default());
    }
    body
}

fn row(plan: &Plan, body: &[u8]) -> Result<String, RowError> {
    let mut out = Output::default();
    plan.encode_row(body, &mut out)?;
    Ok(String::from_utf8(out.as_slice().to_vec()).unwrap())
}

const COLUMNS: [(&str, u32); 2] = [("id", oid::INT8), ("n m", oid::TEXT)];
const SEVEN: Field<'static> = Some(&[0, 0, 0, 0, 0, 0, 0, 7]);

#[test]
fn both_formats() {
    let fields = body(&[SEVEN, Some(b"x")]);
    assert_eq!(
        row(&plan(&COLUMNS, RowFormat::Ndjson), &fields).unwrap(),
        "{\"id\":7,\"n m\":\"x\"}\n"
    );
    assert_eq!(
        row(&plan(&COLUMNS, RowFormat::Arrays), &fields).unwrap(),
        "[7,\"x\"]\n"
    );
    let nulls = body(&[None, None]);
    assert_eq!(
        row(&plan(&COLUMNS, RowFormat::Ndjson), &nulls).unwrap(),
        "{\"id\":null,\"n m\":null}\n"
    );
    assert_eq!(
        row(&plan(&COLUMNS, RowFormat::Arrays), &nulls).unwrap(),
        "[null,null]\n"
    );
    assert_eq!(
        row(&plan(&[], RowFormat::Ndjson), &body(&[])).unwrap(),
        "{}\n"
    );
    assert_eq!(
        row(&plan(&[], RowFormat::Arrays), &body(&[])).unwrap(),
        "[]\n"
    );
    assert_eq!(plan(&COLUMNS, RowFormat::Arrays).column_count(), 2);
}

#[test]
fn broken_rows_say_what_is_broken() {
    let plan = plan(&COLUMNS, RowFormat::Ndjson);
    let good = body(&[SEVEN, Some(b"x")]);
    assert_eq!(
        row(&plan, &[]),
        Err(RowError::FieldCount {
            expected: 2,
            found: -1
        })
    );
    assert_eq!(
        row(&plan, &body(&[None])),
        Err(RowError::FieldCount {
            expected: 2,
            found: 1
        })
    );
    assert_eq!(
        row(&plan, &[0xff, 0xff]),
        Err(RowError::FieldCount {
            expected: 2,
            found: -1
        })
    );
    assert_eq!(
        row(&plan, &[&good[..], &[0]].concat()),
        Err(RowError::TrailingBytes)
    );
    for length in 2..good.len() {
        let column = usize::from(length >= 14);
        assert_eq!(
            row(&plan, &good[..length]),
            Err(RowError::FieldLength { column })
        );
    }
    let minus_two = [&[0, 2][..], &(-2_i32).to_be_bytes()].concat();
    assert_eq!(
        row(&plan, &minus_two),
        Err(RowError::FieldLength { column: 0 })
    );
    let Err(RowError::Value { column: 0, error }) = row(&plan, &body(&[Some(b"x"), None])) else {
        panic!()
    };
    assert_eq!(error.type_oid, oid::INT8);
}

#[test]
fn a_binary_column_that_nobody_asked_for_has_no_plan() {
    let point = ColumnDescription {
        name: b"p",
        type_oid: 790,
        format_code: 1,
    };
    assert_eq!(
        Plan::new([point].into_iter(), RowFormat::Ndjson.into()).map(drop),
        Err(UnknownBinary { type_oid: 790 })
    );
    let as_text = ColumnDescription {
        format_code: 0,
        ..point
    };
    let plan = Plan::new([as_text].into_iter(), RowFormat::Ndjson.into()).unwrap();
    assert_eq!(
        row(&plan, &body(&[Some(b"$1.00")])).unwrap(),
        "{\"p\":\"$1.00\"}\n"
    );
}

proptest! {
    #[test]
    fn a_name_is_exactly_the_key(names in prop::collection::hash_set(any::<String>(), 1..5), value: String) {
        let names: Vec<String> = names.into_iter().collect();
        let columns: Vec<(&str, u32)> = names.iter().map(|name| (name.as_str(), oid::TEXT)).collect();
        let fields: Vec<Field<'_>> = names.iter().map(|_| Some(value.as_bytes())).collect();
        let line = row(&plan(&columns, RowFormat::Ndjson), &body(&fields)).unwrap();
        prop_assert_eq!(line.find('\n'), Some(line.len() - 1));
        let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&line).unwrap();
        prop_assert_eq!(object.len(), names.len());
        for name in &names {
            prop_assert_eq!(object.get(name), Some(&serde_json::Value::from(value.as_str())), "{}", name);
        }
    }

    #[test]
    fn any_body_gives_a_line_or_an_error(
        noise: Vec<u8>, count in 0..4_u16, lengths in prop::collection::vec(-2..9_i32, 0..4),
    ) {
        let plan = plan(&[("a", oid::INT4), ("b", oid::TEXT), ("c", oid::NUMERIC)], RowFormat::Ndjson);
        let mut shaped = count.to_be_bytes().to_vec();
        for length in lengths {
            shaped.extend(length.to_be_bytes());
            shaped.extend(noise.iter().cycle().take(length.max(0) as usize * usize::from(!noise.is_empty())));
        }
        for body in [noise, shaped] {
            let mut out = Output::default();
            if plan.encode_row(&body, &mut out).is_ok() {
                prop_assert_eq!(out.as_slice().last(), Some(&b'\n'));
            }
        }
    }

    /// The bytes after a field in its row never show in its output.
    #[test]
    fn neighbours_do_not_matter(values in prop::collection::vec("\\PC{0,40}", 1..6)) {
        let columns: Vec<(String, u32)> = (0..values.len()).map(|i| (format!("c{i}"), oid::TEXT)).collect();
        let columns: Vec<(&str, u32)> = columns.iter().map(|(name, oid)| (name.as_str(), *oid)).collect();
        let fields: Vec<Field<'_>> = values.iter().map(|value| Some(value.as_bytes())).collect();
        let line = row(&plan(&columns, RowFormat::Arrays), &body(&fields)).unwrap();
        prop_assert_eq!(serde_json::from_str::<Vec<String>>(&line).unwrap(), values);
    }
}
