// All that crosses into wasm: the shape of `CoreConnection` (docs/architecture.md, The boundary), and `Core`, the only caller of it.
//
// `Core` counts calls and copied bytes, makes every view anew (wasm memory moves when it grows) and turns a trap into one error
// for all connections of the instance. Knows no socket and no SQL; the wasm itself comes from module.ts.
import type { LimitName, PgzError } from "../util/errors.ts";

/** Bits of the status that `receive` and every command return. */
export const OUTPUT = 1;
export const ROWS = 2;
export const EVENT = 4;
export const MORE = 8;
export const BUSY = 16;
export const CLOSED = 32;
export const ROWS_FULL = 64;

/** How the core is to write rows: one of these, and any of the bits behind them (src/encode/form.rs, `RowForm::from_code`). */
export const ROWS_NONE = 0;
export const ROWS_NDJSON = 1;
/** One JSON array per row and line. */
export const ROWS_ARRAYS = 2;
export const ROWS_JSON = 3;
export const ROWS_COLUMNAR = 4;
export const ROWS_TOON = 5;
export const ROWS_CSV = 6;
/** Batches for objects.ts. */
export const ROWS_COLUMNS = 7;
export const INT8_AS_STRING = 0x100;
export const NUMERIC_AS_STRING = 0x200;
export const RENAME_DUPLICATES = 0x400;
export const CSV_HEADER = 0x800;
export const JSON_AS_STRING = 0x1000;
/** Of `execute`: the columns of the shape's last `columns` event hold until another comes. */
export const COLUMNS_KNOWN = 0x2000;

/** Options of `start`: the methods of authentication that the server may ask for (src/connection/settings.rs, `Login`). */
export const AUTH_TRUST = 1, AUTH_CLEARTEXT = 2, AUTH_MD5 = 4, AUTH_SCRAM_SHA_256 = 8;
/** Why cleartext is not among them, so that its refusal can say what to do. */
export const CLEARTEXT_WANTS_TLS = 16, CLEARTEXT_WANTS_VERIFIED_TLS = 256;
/** Options of `start` besides the allowed methods of authentication: SCRAM's keys are derived by JavaScript; a query may leave before the server has let us in; statements get a name at their first use. */
export const EXTERNAL_KEY_DERIVATION = 32, EARLY_QUERY = 64, NAME_FIRST_USE = 128;

/** What `simple_query` may be (src/connection/simple_query.rs, `Copy`). */
export const COPY_NONE = 0;
export const COPY_IN = 1;
export const COPY_OUT = 2;
export const COPY_ROWS = 3;

/** Caps of one operation: rows, bytes, bytes of a field, 1 to truncate; 0: none. `execute` takes one more: rows of one Execute, whose portal then stays open. Empty: none of all. */
export type Limits = Float64Array;

export function limitsOf(...limits: number[]): Limits {
  return limits.some(Boolean) ? Float64Array.from(limits) : NO_LIMITS;
}

export const NO_LIMITS: Limits = new Float64Array();

/** A column of a result, as RowDescription has it. */
export interface Column {
  readonly name: string;
  /** The table that it comes from; 0 if it is not a table's column. */
  readonly tableOid: number;
  /** Its number in that table; 0 if it is not a table's column. */
  readonly columnAttributeNumber: number;
  readonly typeOid: number;
  /** Bytes of the type, negative for variable-width types (`pg_type.typlen`). */
  readonly typeSize: number;
  /** The type's modifier, such as a length (`pg_attribute.atttypmod`); -1 if there is none. */
  readonly typeModifier: number;
  /** 0: the values came as text. 1: in binary. */
  readonly formatCode: number;
}

export type Fields = Readonly<Record<string, string>>;

