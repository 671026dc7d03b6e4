// The numbers that cross the boundary. tests/boundary.rs writes this file from src/boundary.rs: change that one, then
// run `BOUNDARY=write cargo test --test boundary`.

// Bits of the status that `receive` and every operation return.
/** `take_output` has bytes. */
export const OUTPUT = 0x1;
/** Whole rows are waiting. */
export const ROWS = 0x2;
/** `take_events` has at least one event. */
export const EVENT = 0x4;
/** Input is waiting after an event or after many rows: call `receive(0)` when both are drained. */
export const MORE = 0x8;
/** Startup or an operation wants input. */
export const BUSY = 0x10;
/** Nothing more will come from this connection. An event has given the reason. */
export const CLOSED = 0x20;
/**
 * At least `flushBytes` of rows are waiting. With MORE: pass the rows to their consumer first, and call `receive(0)`
 * only when the consumer wants more.
 */
export const ROWS_FULL = 0x40;

// Bits that only `receive` adds to the status: what the last message that it read has ended. Waiting events came
// before that message. If both a command and an operation have ended, the command ended first.
/** A command is complete; `row_count` counts its rows. */
export const COMPLETE = 0x100;
/** With COMPLETE: the command differs from the previous one. `command` returns its words. */
export const NEW_COMMAND = 0x200;
/** ReadyForQuery outside a transaction. The first ReadyForQuery ends startup, each later one ends an operation. */
export const READY_IDLE = 0x400;
/** ReadyForQuery in a transaction. */
export const READY_IN_TRANSACTION = 0x800;
/** ReadyForQuery in a transaction that has failed. */
export const READY_FAILED = 0x1000;

// Bits that `receive` of a replication connection returns (src/replication/connection.rs).
/** A command is finished: `take_answer` has its rows, or its error. */
export const CHANGES_ANSWERED = 0x1;
/** START_REPLICATION has succeeded: changes follow. */
export const CHANGES_STREAMING = 0x2;
/** Whole changes are waiting. */
export const CHANGES_LINES = 0x4;
/** The server has reported the end of its log. */
export const CHANGES_KEEPALIVE = 0x8;
/** The server closes the connection unless a status update arrives soon. */
export const CHANGES_STATUS_WANTED = 0x10;
/** The server has ended the stream; ANSWERED follows. */
export const CHANGES_STREAM_OVER = 0x20;
/** `failure` says why nothing more will come. */
export const CHANGES_FAILED = 0x40;
/** A table has types of the database: call `take_wanted_types` and `define_types`, then `receive(0)` to continue. */
export const CHANGES_TYPES_WANTED = 0x80;
/** `take_notices` has NoticeResponses. */
export const CHANGES_NOTICED = 0x100;

// Versions of the protocol, for `start`.
/** Known to every server and every pooler. */
export const VERSION_3_0 = 196608;
/** Long cancel keys. PostgreSQL 18 and later. */
export const VERSION_3_2 = 196610;

// Bits of `options` of `start`: the methods of authentication that are allowed, then other options.
/** AuthenticationOk without a challenge. */
export const AUTH_TRUST = 0x1;
/** AuthenticationCleartextPassword. */
export const AUTH_CLEARTEXT = 0x2;
/** AuthenticationMD5Password. */
export const AUTH_MD5 = 0x4;
/** AuthenticationSASL with SCRAM-SHA-256. */
export const AUTH_SCRAM_SHA_256 = 0x8;
/** Cleartext is refused only because the link is not encrypted; the error then says so. */
export const CLEARTEXT_WANTS_TLS = 0x10;
/** Cleartext is refused only because the server's certificate was not verified; the error then says so. */
export const CLEARTEXT_WANTS_VERIFIED_TLS = 0x100;
/** SCRAM stops at a `keyDerivation` event and waits for `prove`. Without it the core derives the key. */
export const EXTERNAL_KEY_DERIVATION = 0x20;
/** Operations requested during authentication are sent directly after the last password message. */
export const EARLY_QUERY = 0x40;
/** Statements get a name at their first use instead of their second. */
export const NAME_FIRST_USE = 0x80;
/** SASLInitialResponse for SCRAM-SHA-256 is sent with StartupMessage, because the server is expected to request it. */
export const SCRAM_FIRST = 0x200;
/** PasswordMessage with the password in clear text is sent with StartupMessage. */
export const CLEARTEXT_FIRST = 0x400;
/** With `SCRAM_FIRST`: use SCRAM-SHA-256-PLUS. Needs `channel_binding`. */
export const SCRAM_PLUS_FIRST = 0x800;
/** Only a login by SCRAM-SHA-256-PLUS is accepted. */
export const CHANNEL_BINDING_REQUIRED = 0x1000;

// Row formats: the low byte of a row form.
/** Rows are counted, not encoded. */
export const ROWS_NONE = 0;
/** One object per line. */
export const ROWS_NDJSON = 1;
/** One JSON array per line. */
export const ROWS_ARRAYS = 2;
/** One array of objects. */
export const ROWS_JSON = 3;
/** The column names once, rows as arrays. */
export const ROWS_COLUMNAR = 4;
/** pgz's dialect of TOON. */
export const ROWS_TOON = 5;
/** CSV by RFC 4180. */
export const ROWS_CSV = 6;
/** Batches of slots, from which JavaScript makes its values (src/encode/columns.rs). */
export const ROWS_COLUMNS = 7;

