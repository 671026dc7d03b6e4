//! The numbers that cross the boundary, each with its name: bits, formats, codes and places in arrays.
//!
//! This is the only place that defines them. The core uses the constants; tests/boundary.rs writes js/wasm/numbers.ts
//! and docs/boundary.md from [`GROUPS`], and fails when one of the two differs. Must not know what the numbers lead to:
//! that is up to the modules that use them.

/// One number as both sides know it.
pub struct Number {
    /// Its name in JavaScript.
    pub name: &'static str,
    /// The number.
    pub value: u32,
    /// A sentence or more, a line each.
    pub doc: &'static [&'static str],
}

/// Numbers that belong together.
pub struct Group {
    /// What they are, a line each.
    pub doc: &'static [&'static str],
    /// Bits: printed in hexadecimal.
    pub bits: bool,
    /// In the order in which they are defined.
    pub numbers: &'static [Number],
}

/// A module of constants, and the same as a [`Group`]. In front of `=>` the
/// prefix of the names in JavaScript.
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

        /// All of them.
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
        /// Whole rows wait.
        ROWS = 0x02;
        /// `take_events` has at least one.
        EVENT = 0x04;
        /// Input waits behind the event or behind many rows: call `receive(0)` when both are drained.
        MORE = 0x08;
        /// Startup or an operation wants input.
        BUSY = 0x10;
        /// Nothing more will come from this connection. The reason was an event.
        CLOSED = 0x20;
        /// At least `flushBytes` of rows wait, or a first run holds enough. With MORE: the rows go to their consumer
        /// before `receive(0)`, which waits until the consumer wants more.
        ROWS_FULL = 0x40;
    }

    /// Bits that only `receive` returns, beside those: what the last message that it read has ended. Events that wait
    /// came before, and of two the command's end.
    bits ended: u32, "" => {
        /// A command is complete; `row_count` counts its rows.
        COMPLETE = 0x100;
        /// With COMPLETE: another command than the last. `command` says which.
        NEW_COMMAND = 0x200;
        /// ReadyForQuery: outside a transaction. The first ends startup, each further one an operation.
        READY_IDLE = 0x400;
        /// ReadyForQuery: in a transaction.
        READY_IN_TRANSACTION = 0x800;
        /// ReadyForQuery: in a transaction that has failed.
        READY_FAILED = 0x1000;
    }

    /// Bits that `receive` of a replication connection returns (src/replication/connection.rs).
    bits changes: u32, "CHANGES_" => {
        /// A command is over: `take_answer` has its rows, or its error.
        ANSWERED = 0x01;
        /// START_REPLICATION has succeeded: changes follow.
        STREAMING = 0x02;
        /// Whole changes wait.
        LINES = 0x04;
        /// The server has said where its log ends.
        KEEPALIVE = 0x08;
        /// The server closes the connection if no status update comes soon.
        STATUS_WANTED = 0x10;
        /// The server has ended the stream; ANSWERED follows.
        STREAM_OVER = 0x20;
        /// `failure` says why nothing more will come.
        FAILED = 0x40;
        /// A table has types of the database: `take_wanted_types`, `define_types`, and then `receive(0)` goes on.
        TYPES_WANTED = 0x80;
    }

    /// Versions of the protocol, for `start`.
    codes protocol: u32, "" => {
        /// Every server and every pooler knows it.
        VERSION_3_0 = 196_608;
        /// Long cancel keys. From PostgreSQL 18 on.
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
        /// Cleartext is refused only because the link is not encrypted: the error then says so.
        CLEARTEXT_WANTS_TLS = 0x10;
        /// Cleartext is refused only because the server's certificate was not verified: the error then says so.
        CLEARTEXT_WANTS_VERIFIED_TLS = 0x100;
        /// SCRAM stops at a `keyDerivation` event and waits for `prove`. Without it the core derives the key.
        EXTERNAL_KEY_DERIVATION = 0x20;
        /// Operations asked for before authentication is over go out behind the last password message.
        EARLY_QUERY = 0x40;
        /// Statements get a name at their first use, not at their second.
        NAME_FIRST_USE = 0x80;
        /// SASLInitialResponse for SCRAM-SHA-256 leaves with StartupMessage: the server is expected to ask for it.
        SCRAM_FIRST = 0x200;
        /// PasswordMessage with the password in clear leaves with StartupMessage.
        CLEARTEXT_FIRST = 0x400;
        /// With `SCRAM_FIRST`: for SCRAM-SHA-256-PLUS. Needs `channel_binding`.
        SCRAM_PLUS_FIRST = 0x800;
        /// Nothing but SCRAM-SHA-256-PLUS lets anybody in.
        CHANNEL_BINDING_REQUIRED = 0x1000;
    }

    /// Row formats: the low byte of a row form.
    codes rows: u32, "ROWS_" => {
        /// Rows are counted, not encoded.
        NONE = 0;
        /// An object per line.
        NDJSON = 1;
        /// A JSON array per line.
        ARRAYS = 2;
        /// One array of objects.
        JSON = 3;
        /// Names once, rows as arrays.
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
        /// Of `execute`: JavaScript has kept the shape's last `columns` event. Another comes only when they differ.
        COLUMNS_KNOWN = 0x2000;
        /// What a spreadsheet would take for a formula gets an apostrophe in CSV.
        ESCAPE_FORMULAS = 0x4000;
        /// The column `created_at` becomes `createdAt`.
        CAMEL_CASE = 0x8000;
    }

    /// Places in `limits`. There 0 means no limit, and so does an array without any.
    codes limits: usize, "LIMIT_" => {
        /// The most rows.
        ROWS = 0;
        /// The most bytes of output, with what stands around the rows.
        BYTES = 1;
        /// The most bytes of one field, as the server sends it.
        FIELD_BYTES = 2;
        /// 1: a cap that trips ends the output properly instead of failing the operation.
        TRUNCATE = 3;
        /// Of `execute`: rows of one Execute. The portal then stays open for `fetch`.
        FETCH = 4;
    }

    /// The COPY that `simple_query` is for.
    codes copy: u32, "COPY_" => {
        /// None: a COPY is refused.
        NONE = 0;
        /// COPY FROM STDIN.
        IN = 1;
        /// COPY TO STDOUT, whose data are the rows.
        OUT = 2;
        /// The same in binary, encoded as rows of the columns that were described last.
        ROWS = 3;
    }

    /// What follows the items of `batch_items`.
    codes batch: u32, "BATCH_" => {
        /// More items.
        CONTINUES = 0;
        /// Sync: they were the last.
        ENDS = 1;
        /// Sync behind an Execute that fails, so that the server undoes an atomic batch.
        IS_UNDONE = 2;
    }

    /// How a type of the database is made, for `define_types`.
    codes types: u32, "TYPE_" => {
        /// A domain, an enum, a type of an extension: it has the binary form of another type.
        SAME = 0;
        /// An array of the other type.
        ARRAY = 1;
        /// A range of the other type.
        RANGE = 2;
        /// A multirange of the other type, which is a range.
        MULTIRANGE = 3;
        /// A composite type.
        COMPOSITE = 4;
    }

    /// In place of an OID: layouts that only types of extensions have.
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
        /// An updated row, of which all values have come and no old one.
        UPDATE = 3;
        /// A transaction begins.
        BEGIN = 4;
        /// It ends.
        COMMIT = 5;
    }

    /// Kinds of columns, in the head of a batch of slots (src/encode/columns.rs).
    codes slots: u8, "SLOT_" => {
        /// i32 value, i32 1 for NULL.
        INT = 0;
        /// The same for a boolean.
        BOOL = 1;
        /// f64.
        FLOAT = 2;
        /// i32 UTF-16 units, i32 bytes of the text block.
        TEXT = 3;
        /// No slot: the next element of the JSON array.
        JSON = 4;
    }
}