export type Event =
  | { kind: "parameterStatus"; name: string; value: string }
  | { kind: "notice"; fields: Fields }
  | { kind: "error"; bound: boolean; fields: Fields }
  | { kind: "shapeChanged"; typeOid: number }
  | { kind: "notification"; processId: number; channel: string; payload: string }
  | { kind: "backendKeyData"; processId: number }
  | { kind: "tls"; accepted: boolean }
  | { kind: "keyDerivation"; salt: string; iterations: number }
  | { kind: "md5"; salt: number }
  | { kind: "shape"; parameterTypes: number[]; columns: Column[]; resultFormats: number[] }
  | { kind: "columns"; shape: number; columns: Column[] }
  | { kind: "complete"; command: string; rowCount: number | null }
  | { kind: "suspended" }
  | { kind: "items"; items: Outcomes }
  | { kind: "switch"; statement: number }
  | { kind: "limit"; limit: LimitName; value: number; observed: number; truncated: boolean }
  | { kind: "copy"; direction: "in" | "out" }
  | { kind: "ready"; status: "I" | "T" | "E"; command?: string; rowCount?: number | null }
  | { kind: "failure"; code: string; message: string; detail?: string | null };

/** Three for each item of a batch that is over: command, its count (both null where it failed), rows or bytes that it has put out. */
export type Outcomes = readonly (string | number | null)[];

/** The wasm object, of the class that wasm-bindgen generates from src/wasm/lib.rs. */
export interface CoreConnection {
  /** Gives its memory back; only in the instance that made it, see module.ts. */
  free(): void;
  request_tls(): number;
  start(
    protocolVersion: number, parameters: string, password: string | undefined, nonce: string, options: number, maxIterations: number, flushBytes: number,
  ): number;
  prove(answer: Uint8Array): number;
  /** Where `n` bytes may be put; 0: there is no memory for them, and the connection has failed. */
  input(n: number): number;
  receive(n: number): number;
  /** Runs `sql` in front of the next `execute`, in its flight. */
  prelude(sql: string): void;
  take_output(): Uint8Array;
  rows_pointer(): number;
  rows_length(): number;
  rows_taken(): void;
  /** All that wait, one per line. */
  take_events(): Uint8Array;
  /** `shapeId`: the statement stays prepared for it; 0: for none. */
  describe(sql: string, shapeId: number): number;
  /** All types of the database that it is to know: src/types/catalog.rs says how. */
  define_types(types: Uint32Array, attributes: Uint32Array, names: string): void;
  /** 1: can be read in binary. */
  result_format(typeOid: number): number;
  /** `statement`: as `encodedStatement` makes it; `parameters`: the middle of Bind. */
  execute(shapeId: number, statement: Uint8Array, parameters: Uint8Array, rowForm: number, limits: Limits): number;
  fetch(): number;
  close_portal(): number;
  /** `copy`: COPY_NONE or the COPY that it may be. */
  simple_query(sql: string, copy: number, rowForm: number, limits: Limits): number;
  /** What stands in front of so many bytes of data, as output; nothing when the server wants none. */
  copy_data(length: number): void;
  /** With a reason: CopyFail. */
  copy_end(reason: string | undefined): number;
  batch(isolated: boolean, rowForm: number, limits: Limits): number;
  /** Its number in the batch. */
  batch_statement(shapeId: number, statement: Uint8Array): number;
  /** Each item: int32 statement, int32 length, the middle of Bind. 1: they are the last; 2: and nothing of an atomic batch is wanted any more. */
  batch_items(items: Uint8Array, end: 0 | 1 | 2): number;
  forget(shapeId: number): void;
  discard(): number;
  cancel_request(): Uint8Array;
  terminate(): number;
}

/** Counters of the WebAssembly boundary. Tests bound calls and copied bytes per chunk with them. */
export interface BoundaryStats {
  /** Calls into WebAssembly. */
  boundaryCalls: number;
  /** Bytes copied across: chunks in, output out, and rows that were copied for a consumer that keeps them. */
  copiedBytes: number;
  /** Bytes that came from the socket. */
  receivedBytes: number;
  /** The chunks that they came in. */
  receivedChunks: number;
}

/** What module.ts lends to a `Core`: the instance it lives in. */
export interface Instance {
  readonly memory: WebAssembly.Memory;
  /** A call threw: ends every connection of the instance and returns the error for it. */
  poison(cause: unknown): PgzError;
  /** Frees the core's object, which nobody calls any more. */
  release(core: Core, handle: CoreConnection): void;
}

