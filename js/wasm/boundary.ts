// Everything that crosses into wasm: the type of `CoreConnection` (docs/boundary.md), and `Core`, its only caller.
//
// `Core` counts calls and copied bytes, makes every view anew (wasm memory moves when it grows) and turns a trap into
// one error for all connections of the instance. Knows no socket and no SQL; the wasm itself comes from module.ts.
import { BoundedMap } from "../util/bounded.ts";
import type { LimitName, PgzError } from "../util/errors.ts";
import {
  COMPLETE,
  EVENT,
  LIMIT_BYTES,
  LIMIT_FETCH,
  LIMIT_FIELD_BYTES,
  LIMIT_ROWS,
  LIMIT_TRUNCATE,
  NEW_COMMAND,
  READY_FAILED,
  READY_IDLE,
  READY_IN_TRANSACTION,
} from "./numbers.ts";

export * from "./numbers.ts";

/** Caps of one operation, at the places `LIMIT_…`. */
export type Limits = Float64Array;

export const NO_LIMITS: Limits = new Float64Array();

/** Caps of one operation. 0 or `undefined`: no limit. */
interface Caps {
  readonly rows?: number | undefined;
  readonly bytes?: number | undefined;
  readonly fieldBytes?: number | undefined;
  readonly truncate?: boolean;
  /** Maximum number of rows of one Execute, whose portal then stays open. */
  readonly fetch?: number;
}

export function limitsOf({ rows = 0, bytes = 0, fieldBytes = 0, truncate = false, fetch = 0 }: Caps): Limits {
  if (!(rows || bytes || fieldBytes || truncate || fetch)) return NO_LIMITS;
  const limits = new Float64Array(LIMIT_FETCH + 1);
  limits[LIMIT_ROWS] = rows;
  limits[LIMIT_BYTES] = bytes;
  limits[LIMIT_FIELD_BYTES] = fieldBytes;
  limits[LIMIT_TRUNCATE] = Number(truncate);
  limits[LIMIT_FETCH] = fetch;
  return limits;
}

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

type Fields = Readonly<Record<string, string>>;

/** Events that cross as JSON (src/connection/event.rs). tests/unit/boundary-events.ts compares the two sides. */
export type JsonEvent =
  | { kind: "parameterStatus"; name: string; value: string }
  | { kind: "notice"; fields: Fields }
  | {
      kind: "error";
      bound: boolean;
      answered: boolean;
      part: "prelude" | "check" | "statement";
      fields: Fields;
    }
  | { kind: "shapeChanged"; typeOid: number }
  | { kind: "notification"; processId: number; channel: string; payload: string }
  | { kind: "backendKeyData"; processId: number }
  | { kind: "tls"; accepted: boolean }
  | { kind: "sasl"; mechanisms: string[] }
  | { kind: "keyDerivation"; salt: string; iterations: number }
  | { kind: "md5"; salt: number }
  | { kind: "shape"; parameterTypes: number[]; columns: Column[]; resultFormats: number[] }
  | { kind: "columns"; shape: number; columns: Column[] }
  | { kind: "suspended" }
  | { kind: "items"; commands: string[]; items: number[] }
  | { kind: "switch"; statement: number }
  | { kind: "limit"; limit: LimitName; value: number; observed: number; truncated: boolean }
  | { kind: "copy"; direction: "in" | "out" }
  | { kind: "unreadable"; code: string; message: string; detail: string }
  | { kind: "failure"; code: string; message: string; detail: string };

/** What the core reports besides rows. The last two come with every query, so they cross as numbers. */
export type Event =
  | JsonEvent
  | { kind: "complete"; command: string; rowCount: number | null }
  | { kind: "ready"; status: "I" | "T" | "E" };

export type EventOf<Kind extends Event["kind"]> = Extract<Event, { kind: Kind }>;

/** The outcome of an item of a batch. */
export interface ItemOutcome {
  /** `null`: it failed. */
  readonly command: string | null;
  readonly rowCount: number | null;
  /** Rows that became values, or bytes of output that the item has produced. */
  readonly output: number;
}

