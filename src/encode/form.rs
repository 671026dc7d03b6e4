//! What a caller asks of the rows of one result: their format and its options, and the number as which both cross the
//! boundary.
//!
//! Knows names of formats. What they look like is the plan's business.

use crate::boundary::{form, rows};
use crate::types::Strings;

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
    /// What a spreadsheet would take for a formula gets an apostrophe in CSV.
    pub escape_formulas: bool,
}

impl RowForm {
    /// As it crosses the boundary: one of [`rows`] and bits of [`form`]. `None`: no rows are wanted.
    #[inline(never)]
    pub fn from_code(code: u32) -> Option<RowForm> {
        let option = |bit: u32| code & bit != 0;
        let format = match code & form::ROWS_FORMAT {
            rows::NDJSON => RowFormat::Ndjson,
            rows::ARRAYS => RowFormat::Arrays,
            rows::JSON => RowFormat::Json,
            rows::COLUMNAR => RowFormat::Columnar,
            rows::TOON => RowFormat::Toon,
            rows::CSV => RowFormat::Csv,
            rows::COLUMNS => RowFormat::Columns,
            _ => return None,
        };
        Some(RowForm {
            format,
            strings: Strings {
                int8: option(form::INT8_AS_STRING),
                numeric: option(form::NUMERIC_AS_STRING),
                json: option(form::JSON_AS_STRING),
            },
            rename_duplicates: option(form::RENAME_DUPLICATES),
            csv_header: option(form::CSV_HEADER),
            escape_formulas: option(form::ESCAPE_FORMULAS),
        })
    }
}

impl RowForm {
    /// Rows become JavaScript's values, in batches of slots.
    pub fn is_columns(self) -> bool {
        self.format == RowFormat::Columns
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
            escape_formulas: false,
        }
    }
}
