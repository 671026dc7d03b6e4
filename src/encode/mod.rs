//! From DataRow to one row of the output: a line of NDJSON, an element of a JSON array, a line of TOON or CSV.
//!
//! A [`Plan`] is made once per RowDescription and holds all that does not change from row to row: one encoder per column, each
//! key escaped already, and what stands before the first row and behind the last. It knows rows and columns; what a value looks like
//! is `types`' business, where the row goes and whether it may the caller's.

pub mod columns;
mod csv;
mod header;

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::protocol::writer::decimal;
pub use crate::types::output::Output;
use crate::types::output::{BLOCK, Target, Writer};
use crate::types::{Encoder, json_string};
pub use crate::types::{InvalidValue, Strings, Types, UnknownBinary};
use columns::Kind;

/// What a plan must know of a column of RowDescription.
#[derive(Clone, Copy, Debug)]
pub struct ColumnDescription<'a> {
    /// Name, in UTF-8.
    pub name: &'a [u8],
    /// Type.
    pub type_oid: u32,
    /// 0 text, 1 binary.
    pub format_code: i16,
}

/// How rows are written. Two rows of `id`, `n m`:
///
/// ```text
/// Ndjson     {"id":1,"n m":"x"}\n{"id":2,"n m":null}\n
/// Arrays     [1,"x"]\n[2,null]\n
/// Json       [{"id":1,"n m":"x"},{"id":2,"n m":null}]
/// Columnar   {"columns":["id","n m"],"rows":[[1,"x"],[2,null]]}
/// Toon       [?]{id,"n m"}\n1,"x"\n2,null\n
/// Csv        id,n m\r\n1,x\r\n2,\r\n
/// ```
/// The four of pgz to the byte; CSV by RFC 4180, where an empty text is `""` and NULL is nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the table above says it")]
pub enum RowFormat {
    Ndjson,
    /// What JavaScript makes its values from.
    Arrays,
    Json,
    Columnar,
    Toon,
    Csv,
    /// What JavaScript makes its values from, by the batch: slots and blocks, see [`columns`].
    Columns,
}

/// What a caller asks of the rows of one result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowForm {
    /// How rows are written.
    pub format: RowFormat,
    /// int8 and numeric between quotes, for readers whose numbers are doubles.
    pub strings: Strings,
    /// The second column `id` becomes `id_2`; else both keep their name, as in the server's JSON.
    pub rename_duplicates: bool,
    /// CSV starts with the names of the columns.
    pub csv_header: bool,
}

impl RowForm {
    /// As one number, which is how it crosses the boundary: the format in the low byte, above it one bit per option. `None`: no rows
    /// are wanted.
    pub fn from_code(code: u32) -> Option<RowForm> {
        let option = |bit: u32| code & bit != 0;
        let format = match code & 0xff {
            1 => RowFormat::Ndjson,
            2 => RowFormat::Arrays,
            3 => RowFormat::Json,
            4 => RowFormat::Columnar,
            5 => RowFormat::Toon,
            6 => RowFormat::Csv,
            7 => RowFormat::Columns,
            _ => return None,
        };
        Some(RowForm {
            format,
            strings: Strings {
                int8: option(0x100),
                numeric: option(0x200),
                json: option(0x1000),
            },
            rename_duplicates: option(0x400),
            csv_header: option(0x800),
        })
    }
}

impl From<RowFormat> for RowForm {
    /// The server's own JSON; names in front of CSV.
    fn from(format: RowFormat) -> RowForm {
        RowForm {
            format,
            strings: Strings::default(),
            rename_duplicates: false,
            csv_header: true,
        }
    }
}

/// Why a row could not be encoded. All of them mean that the server's message is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowError {
    /// The row has another number of columns than RowDescription; `found` is -1 where not even the number is there.
    FieldCount {
        /// Columns of the plan.
        expected: usize,
        /// What the row says.
        found: i16,
    },
    /// The field's length is negative (and not -1) or runs past the end of the row.
    FieldLength {
        /// From 0.
        column: usize,
    },
    /// Bytes behind the last field.
    TrailingBytes,
    /// The field's bytes are no value of its type.
    Value {
        /// From 0.
        column: usize,
        /// What is wrong.
        error: InvalidValue,
    },
}

/// How the rows of one result become JSON.
#[derive(Clone, Debug)]
pub struct Plan {
    columns: Box<[Column]>,
    form: RowForm,
    /// Before the first row.
    head: Box<[u8]>,
    /// Behind each row.
    closing: Few,
    /// A row without columns.
    empty: Few,
    /// How much of `null` a NULL is: nothing in CSV.
    null: usize,
    /// Behind the last row.
    tail: &'static [u8],
}