/** Returns the outcomes in the order of the items (src/connection/outcomes.rs). */
export function outcomesOf({ commands, items }: EventOf<"items">): ItemOutcome[] {
  const outcomes: ItemOutcome[] = [];
  for (let at = 0; at < items.length; at += 3) {
    const [command, rowCount, output] = [items[at]!, items[at + 1]!, items[at + 2]!];
    outcomes.push({ command: commands[command] ?? null, rowCount: rowCount < 0 ? null : rowCount, output });
  }
  return outcomes;
}

/** The wasm object, of the class that wasm-bindgen generates from src/wasm/lib.rs. */
export interface CoreConnection {
  /** Frees its memory. May be called only in the instance that made it, see module.ts. */
  free(): void;
  request_tls(): number;
  start(
    protocolVersion: number,
    parameters: string,
    password: string | undefined,
    nonce: string,
    options: number,
    minIterations: number,
    maxIterations: number,
    flushBytes: number,
    channelBinding: Uint8Array,
  ): number;
  prove(answer: Uint8Array): number;
  /** Returns the address for `n` bytes; 0: there is no memory for them, and the connection has failed. */
  input(n: number): number;
  /** The status also has bits for what has ended with this input. */
  receive(n: number): number;
  /** The row count of the completed command; -1: the command counts no rows. */
  row_count(): number;
  /** The name of the completed command, as the tag has it. */
  command(): string;
  /**
   * Runs `sql` in front of the next `describe`, `execute`, `first_run` or `batch`, in its flight, after earlier
   * preludes.
   */
  prelude(sql: string): void;
  take_output(): Uint8Array;
  rows_pointer(): number;
  rows_length(): number;
  rows_taken(): void;
  /** All waiting events, one per line. */
  take_events(): string;
  /** `shapeId`: the shape that the statement stays prepared for; 0: none. */
  describe(sql: string, shapeId: number): number;
  /** All types of the database that the core must know, in the layout of src/types/catalog.rs. */
  define_types(types: Uint32Array, attributes: Uint32Array, names: string): void;
  /** Times may be floats in binary: from now on the core requests text and refuses binary where that would show. */
  float_times(): void;
  /** From now on notices become events. Until then only that with 25P01 does. */
  want_notices(): void;
  /** 1: the core can read the type in binary. */
  result_format(typeOid: number): number;
  /**
   * `statement`: as `encodedStatement` makes it; `parameters`: the middle of Bind; `shapeId` 0: the statement is not
   * kept.
   */
  execute(shapeId: number, statement: Uint8Array, parameters: Uint8Array, rowForm: number, limits: Limits): number;
  /**
   * `parameters`: the middle of Bind, as text only. `check`: a statement without parameters. `checkShapeId`: the id by
   * which the check is recognised, and prepared at its second use; 0: it is not kept.
   */
  first_run(
    shapeId: number,
    sql: string,
    parameters: Uint8Array,
    check: string,
    checkShapeId: number,
    rowForm: number,
    limits: Limits,
  ): number;
  fetch(): number;
  close_portal(): number;
  /** `copy`: COPY_NONE or the COPY that it may be. */
  simple_query(sql: string, copy: number, rowForm: number, limits: Limits): number;
  /** Puts the header of so many bytes of data into the output; puts nothing there if the server wants no more data. */
  copy_data(length: number): void;
  /** With a reason: CopyFail. */
  copy_end(reason: string | undefined): number;
  batch(isolated: boolean, rowForm: number, limits: Limits): number;
  /** Returns the statement's number in the batch. */
  batch_statement(shapeId: number, statement: Uint8Array): number;
  /** Each item: int32 statement, int32 length, the middle of Bind. `end`: one of BATCH_…. */
  batch_items(items: Uint8Array, end: number): number;
  forget(shapeId: number): void;
  discard(): number;
  cancel_request(): Uint8Array;
  holds_back(): boolean;
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
  /** Chunks that came from the socket. */
  receivedChunks: number;
}