const takeEvents = (handle: CoreConnection) => handle.take_events();
const takeOutput = (handle: CoreConnection) => handle.take_output();
const rowsLength = (handle: CoreConnection) => handle.rows_length();
const rowsPointer = (handle: CoreConnection) => handle.rows_pointer();
const rowsTaken = (handle: CoreConnection) => handle.rows_taken();

/** The server's text need not be UTF-8; what is none shows as U+FFFD. */
const utf8 = new TextDecoder();

const MOST_ANSWERS = 4, LONGEST_ANSWER = 4_096;

function same(one: Uint8Array, other: Uint8Array): boolean {
  let at = one.length;
  if (at !== other.length) return false;
  while (at--) if (one[at] !== other[at]) return false;
  return true;
}

export class Core {
  readonly stats: BoundaryStats = { boundaryCalls: 0, copiedBytes: 0, receivedBytes: 0, receivedChunks: 0 };
  /** Called when the instance is gone, whichever connection's call trapped. */
  onTrap: (error: PgzError) => void = () => {};
  #handle: CoreConnection | undefined;
  readonly #instance: Instance;
  /** The events that came last, as they came and as they are. */
  readonly #answers: { readonly bytes: Uint8Array; readonly events: readonly Event[] }[] = [];
  /** Why there is no handle any more. */
  #gone: PgzError | undefined;

  constructor(handle: CoreConnection, instance: Instance) {
    this.#handle = handle;
    this.#instance = instance;
  }

  /** One command, by name: `core.call((core) => core.describe(sql))`. Throws only after a trap. */
  call<T>(command: (handle: CoreConnection) => T): T {
    const handle = this.#handle;
    // Who asks has not heard yet that the connection is over, which must not poison the others.
    if (!handle) throw this.#gone ?? new Error("a call on a closed core");
    this.stats.boundaryCalls++;
    try {
      return command(handle);
    } catch (cause) {
      throw this.#instance.poison(cause);
    }
  }

  get open(): boolean {
    return this.#handle !== undefined;
  }

  receive(chunk: Uint8Array): number {
    const { length } = chunk;
    this.stats.copiedBytes += length;
    this.stats.receivedBytes += length;
    this.stats.receivedChunks++;
    const pointer = this.call((handle) => handle.input(length));
    // Without memory for it there is no room: the core has failed, which `receive` tells.
    if (pointer) new Uint8Array(this.#instance.memory.buffer, pointer, length).set(chunk);
    return this.call((handle) => handle.receive(length));
  }

  receiveMore(): number {
    return this.call((handle) => handle.receive(0));
  }

  takeOutput(): Uint8Array {
    const bytes = this.call(takeOutput);
    this.stats.copiedBytes += bytes.length;
    return bytes;
  }

  /** Those that wait, oldest first. Not to be changed: most answers are like one before, and so are their events. */
  takeEvents(): readonly Event[] {
    const bytes = this.call(takeEvents);
    let known = this.#answers.find((answer) => same(answer.bytes, bytes));
    if (!known) {
      // No line of JSON has a newline within.
      known = { bytes, events: JSON.parse(`[${utf8.decode(bytes).replaceAll("\n", ",")}]`) as Event[] };
      if (bytes.length <= LONGEST_ANSWER && this.#answers.push(known) > MOST_ANSWERS) this.#answers.shift();
    }
    return known.events;
  }

  /** Lends the waiting rows to `use`, as a view that is valid until it returns, and drops them. */
  takeRows(use: (view: Uint8Array) => void): void {
    const length = this.call(rowsLength);
    if (length === 0) return;
    const pointer = this.call(rowsPointer);
    try {
      use(new Uint8Array(this.#instance.memory.buffer, pointer, length));
    } finally {
      if (this.open) this.dropRows();
    }
  }

  dropRows(): void {
    this.call(rowsTaken);
  }

  /** Gives the wasm memory back. May be called at any time, again too. Later calls throw `gone`. */
  free(gone?: PgzError): void {
    const handle = this.#handle;
    if (!handle) return;
    this.#handle = undefined;
    this.#gone = gone;
    this.#instance.release(this, handle);
  }

  /** The instance is gone. */
  abandon(error: PgzError): void {
    this.#handle = undefined;
    this.#gone = error;
    this.onTrap(error);
  }
}
