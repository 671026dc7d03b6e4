// Turns batches as the core writes them (row format COLUMNS, src/encode/columns.rs) into JavaScript rows.
//
// Knows the layout of a batch and how objects are built. converters.ts decides what a value becomes beyond number,
// boolean, text and JSON. Must not know queries or connections. No code is generated: Workers forbid it.
import { converter, type ParsersByOid, type ValuePolicy } from "./converters.ts";
import { SLOT_BOOL, SLOT_FLOAT, SLOT_INT, SLOT_JSON, SLOT_TEXT, type Column } from "../wasm/boundary.ts";
import type { OwnBytes } from "../util/bytes.ts";

export type RowMode = "object" | "array";
/**
 * Decodes the rows of one batch. `view` may be a view of wasm memory; nothing of it is kept. `refused` is called with
 * the number of each row that a parser refuses, and why; that row is `undefined`. Without it the error is thrown.
 */
export type RowDecoder = (view: Uint8Array, refused?: (at: number, error: unknown) => void) => unknown[];

/**
 * Returns the decoder for the rows of one result.
 *
 * Objects are plain, with one own property per column name; of two columns with one name the last wins. In mode
 * `"array"` a row has all columns in order.
 */
export function rowDecoder(
  columns: readonly Column[],
  policy: ValuePolicy,
  mode: RowMode,
  parsers?: ParsersByOid,
): RowDecoder {
  let plan: RowPlan | undefined;
  return (view, refused) => {
    const batch = openBatch(view, parsers !== undefined);
    const width = columns.length;
    const kinds = batch.slots.bytes.subarray(4, 4 + width);
    // The next result of the same columns may have other kinds: a type was text until the catalog was asked for it.
    if (!plan || !isEqual(plan.kinds, kinds)) plan = planRows(columns, policy, mode, kinds.slice(), parsers);
    const offsets = { slot: headOf(width) >> 2, text: 0, json: 0 };
    return refused ? eachRow(plan, batch, offsets, refused) : rowsOf(plan, batch, batch.count, offsets);
  };
}

function eachRow(plan: RowPlan, batch: Batch, offsets: BatchOffsets, refused: (at: number, error: unknown) => void) {
  const unparsed = { ...plan, converters: [] };
  return Array.from({ length: batch.count }, (_, at) => {
    try {
      return rowsOf(plan, batch, 1, offsets)[0];
    } catch (error) {
      refused(at, error);
      rowsOf(unparsed, batch, 1, offsets); // the offsets after the row
      return undefined;
    }
  });
}

function isEqual(one: Uint8Array, other: Uint8Array): boolean {
  return one.every((byte, at) => byte === other[at]);
}

type Converter = ReturnType<typeof converter>;

/** How the rows of one form are built. */
export interface RowPlan {
  readonly names: readonly string[];
  /** What the slots of each column hold: one of `SLOT_…`. */
  readonly kinds: Uint8Array;
  readonly asArrays: boolean;
  /** One per column; empty if no value needs one. */
  readonly converters: readonly Converter[];
  /** Row objects are copies of this object. */
  template: Record<string, unknown> | undefined;
  /** How many rows were built without a template. */
  seen: number;
}

export function planRows(
  columns: readonly Pick<Column, "name" | "typeOid">[],
  policy: ValuePolicy,
  mode: RowMode,
  kinds: Uint8Array,
  parsers?: ParsersByOid,
): RowPlan {
  const names = columns.map(({ name }) => name);
  const all = columns.map((column, index) => converter(column as Column, policy, kinds[index] === SLOT_JSON, parsers));
  const template = names.includes("__proto__") ? templateOf(names) : undefined;
  const converters = all.some(Boolean) ? all : [];
  return { names, kinds, asArrays: mode === "array", converters, template, seen: 0 };
}

/** Where the values of the next row of a batch begin. */
export interface BatchOffsets {
  /** Index into the slots' 32-bit integers. */
  slot: number;
  /** In UTF-16 units; in bytes if a text is not UTF-8. */
  text: number;
  json: number;
}