// The other bits of a row form.
/** The bits of the row format. */
export const ROWS_FORMAT = 0xff;
/** int8 as text, for readers whose numbers are doubles. */
export const INT8_AS_STRING = 0x100;
/** numeric as text. */
export const NUMERIC_AS_STRING = 0x200;
/** The second column `id` becomes `id_2`. */
export const RENAME_DUPLICATES = 0x400;
/** CSV starts with the names of the columns. */
export const CSV_HEADER = 0x800;
/** json and jsonb as text. */
export const JSON_AS_STRING = 0x1000;
/**
 * For `execute`: JavaScript has kept the shape's last `columns` event. Another one is sent only if the columns differ.
 */
export const COLUMNS_KNOWN = 0x2000;
/** In CSV, text that a spreadsheet would take for a formula gets an apostrophe. */
export const ESCAPE_FORMULAS = 0x4000;
/** The column `created_at` becomes `createdAt`. */
export const CAMEL_CASE = 0x8000;
/**
 * For `execute`: the server parses the statement for this run, without a name. A statement that it has parsed keeps its
 * tables when another table takes the name of one, in a schema that comes first.
 */
export const PARSE_ANEW = 0x10000;

// Indexes into `limits`. 0 or a missing element means no limit.
/** Maximum number of rows. */
export const LIMIT_ROWS = 0;
/** Maximum number of bytes of output, including the text around the rows. */
export const LIMIT_BYTES = 1;
/** Maximum number of bytes of one field, as the server sends it. */
export const LIMIT_FIELD_BYTES = 2;
/** 1: a cap that trips ends the output properly instead of failing the operation. */
export const LIMIT_TRUNCATE = 3;
/** For `execute`: maximum number of rows per Execute. The portal then stays open for `fetch`. */
export const LIMIT_FETCH = 4;

// The COPY that `simple_query` is for.
/** None: a COPY is refused. */
export const COPY_NONE = 0;
/** COPY FROM STDIN. */
export const COPY_IN = 1;
/** COPY TO STDOUT; its data is the rows. */
export const COPY_OUT = 2;
/** COPY TO STDOUT in binary, encoded as rows of the columns that were described last. */
export const COPY_ROWS = 3;

// The messages after the items of `batch_items`.
/** None: more items follow. */
export const BATCH_CONTINUES = 0;
/** Sync: the items were the last. */
export const BATCH_ENDS = 1;
/** An Execute that fails, then Sync, so that the server undoes an atomic batch. */
export const BATCH_IS_UNDONE = 2;

// Kinds of database types, for `define_types`.
/** A domain, an enum or a type of an extension, with the binary form of the other type. */
export const TYPE_SAME = 0;
/** An array of the other type. */
export const TYPE_ARRAY = 1;
/** A range of the other type. */
export const TYPE_RANGE = 2;
/** A multirange of the other type, which is a range. */
export const TYPE_MULTIRANGE = 3;
/** A composite type. */
export const TYPE_COMPOSITE = 4;
/** A base type without a binary form here. In place of the other type: the delimiter of its arrays. */
export const TYPE_TEXT = 5;

// Layouts that only types of extensions have, given in place of an OID.
/** hstore. */
export const LAYOUT_HSTORE = 1;
/** vector of pgvector. */
export const LAYOUT_VECTOR = 2;

// Kinds of heads in a batch of changes (src/replication/batch.rs).
/** A change as JSON. */
export const CHANGE_LINE = 0;
/** The kinds of a table's columns. */
export const CHANGE_COLUMNS = 1;
/** An inserted row. */
export const CHANGE_INSERT = 2;
/** An updated row, of which all new values have arrived and no old row. */
export const CHANGE_UPDATE = 3;
/** A transaction begins. */
export const CHANGE_BEGIN = 4;
/** A transaction commits. */
export const CHANGE_COMMIT = 5;

// Kinds of columns, in the head of a batch of slots (src/encode/columns.rs).
/** i32 value, i32 1 for NULL. */
export const SLOT_INT = 0;
/** The same as INT, for a boolean. */
export const SLOT_BOOL = 1;
/** f64. */
export const SLOT_FLOAT = 2;
/** i32 number of UTF-16 units, i32 number of bytes in the text block. */
export const SLOT_TEXT = 3;
/** No slot: the next element of the JSON array. */
export const SLOT_JSON = 4;

// Formats of encoded output by their names: how the core calls them, what HTTP calls them, and whether a result that
// a cap has cut can say so.
export const FORMATS = {
  /** One object per line. */
  ndjson: { code: ROWS_NDJSON, contentType: "application/x-ndjson; charset=utf-8", truncates: true },
  /** One array of objects. */
  json: { code: ROWS_JSON, contentType: "application/json", truncates: true },
  /** The column names once, rows as arrays. */
  columnar: { code: ROWS_COLUMNAR, contentType: "application/json", truncates: true },
  /** pgz's dialect of TOON. */
  toon: { code: ROWS_TOON, contentType: "text/plain; charset=utf-8", truncates: false },
  /** CSV by RFC 4180. */
  csv: { code: ROWS_CSV, contentType: "text/csv; charset=utf-8", truncates: false },
} as const;
