//! What a caller asks of the rows of one result: their format and its options, and the number as which both cross the boundary.
//!
//! Knows names of formats. What they look like is the plan's business.

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
}

impl RowForm {
    /// As one number, which is how it crosses the boundary: the format in the low byte, above it one bit per option. `None`: no rows
    /// are wanted.
    #[inline(never)]
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
        }
    }
}