/// At most four bytes: one store.
#[derive(Clone, Copy, Debug)]
struct Few {
    bytes: [u8; 4],
    length: usize,
}

impl Few {
    fn new(text: &[u8]) -> Few {
        let mut bytes = [0; 4];
        bytes
            .iter_mut()
            .zip(text)
            .for_each(|(to, from)| *to = *from);
        Few {
            bytes,
            length: text.len(),
        }
    }
}

#[derive(Clone, Debug)]
struct Column {
    lead: Lead,
    encoder: Encoder,
    kind: Kind,
    /// In CSV, and not the same there as in JSON.
    is_cell: bool,
}

/// All that stands between the value before and this one: `{"id":`, `,"n m":`, `[`, `,`. In whole blocks, so that writing a usual one
/// is one store.
#[derive(Clone, Debug)]
struct Lead {
    first: [u8; BLOCK],
    further: Box<[[u8; BLOCK]]>,
    length: usize,
}

impl Lead {
    fn new(opening: &[u8], key: Option<&[u8]>) -> Lead {
        let mut text = Output::default();
        text.write(|out| {
            out.put_slice(opening);
            if let Some(key) = key {
                json_string::append(out, key);
                out.put(b":");
            }
        });
        let length = text.len();
        text.write(|out| out.put(&[0; BLOCK]));
        let (blocks, _) = text.as_slice().as_chunks();
        let (first, further) = blocks
            .split_first()
            .map_or(([0; BLOCK], Default::default()), |(first, further)| {
                (*first, further.into())
            });
        Lead {
            first,
            further,
            length,
        }
    }

    #[inline(always)]
    fn append(&self, out: &mut Writer<'_>) {
        // Both lie in memory: no overflow.
        let end = out.position().wrapping_add(self.length);
        out.put(&self.first);
        if self.length > BLOCK {
            for block in &self.further {
                out.put(block);
            }
        }
        out.truncate(end);
    }
}

/// The parts of a format that do not depend on the columns.
struct Layout {
    /// In front of the first value of a row.
    opening: &'static [u8],
    keys: bool,
    closing: &'static [u8],
    empty: &'static [u8],
    tail: &'static [u8],
}

impl RowFormat {
    /// Rows begin with a comma, and that of the first becomes the `[` around all of them.
    fn is_bracketed(self) -> bool {
        matches!(self, RowFormat::Json | RowFormat::Columnar)
    }

    #[rustfmt::skip]
    fn layout(self) -> Layout {
        let layout = |opening, keys, closing, empty, tail| Layout { opening, keys, closing, empty, tail };
        match self {
            RowFormat::Ndjson =>   layout(b"{",  true,  b"}\n",  b"{}\n", b""),
            RowFormat::Arrays =>   layout(b"[",  false, b"]\n",  b"[]\n", b""),
            RowFormat::Json =>     layout(b",{", true,  b"}",    b",{}",  b"]"),
            RowFormat::Columnar => layout(b",[", false, b"]",    b",[]",  b"]}"),
            RowFormat::Toon =>     layout(b"",   false, b"\n",   b"\n",   b""),
            RowFormat::Csv =>      layout(b"",   false, b"\r\n", b"\r\n", b""),
            RowFormat::Columns =>  layout(b"",   false, b"",     b"",     b""),
        }
    }
}

