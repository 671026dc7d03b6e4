//! The caller's choices for the rows of one result: their format and its options, and the number that carries both
//! across the boundary.
//!
//! [`RowFormat::facts`] is the table of formats. It holds everything that depends on the format and not on the columns,
//! so a new format is a new row there (HACKING.md, "An output mode"). Must not know how a value becomes text.

use crate::boundary::{form, rows};
use crate::types::AsStrings;

/// How rows are written. The examples are two rows with the columns `id` and `n m`:
///
/// ```text
/// Ndjson     {"id":1,"n m":"x"}\n{"id":2,"n m":null}\n
/// Arrays     [1,"x"]\n[2,null]\n
/// Json       [{"id":1,"n m":"x"},{"id":2,"n m":null}]
/// Columnar   {"columns":["id","n m"],"rows":[[1,"x"],[2,null]]}
/// Toon       [?]{id,"n m"}\n1,"x"\n2,null\n
/// Csv        id,n m\r\n1,x\r\n2,\r\n
/// ```
/// Ndjson, Json, Columnar and Toon equal pgz's output to the byte. Csv follows RFC 4180: an empty text is `""`, and
/// NULL is nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the table above says it")]
pub enum RowFormat {
    Ndjson,
    /// The format from which JavaScript reads the catalog.
    Arrays,
    Json,
    Columnar,
    Toon,
    Csv,
    /// The format from which JavaScript makes its values, batch by batch: slots and blocks, see [`super::columns`].
    Columns,
}

/// The properties of a format that are the same in all its results.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// One of [`rows`].
    pub code: u32,
    /// The caller's name for the format, and its content type; `None`: only JavaScript's own code uses it.
    pub public: Option<Public>,
    /// How a value is written.
    pub(super) values: Values,
    /// The bytes before the first row, with the names of the columns.
    pub(super) head: Option<Head>,
    /// Each row begins with a comma, and that of the first row becomes the `[` around all rows.
    pub(super) is_bracketed: bool,
    /// Bytes before the first value of a row.
    pub(super) opening: &'static [u8],
    /// Each value is preceded by the name of its column.
    pub(super) has_keys: bool,
    /// Bytes after the last value of a row: at most four.
    pub(super) closing: &'static [u8],
    /// A row without columns: at most four bytes.
    pub(super) empty: &'static [u8],
    /// Bytes after the last row.
    pub(super) tail: &'static [u8],
    /// How the output marks that rows are missing; `None`: it has no place for a mark, and reaching a cap is an error.
    pub(super) mark: Option<Mark>,
}

/// The part of a format that a caller must know.
#[derive(Clone, Copy, Debug)]
pub struct Public {
    /// Its name in option `format`.
    pub name: &'static str,
    /// The content type of a response.
    pub content_type: &'static str,
}

/// How a format writes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Values {
    /// As JSON.
    Json,
    /// As a cell of CSV.
    Csv,
    /// As a slot of a batch.
    Slots,
}

/// The names of the columns, written before the first row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub before: &'static [u8],
    pub names: Names,
    /// Up to but not including the `[` around the rows.
    pub after: &'static [u8],
}

/// How a name in the head is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Names {
    /// As a JSON string.
    Json,
    /// As a JSON string, but without quotes where none are needed.
    Toon,
    /// As a CSV cell, if the caller wants names.
    Csv,
}

/// `"$truncated":{…}` and the bytes around it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    /// Its leading comma is dropped if there are no rows.
    pub before: &'static [u8],
    pub after: &'static [u8],
    /// Replaces the usual bytes after the last row.
    pub tail: &'static [u8],
}

/// The values that most formats share: one line of JSON per row, for JavaScript's own use.
const LINES: Facts = Facts {
    code: rows::NONE,
    public: None,
    values: Values::Json,
    head: None,
    is_bracketed: false,
    opening: b"",
    has_keys: false,
    closing: b"\n",
    empty: b"\n",
    tail: b"",
    mark: None,
};

const NDJSON: Facts = Facts {
    code: rows::NDJSON,
    public: Some(Public {
        name: "ndjson",
        content_type: "application/x-ndjson; charset=utf-8",
    }),
    opening: b"{",
    has_keys: true,
    closing: b"}\n",
    empty: b"{}\n",
    mark: Some(Mark {
        before: b"{",
        after: b"}\n",
        tail: b"",
    }),
    ..LINES
};

const ARRAYS: Facts = Facts {
    code: rows::ARRAYS,
    opening: b"[",
    closing: b"]\n",
    empty: b"[]\n",
    ..LINES
};