/** The instance that a `Core` lives in, as module.ts lends it. */
export interface Instance {
  readonly memory: WebAssembly.Memory;
  /** Called when a call threw: ends every connection of the instance and returns the error for it. */
  poison(cause: unknown): PgzError;
  /** Frees the core's object, which is not called any more. */
  release(core: Core, handle: CoreConnection): void;
}

const takeEvents = (handle: CoreConnection) => handle.take_events();
const rowCount = (handle: CoreConnection) => handle.row_count();
const command = (handle: CoreConnection) => handle.command();
const takeOutput = (handle: CoreConnection) => handle.take_output();
const rowsLength = (handle: CoreConnection) => handle.rows_length();
const rowsPointer = (handle: CoreConnection) => handle.rows_pointer();
const rowsTaken = (handle: CoreConnection) => handle.rows_taken();

/** The bits of a status that say that `takeEvents` has something to return. */
export const TELLS = EVENT | COMPLETE | READY_IDLE | READY_IN_TRANSACTION | READY_FAILED;

const IDLE: Event = { kind: "ready", status: "I" };
const OPEN: Event = { kind: "ready", status: "T" };
const FAILED: Event = { kind: "ready", status: "E" };

/** Maximum number of event texts that a connection remembers, and of characters in one of them. */
const MOST_KNOWN = 8;
const LONGEST_KNOWN = 4_096;

export class Core {
  readonly stats: BoundaryStats = { boundaryCalls: 0, copiedBytes: 0, receivedBytes: 0, receivedChunks: 0 };
  /** Called when the instance is gone, whichever connection's call trapped. */
  onTrap: (error: PgzError) => void = () => {};
  #handle: CoreConnection | undefined;
  readonly #instance: Instance;
  /** The last command name that was asked for. */
  #command = "";
  /**
   * Parsed events by their text: the columns of a repeated query stay the same object, by which the decoder of its rows
   * is found.
   */
  readonly #known = new BoundedMap<string, readonly JsonEvent[]>(MOST_KNOWN);
  /** Why there is no handle any more. */
  #gone: PgzError | undefined;

  constructor(handle: CoreConnection, instance: Instance) {
    this.#handle = handle;
    this.#instance = instance;
  }

  /** Runs one command, by name: `core.call((core) => core.describe(sql))`. Throws only after a trap. */
  call<T>(command: (handle: CoreConnection) => T): T {
    const handle = this.#handle;
    // The caller does not know yet that the connection is over. That must not poison the others.
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
    // Without memory for the chunk there is no address: the core has failed, and `receive` reports it.
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

  /** Returns all events that this status reports, oldest first. The caller must not change them. */
  takeEvents(status: number): readonly Event[] {
    const json = status & EVENT ? this.#jsonEvents() : [];
    const complete = status & COMPLETE ? this.#complete(status) : undefined;
    const ready =
      status & READY_IDLE ? IDLE : status & READY_IN_TRANSACTION ? OPEN : status & READY_FAILED ? FAILED : undefined;
    // Of a known statement: an array that grows would begin with room for 17.
    if (!json.length && complete && ready) return [complete, ready];
    return [...json, complete, ready].filter(Boolean) as Event[];
  }

  #complete(status: number): Event {
    const count = this.call(rowCount);
    if (status & NEW_COMMAND) this.#command = this.call(command);
    return { kind: "complete", command: this.#command, rowCount: count < 0 ? null : count };
  }

  #jsonEvents(): readonly JsonEvent[] {
    const text = this.call(takeEvents);
    const known = this.#known.get(text);
    if (known) return known;
    const events = text.split("\n").map((line) => JSON.parse(line) as JsonEvent);
    if (text.length <= LONGEST_KNOWN) this.#known.set(text, events);
    return events;
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

  /** Frees the wasm memory. May be called at any time, and repeatedly. Later calls throw `gone`. */
  free(gone?: PgzError): void {
    const handle = this.#handle;
    if (!handle) return;
    this.#handle = undefined;
    this.#gone = gone;
    this.#instance.release(this, handle);
  }

  /** Called when the instance is gone. */
  abandon(error: PgzError): void {
    this.#handle = undefined;
    this.#gone = error;
    this.onTrap(error);
  }
}
