//! The numbers that cross the boundary, each with its name: bits, formats, codes and indexes into arrays.
//!
//! This is the only place that defines them. The core uses the constants. tests/boundary.rs writes js/wasm/numbers.ts
//! and docs/boundary.md from [`GROUPS`], and fails if one of the two differs. Must not know what the numbers lead to:
//! that is up to the modules that use them.

/// A number that both sides know.
pub struct Number {
    /// Its name in JavaScript.
    pub name: &'static str,
    /// The number.
    pub value: u32,
    /// One or more sentences, one line per element.
    pub doc: &'static [&'static str],
}

/// Numbers that belong together.
pub struct Group {
    /// What they are, one line per element.
    pub doc: &'static [&'static str],
    /// The numbers are bits, and are printed in hexadecimal.
    pub bits: bool,
    /// In the order of their definitions.
    pub numbers: &'static [Number],
}

/// Defines modules of constants, and the same constants as [`Group`]s. Before `=>` comes the prefix of the names in
/// JavaScript.
macro_rules! numbers {
    ($(
        $(#[doc = $group:literal])*
        $kind:ident $module:ident: $type:ident, $prefix:literal => {
            $( $(#[doc = $doc:literal])* $name:ident = $value:literal; )*
        }
    )*) => {
        $(
            $(#[doc = $group])*
            pub mod $module {
                $( $(#[doc = $doc])* pub const $name: $type = $value; )*
            }
        )*

        /// All groups.
        pub const GROUPS: &[Group] = &[
            $( Group {
                doc: &[$($group),*],
                bits: numbers!(@ $kind),
                numbers: &[
                    $( Number {
                        name: concat!($prefix, stringify!($name)),
                        value: $module::$name as u32,
                        doc: &[$($doc),*],
                    } ),*
                ],
            } ),*
        ];
    };
    (@ bits) => { true };
    (@ codes) => { false };
}

numbers! {
    /// Bits of the status that `receive` and every operation return.
    bits status: u32, "" => {
        /// `take_output` has bytes.
        OUTPUT = 0x01;
        /// Whole rows are waiting.
        ROWS = 0x02;
        /// `take_events` has at least one event.
        EVENT = 0x04;
        /// Input is waiting after an event or after many rows: call `receive(0)` when both are drained.
        MORE = 0x08;
        /// Startup or an operation wants input.
        BUSY = 0x10;
        /// Nothing more will come from this connection. An event has given the reason.
        CLOSED = 0x20;
        /// At least `flushBytes` of rows are waiting. With MORE: pass the rows to their consumer first, and call
        /// `receive(0)` only when the consumer wants more.
        ROWS_FULL = 0x40;
    }

    /// Bits that only `receive` adds to the status: what the last message that it read has ended. Waiting events came
    /// before that message. If both a command and an operation have ended, the command ended first.
    bits ended: u32, "" => {
        /// A command is complete; `row_count` counts its rows.
        COMPLETE = 0x100;
        /// With COMPLETE: the command differs from the previous one. `command` returns its words.
        NEW_COMMAND = 0x200;
        /// ReadyForQuery outside a transaction. The first ReadyForQuery ends startup, each later one ends an operation.
        READY_IDLE = 0x400;
        /// ReadyForQuery in a transaction.
        READY_IN_TRANSACTION = 0x800;
        /// ReadyForQuery in a transaction that has failed.
        READY_FAILED = 0x1000;
    }

    /// Bits that `receive` of a replication connection returns (src/replication/connection.rs).
    bits changes: u32, "CHANGES_" => {
        /// A command is finished: `take_answer` has its rows, or its error.
        ANSWERED = 0x01;
        /// START_REPLICATION has succeeded: changes follow.
        STREAMING = 0x02;
        /// Whole changes are waiting.
        LINES = 0x04;
        /// The server has reported the end of its log.
        KEEPALIVE = 0x08;
        /// The server closes the connection unless a status update arrives soon.
        STATUS_WANTED = 0x10;
        /// The server has ended the stream; ANSWERED follows.
        STREAM_OVER = 0x20;
        /// `failure` says why nothing more will come.
        FAILED = 0x40;
        /// A table has types of the database: call `take_wanted_types` and `define_types`, then `receive(0)` to
        /// continue.
        TYPES_WANTED = 0x80;
        /// `take_notices` has NoticeResponses.
        NOTICED = 0x100;
    }

    /// Versions of the protocol, for `start`.
    codes protocol: u32, "" => {
        /// Known to every server and every pooler.
        VERSION_3_0 = 196_608;
        /// Long cancel keys. PostgreSQL 18 and later.
        VERSION_3_2 = 196_610;
    }

    /// Bits of `options` of `start`: the methods of authentication that are allowed, then other options.
    bits login: u32, "" => {
        /// AuthenticationOk without a challenge.
        AUTH_TRUST = 0x01;
        /// AuthenticationCleartextPassword.
        AUTH_CLEARTEXT = 0x02;
        /// AuthenticationMD5Password.
        AUTH_MD5 = 0x04;
        /// AuthenticationSASL with SCRAM-SHA-256.
        AUTH_SCRAM_SHA_256 = 0x08;
        /// Cleartext is refused only because the link is not encrypted; the error then says so.
        CLEARTEXT_WANTS_TLS = 0x10;
        /// Cleartext is refused only because the server's certificate was not verified; the error then says so.
        CLEARTEXT_WANTS_VERIFIED_TLS = 0x100;
        /// SCRAM stops at a `keyDerivation` event and waits for `prove`. Without it the core derives the key.
        EXTERNAL_KEY_DERIVATION = 0x20;
        /// Operations requested during authentication are sent directly after the last password message.
        EARLY_QUERY = 0x40;
        /// Statements get a name at their first use instead of their second.
        NAME_FIRST_USE = 0x80;
        /// SASLInitialResponse for SCRAM-SHA-256 is sent with StartupMessage, because the server is expected to request
        /// it.
        SCRAM_FIRST = 0x200;
        /// PasswordMessage with the password in clear text is sent with StartupMessage.
        CLEARTEXT_FIRST = 0x400;
        /// With `SCRAM_FIRST`: use SCRAM-SHA-256-PLUS. Needs `channel_binding`.
        SCRAM_PLUS_FIRST = 0x800;
        /// Only a login by SCRAM-SHA-256-PLUS is accepted.
        CHANNEL_BINDING_REQUIRED = 0x1000;
    }

    /// Row formats: the low byte of a row form.
    codes rows: u32, "ROWS_" => {
        /// Rows are counted, not encoded.
        NONE = 0;
        /// One object per line.
        NDJSON = 1;
        /// One JSON array per line.
        ARRAYS = 2;
        /// One array of objects.
        JSON = 3;
        /// The column names once, rows as arrays.
        COLUMNAR = 4;
        /// pgz's dialect of TOON.
        TOON = 5;
        /// CSV by RFC 4180.
        CSV = 6;
        /// Batches of slots, from which JavaScript makes its values (src/encode/columns.rs).
        COLUMNS = 7;
    }

    /// The other bits of a row form.
    bits form: u32, "" => {
        /// The bits of the row format.
        ROWS_FORMAT = 0xff;
        /// int8 as text, for readers whose numbers are doubles.
        INT8_AS_STRING = 0x100;
        /// numeric as text.
        NUMERIC_AS_STRING = 0x200;
        /// The second column `id` becomes `id_2`.
        RENAME_DUPLICATES = 0x400;
        /// CSV starts with the names of the columns.
        CSV_HEADER = 0x800;
        /// json and jsonb as text.
        JSON_AS_STRING = 0x1000;
        /// For `execute`: JavaScript has kept the shape's last `columns` event. Another one is sent only if the columns
        /// differ.
        COLUMNS_KNOWN = 0x2000;
        /// In CSV, text that a spreadsheet would take for a formula gets an apostrophe.
        ESCAPE_FORMULAS = 0x4000;
        /// The column `created_at` becomes `createdAt`.
        CAMEL_CASE = 0x8000;
        /// For `execute`: the server parses the statement for this run, without a name. A statement that it has parsed
        /// keeps its tables when another table takes the name of one, in a schema that comes first.
        PARSE_ANEW = 0x10000;
    }

    /// Indexes into `limits`. 0 or a missing element means no limit.
    codes limits: usize, "LIMIT_" => {
        /// Maximum number of rows.
        ROWS = 0;
        /// Maximum number of bytes of output, including the text around the rows.
        BYTES = 1;
        /// Maximum number of bytes of one field, as the server sends it.
        FIELD_BYTES = 2;
        /// 1: a cap that trips ends the output properly instead of failing the operation.
        TRUNCATE = 3;
        /// For `execute`: maximum number of rows per Execute. The portal then stays open for `fetch`.
        FETCH = 4;
    }

    /// The COPY that `simple_query` is for.
    codes copy: u32, "COPY_" => {
        /// None: a COPY is refused.
        NONE = 0;
        /// COPY FROM STDIN.
        IN = 1;
        /// COPY TO STDOUT; its data is the rows.
        OUT = 2;
        /// COPY TO STDOUT in binary, encoded as rows of the columns that were described last.
        ROWS = 3;
    }

    /// The messages after the items of `batch_items`.
    codes batch: u32, "BATCH_" => {
        /// None: more items follow.
        CONTINUES = 0;
        /// Sync: the items were the last.
        ENDS = 1;
        /// An Execute that fails, then Sync, so that the server undoes an atomic batch.
        IS_UNDONE = 2;
    }

    /// Kinds of database types, for `define_types`.
    codes types: u32, "TYPE_" => {
        /// A domain, an enum or a type of an extension, with the binary form of the other type.
        SAME = 0;
        /// An array of the other type.
        ARRAY = 1;
        /// A range of the other type.
        RANGE = 2;
        /// A multirange of the other type, which is a range.
        MULTIRANGE = 3;
        /// A composite type.
        COMPOSITE = 4;
        /// A base type without a binary form here. In place of the other type: the delimiter of its arrays.
        TEXT = 5;
    }

    /// Layouts that only types of extensions have, given in place of an OID.
    codes layouts: u32, "LAYOUT_" => {
        /// hstore.
        HSTORE = 1;
        /// vector of pgvector.
        VECTOR = 2;
    }

    /// Kinds of heads in a batch of changes (src/replication/batch.rs).
    codes change_kinds: u32, "CHANGE_" => {
        /// A change as JSON.
        LINE = 0;
        /// The kinds of a table's columns.
        COLUMNS = 1;
        /// An inserted row.
        INSERT = 2;
        /// An updated row, of which all new values have arrived and no old row.
        UPDATE = 3;
        /// A transaction begins.
        BEGIN = 4;
        /// A transaction commits.
        COMMIT = 5;
    }

    /// Kinds of columns, in the head of a batch of slots (src/encode/columns.rs).
    codes slots: u8, "SLOT_" => {
        /// i32 value, i32 1 for NULL.
        INT = 0;
        /// The same as INT, for a boolean.
        BOOL = 1;
        /// f64.
        FLOAT = 2;
        /// i32 number of UTF-16 units, i32 number of bytes in the text block.
        TEXT = 3;
        /// No slot: the next element of the JSON array.
        JSON = 4;
    }
}