impl Plan {
    /// The plan for columns in the order of RowDescription. The error: a column in a binary form that nobody asked for.
    pub fn new<'a>(
        columns: impl Iterator<Item = ColumnDescription<'a>>,
        form: RowForm,
    ) -> Result<Plan, UnknownBinary> {
        Plan::with_types(&columns.collect::<Vec<_>>(), form, &Types::default())
    }

    /// The same where more types are known than the built-in ones.
    pub fn with_types(
        columns: &[ColumnDescription<'_>],
        form: RowForm,
        types: &Types,
    ) -> Result<Plan, UnknownBinary> {
        let Layout {
            opening,
            keys,
            closing,
            empty,
            tail,
        } = form.format.layout();
        let names = header::names(columns, form.rename_duplicates);
        let csv = form.format == RowFormat::Csv;
        let mut plans = Vec::new();
        for (column, name) in columns.iter().zip(&names) {
            let opening = if plans.is_empty() { opening } else { b"," };
            let &ColumnDescription {
                type_oid,
                format_code,
                ..
            } = column;
            let encoder = Encoder::with_types(type_oid, format_code, form.strings, types)?;
            plans.push(Column {
                lead: Lead::new(opening, keys.then_some(name)),
                kind: Kind::new(type_oid, format_code, &encoder, form.strings),
                is_cell: csv && !csv::is_json(type_oid, form.strings),
                encoder,
            });
        }
        Ok(Plan {
            columns: plans.into(),
            form,
            head: header::head(form, &names),
            closing: Few::new(closing),
            empty: Few::new(empty),
            null: if csv { 0 } else { 4 },
            tail,
        })
    }

    /// For a statement that returns no rows.
    pub fn without_columns(form: RowForm) -> Option<Plan> {
        Plan::with_types(&[], form, &Types::default()).ok()
    }

    /// What [`Plan::finish`] writes behind the last row.
    pub fn tail(&self) -> &'static [u8] {
        self.tail
    }

    /// Appends what stands before the first row.
    pub fn begin(&self, out: &mut impl Target) {
        out.write(|out| out.put_slice(&self.head));
    }

    /// The first row stands from `start` on: its comma becomes the bracket around all of them.
    pub fn bracket(&self, out: &mut impl Target, start: usize) {
        if self.form.format.is_bracketed() {
            out.write(|out| {
                if let Some(comma) = out.written_since(start).first_mut() {
                    *comma = b'[';
                }
            });
        }
    }

    /// Appends what stands behind the last of `row_count` rows; without any, what stands before them too.
    pub fn finish(&self, row_count: u64, out: &mut impl Target) {
        self.end(row_count, b"", out);
    }

    /// As [`Plan::finish`], with a mark that rows are missing: in NDJSON and JSON as a last element, in columnar form as a member.
    pub fn truncate(&self, limit: &str, value: u64, row_count: u64, out: &mut impl Target) {
        let (before, after): (&[u8], &[u8]) = match self.form.format {
            RowFormat::Ndjson => (b"{", b"}\n"),
            RowFormat::Json if row_count == 0 => (b"{", b"}"),
            RowFormat::Json => (b",{", b"}"),
            RowFormat::Columnar => (b"],", b""),
            _ => return self.finish(row_count, out),
        };
        // Caps come as doubles, so they fit.
        let (cap, rows) = (decimal(value as i64), decimal(row_count as i64));
        let mark = [
            before,
            b"\"$truncated\":{\"limit\":\"",
            limit.as_bytes(),
            b"\",\"value\":",
            cap.as_bytes(),
            b",\"rows\":",
            rows.as_bytes(),
            b"}",
            after,
        ];
        self.end(row_count, &mark.concat(), out);
    }

    fn end(&self, row_count: u64, mark: &[u8], out: &mut impl Target) {
        let tail = match self.form.format {
            // The mark has closed the rows.
            RowFormat::Columnar if !mark.is_empty() => b"}",
            _ => self.tail,
        };
        out.write(|out| {
            if row_count == 0 {
                out.put_slice(&self.head);
                out.put_block(b"[", usize::from(self.form.format.is_bracketed()));
            }
            out.put_slice(mark);
            out.put_slice(tail);
        });
    }

    /// Rows go to [`Plan::encode_values`].
    pub fn is_columns(&self) -> bool {
        self.form.format == RowFormat::Columns
    }

    /// Columns per row.
    pub fn column_count(&self) -> usize {
        self.columns.len()
    }

    /// Appends one whole row, not the first. `body` is that of DataRow: int16 count, then per column int32 length (-1: NULL) and bytes.
    /// On an error `out` may end in a part of the row; the caller truncates.
    pub fn encode_row(&self, body: &[u8], out: &mut impl Target) -> Result<(), RowError> {
        out.write(|out| self.append_row(body, out))
    }

    #[inline(always)]
    fn append_row(&self, body: &[u8], out: &mut Writer<'_>) -> Result<(), RowError> {
        self.for_each_field(body, |column, value, readable| {
            column.lead.append(out);
            match value {
                None => {
                    out.put_block(b"null", self.null);
                    Ok(())
                }
                Some(value) if column.is_cell => {
                    out.lend(|out| csv::append(&column.encoder, value, out))
                }
                Some(value) => column.encoder.append(value, readable, out),
            }
        })?;
        let end = if self.columns.is_empty() {
            &self.empty
        } else {
            &self.closing
        };
        out.put_block(&end.bytes, end.length);
        Ok(())
    }

    /// Each field of the row: its bytes (`None`: NULL), and with what follows them.
    #[inline(always)]
    fn for_each_field(
        &self,
        body: &[u8],
        mut take: impl FnMut(&Column, Option<&[u8]>, &[u8]) -> Result<(), InvalidValue>,
    ) -> Result<(), RowError> {
        let expected = self.columns.len();
        let Some((count, mut rest)) = body.split_first_chunk() else {
            return Err(RowError::FieldCount {
                expected,
                found: -1,
            });
        };
        let found = i16::from_be_bytes(*count);
        if usize::try_from(found) != Ok(expected) {
            return Err(RowError::FieldCount { expected, found });
        }
        for (index, column) in self.columns.iter().enumerate() {
            let Some((length, fields)) = rest.split_first_chunk() else {
                return Err(RowError::FieldLength { column: index });
            };
            let length = i32::from_be_bytes(*length);
            let (value, behind) = if length == -1 {
                (None, fields)
            } else {
                let Some((value, behind)) = usize::try_from(length)
                    .ok()
                    .and_then(|length| fields.split_at_checked(length))
                else {
                    return Err(RowError::FieldLength { column: index });
                };
                (Some(value), behind)
            };
            take(column, value, fields).map_err(|error| RowError::Value {
                column: index,
                error,
            })?;
            rest = behind;
        }
        if !rest.is_empty() {
            return Err(RowError::TrailingBytes);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
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
        for (format, two, none, bare) in [
            (RowFormat::Ndjson, "{\"id\":1,\"n m\":\"x\"}\n{\"id\":2,\"n m\":null}\n", "", "{}\n{}\n"),
            (RowFormat::Arrays, "[1,\"x\"]\n[2,null]\n", "", "[]\n[]\n"),
            (RowFormat::Json, "[{\"id\":1,\"n m\":\"x\"},{\"id\":2,\"n m\":null}]", "[]", "[{},{}]"),
            (RowFormat::Columnar, "{\"columns\":[\"id\",\"n m\"],\"rows\":[[1,\"x\"],[2,null]]}", "{\"columns\":[\"id\",\"n m\"],\"rows\":[]}", "{\"columns\":[],\"rows\":[[],[]]}"),
            (RowFormat::Toon, "[?]{id,\"n m\"}\n1,\"x\"\n2,null\n", "[?]{id,\"n m\"}\n", "[?]{}\n\n\n"),
            (RowFormat::Csv, "id,n m\r\n1,x\r\n2,\r\n", "id,n m\r\n", "\r\n\r\n"),
        ] {
            let full = plan(&columns, format);
            assert_eq!(whole(&full, &rows), two);
            assert_eq!(whole(&full, &[]), none);
            assert_eq!(whole(&plan(&[], format), &[&[], &[]]), bare);
        }
    }

    #[test]
    #[rustfmt::skip]
    fn a_mark_where_rows_are_missing() {
        for (format, some, none) in [
            (RowFormat::Ndjson, "{\"$truncated\":{\"limit\":\"rows\",\"value\":9,\"rows\":1}}\n", "{\"$truncated\":{\"limit\":\"rows\",\"value\":9,\"rows\":0}}\n"),
            (RowFormat::Json, ",{\"$truncated\":{\"limit\":\"rows\",\"value\":9,\"rows\":1}}]", "[{\"$truncated\":{\"limit\":\"rows\",\"value\":9,\"rows\":0}}]"),
            (RowFormat::Columnar, "],\"$truncated\":{\"limit\":\"rows\",\"value\":9,\"rows\":1}}", "{\"columns\":[\"a\"],\"rows\":[],\"$truncated\":{\"limit\":\"rows\",\"value\":9,\"rows\":0}}"),
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
        let Err(RowError::Value { column: 0, error }) = row(&plan, &body(&[Some(b"x"), None]))
        else {
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
        fn any_body_gives_a_line_or_an_error(noise: Vec<u8>, count in 0..4_u16, lengths in prop::collection::vec(-2..9_i32, 0..4)) {
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

        /// What stands behind a field in its row never shows in it.
        #[test]
        fn neighbours_do_not_matter(values in prop::collection::vec("\\PC{0,40}", 1..6)) {
            let columns: Vec<(String, u32)> = (0..values.len()).map(|i| (format!("c{i}"), oid::TEXT)).collect();
            let columns: Vec<(&str, u32)> = columns.iter().map(|(name, oid)| (name.as_str(), *oid)).collect();
            let fields: Vec<Field<'_>> = values.iter().map(|value| Some(value.as_bytes())).collect();
            let line = row(&plan(&columns, RowFormat::Arrays), &body(&fields)).unwrap();
            prop_assert_eq!(serde_json::from_str::<Vec<String>>(&line).unwrap(), values);
        }
    }
}