/** Builds the next `count` rows from `offsets` on, and advances `offsets`. */
export function rowsOf(plan: RowPlan, batch: Batch, count: number, offsets: BatchOffsets): unknown[] {
  const { names, kinds, asArrays, converters } = plan;
  if (!asArrays && (plan.seen += count) > FEW) plan.template ??= templateOf(names);
  const { template } = plan;
  const { text, json, textOf } = batch;
  const { ints, floats } = batch.slots;
  const width = names.length;
  const plain = !converters.length;
  const rows = new Array<unknown>(count);
  let { slot, text: at, json: next } = offsets;
  for (let number = 0; number < count; number++) {
    const row: Record<string | number, unknown> = asArrays
      ? (new Array<unknown>(width) as never)
      : template
        ? { ...template }
        : {};
    for (let index = 0; index < width; index++) {
      let value: unknown;
      switch (kinds[index]) {
        case SLOT_INT:
          value = ints[slot + 1] ? null : ints[slot];
          slot += 2;
          break;
        case SLOT_BOOL:
          value = ints[slot + 1] ? null : ints[slot] === 1;
          slot += 2;
          break;
        case SLOT_FLOAT: {
          const float = floats[slot >> 1] as number;
          value = float !== float && ints[slot] ? null : float;
          slot += 2;
          break;
        }
        case SLOT_TEXT: {
          const length = ints[slot] as number;
          if (length < 0) value = null;
          else if (textOf) value = textOf(at, (at += ints[slot + 1] as number));
          else value = text.substring(at, (at += length));
          slot += 2;
          break;
        }
        default:
          value = json[next++];
      }
      if (!plain && value !== null) {
        const convert = converters[index];
        if (convert) value = convert(value);
      }
      row[asArrays ? index : (names[index] as string)] = value;
    }
    rows[number] = row;
  }
  offsets.slot = slot;
  offsets.text = at;
  offsets.json = next;
  return rows;
}

/** Up to this many rows, over all batches and runs, a template costs more than it saves. */
const FEW = 8;

/**
 * An object with all the names. Copying it and overwriting its values takes half the time of adding them one by one to
 * `{}` (measured). The copy keeps a hidden class for any number of columns. A column named `__proto__` is like any
 * other, since JSON.parse makes it an own property.
 */
function templateOf(names: readonly string[]): Record<string, unknown> {
  return JSON.parse(`{${names.map((name) => `${JSON.stringify(name)}:null`).join()}}`) as Record<string, unknown>;
}

/** The parts of one batch. */
export interface Batch {
  /** Number of rows, or of other things that the batch counts. */
  readonly count: number;
  readonly slots: Slots;
  readonly text: string;
  readonly json: readonly unknown[];
  /** Set if a text is not UTF-8: returns the text of these bytes. */
  readonly textOf: ((from: number, to: number) => string) | undefined;
}

/** The batch's head and slots, in aligned memory. */
interface Slots {
  readonly bytes: Uint8Array;
  /** Two integers per slot. */
  readonly ints: Int32Array;
  readonly floats: Float64Array;
}

const slotsIn = (bytes: OwnBytes): Slots => ({
  bytes,
  ints: new Int32Array(bytes.buffer),
  floats: new Float64Array(bytes.buffer),
});
const headOf = (width: number) => (4 + width + 7) & ~7;

/** Keeps a leading U+FEFF, as in the server's text. Bytes that are not UTF-8 become U+FFFD. */
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
const strict = new TextDecoder("utf-8", { ignoreBOM: true, fatal: true });
/** Reused: new memory for each batch costs more in garbage collections than the copy. */
let scratch = slotsIn(new Uint8Array(1 << 10));
/** Larger batches have memory of their own. */
const SCRATCH = 1 << 20;
const NONE: readonly unknown[] = [];

/** Bytes of a batch's last part: the number of its rows, and how many bytes of text and of JSON are before it. */
const TAIL = 12;

const numberAt = (view: Uint8Array, at: number): number =>
  (view[at]! | (view[at + 1]! << 8) | (view[at + 2]! << 16) | (view[at + 3]! << 24)) >>> 0;

/** Number of rows in a batch. */
export const countOf = (view: Uint8Array): number => numberAt(view, view.length - TAIL);

/**
 * Splits a batch into its parts, before its rows are built. The result is valid until the next batch is opened, unless
 * `own`: then the user's code runs meanwhile, which might call this function again.
 */
export function openBatch(view: Uint8Array, own: boolean): Batch {
  const end = view.length - TAIL;
  const json = end - numberAt(view, end + 8);
  const text = json - numberAt(view, end + 4);
  let slots = scratch;
  if (own || text > SCRATCH) slots = slotsIn(view.slice(0, text) as OwnBytes);
  else {
    if (scratch.bytes.length < text) slots = scratch = slotsIn(new Uint8Array(2 * text));
    // A small batch is copied whole, since a view of its part is more work than the rest's bytes.
    slots.bytes.set(view.length <= slots.bytes.length ? view : view.subarray(0, text));
  }
  const { units, textOf } = textsIn(view, text, json);
  return {
    count: countOf(view),
    slots,
    text: units,
    textOf,
    json: json < end ? (JSON.parse(decoder.decode(view.subarray(json, end))) as unknown[]) : NONE,
  };
}

function textsIn(view: Uint8Array, from: number, to: number): Pick<Batch, "textOf"> & { readonly units: string } {
  try {
    return { units: from < to ? strict.decode(view.subarray(from, to)) : "", textOf: undefined };
  } catch {
    // Not UTF-8, so the lengths in UTF-16 units are wrong: each text is decoded by itself.
    const kept = view.slice(from, to);
    return { units: "", textOf: (start, until) => decoder.decode(kept.subarray(start, until)) };
  }
}