const JSON: Facts = Facts {
    code: rows::JSON,
    public: Some(Public {
        name: "json",
        content_type: "application/json",
    }),
    is_bracketed: true,
    opening: b",{",
    has_keys: true,
    closing: b"}",
    empty: b",{}",
    tail: b"]",
    mark: Some(Mark {
        before: b",{",
        after: b"}",
        tail: b"]",
    }),
    ..LINES
};

const COLUMNAR: Facts = Facts {
    code: rows::COLUMNAR,
    public: Some(Public {
        name: "columnar",
        content_type: "application/json",
    }),
    head: Some(Head {
        before: b"{\"columns\":[",
        names: Names::Json,
        after: b"],\"rows\":",
    }),
    is_bracketed: true,
    opening: b",[",
    closing: b"]",
    empty: b",[]",
    tail: b"]}",
    mark: Some(Mark {
        before: b"],",
        after: b"",
        tail: b"}",
    }),
    ..LINES
};

const TOON: Facts = Facts {
    code: rows::TOON,
    public: Some(Public {
        name: "toon",
        content_type: "text/plain; charset=utf-8",
    }),
    head: Some(Head {
        before: b"[?]{",
        names: Names::Toon,
        after: b"}\n",
    }),
    ..LINES
};

const CSV: Facts = Facts {
    code: rows::CSV,
    public: Some(Public {
        name: "csv",
        content_type: "text/csv; charset=utf-8",
    }),
    values: Values::Csv,
    head: Some(Head {
        before: b"",
        names: Names::Csv,
        after: b"\r\n",
    }),
    closing: b"\r\n",
    empty: b"\r\n",
    ..LINES
};

const COLUMNS: Facts = Facts {
    code: rows::COLUMNS,
    values: Values::Slots,
    closing: b"",
    empty: b"",
    ..LINES
};

impl RowFormat {
    /// All formats.
    pub const ALL: [RowFormat; 7] = [
        RowFormat::Ndjson,
        RowFormat::Arrays,
        RowFormat::Json,
        RowFormat::Columnar,
        RowFormat::Toon,
        RowFormat::Csv,
        RowFormat::Columns,
    ];

    /// Returns the format's row of the table.
    pub const fn facts(self) -> &'static Facts {
        match self {
            RowFormat::Ndjson => &NDJSON,
            RowFormat::Arrays => &ARRAYS,
            RowFormat::Json => &JSON,
            RowFormat::Columnar => &COLUMNAR,
            RowFormat::Toon => &TOON,
            RowFormat::Csv => &CSV,
            RowFormat::Columns => &COLUMNS,
        }
    }

    /// Returns the format with this number.
    fn from_code(code: u32) -> Option<RowFormat> {
        let mut all = RowFormat::ALL.into_iter();
        all.find(|format| format.facts().code == code)
    }
}

impl Facts {
    /// Returns whether a result that a cap has cut can say so.
    pub fn can_truncate(&self) -> bool {
        self.mark.is_some()
    }
}

/// The caller's choices for the rows of one result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowForm {
    /// How rows are written.
    pub format: RowFormat,
    /// The types that are written as strings, for readers whose numbers are doubles.
    pub strings: AsStrings,
    /// The column `created_at` becomes `createdAt`.
    pub camel_case: bool,
    /// The second column `id` becomes `id_2`. Otherwise both keep their name, as in the server's JSON.
    pub rename_duplicates: bool,
    /// CSV begins with the names of the columns.
    pub csv_header: bool,
    /// In CSV, text that a spreadsheet would take for a formula gets an apostrophe.
    pub escape_formulas: bool,
}

impl RowForm {
    /// Decodes the number that crosses the boundary: one of [`rows`] and bits of [`form`]. `None`: no rows are wanted.
    #[inline(never)]
    pub fn from_code(code: u32) -> Option<RowForm> {
        let option = |bit: u32| code & bit != 0;
        Some(RowForm {
            format: RowFormat::from_code(code & form::ROWS_FORMAT)?,
            strings: AsStrings {
                int8: option(form::INT8_AS_STRING),
                numeric: option(form::NUMERIC_AS_STRING),
                json: option(form::JSON_AS_STRING),
            },
            camel_case: option(form::CAMEL_CASE),
            rename_duplicates: option(form::RENAME_DUPLICATES),
            csv_header: option(form::CSV_HEADER),
            escape_formulas: option(form::ESCAPE_FORMULAS),
        })
    }

    /// Returns whether rows become JavaScript values, in batches of slots.
    pub fn is_columns(self) -> bool {
        self.format.facts().values == Values::Slots
    }
}

impl From<RowFormat> for RowForm {
    /// The server's own JSON; CSV begins with the names of the columns.
    fn from(format: RowFormat) -> RowForm {
        RowForm {
            format,
            strings: AsStrings::default(),
            camel_case: false,
            rename_duplicates: false,
            csv_header: true,
            escape_formulas: false,
        }
    }
}
