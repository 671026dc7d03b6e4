// From batches as the core writes them (row format 7, src/encode/columns.rs) to JavaScript rows.
//
// Knows the layout of a batch and how objects are built. What a value becomes beyond number, boolean, text and JSON is converters.ts'
// business. Must not know queries or connections. No code is generated: Workers forbid it.
import { converter, type ValuePolicy } from "./converters.ts";
import type { Column } from "./boundary.ts";

/** Kinds of columns, in the head of a batch. */
const INT = 0;
const BOOL = 1;
const FLOAT = 2;
const TEXT = 3;

export type RowMode = "object" | "array";
/** Rows of one batch. `view` may be a view of wasm memory; nothing of it is kept. */
export type RowDecoder = (view: Uint8Array) => unknown[];

/**
 * What decodes the rows of one result.
 *
 * Objects are plain, with one own property per column name; of two columns with one name the last wins. In mode `"array"` a
 * row has all columns in order.
 */
export function rowDecoder(columns: readonly Column[], policy: ValuePolicy, mode: RowMode): RowDecoder {
  const width = columns.length;
  const names = columns.map(({ name }) => name);
  // A copy of one object with all the names, and values stored over its own: half the time of adding them one by one to `{}` (measured), any number
  // of columns keeps a hidden class, and a column named `__proto__` is as any other, since JSON.parse makes it an own property.
  const template = mode === "array" ? undefined : (JSON.parse(`{${names.map((name) => `${JSON.stringify(name)}:null`).join()}}`) as Record<string, unknown>);
  let converters: ReturnType<typeof converter>[] | undefined;
  let plain = true;
  return (view) => {
    const { rowCount, kinds, ints, floats, text, json, textOf } = open(view, width, policy.parsers !== undefined);
    // The kinds are the same in each batch.
    if (!converters) {
      converters = columns.map((column, index) => converter(column, policy, (kinds[index] as number) > TEXT));
      plain = !converters.some(Boolean);
    }
    const rows = new Array<unknown>(rowCount);
    let slot = 0;
    let at = 0;
    let next = 0;
    for (let number = 0; number < rowCount; number++) {
      const row: Record<string | number, unknown> = template ? { ...template } : (new Array<unknown>(width) as never);
      for (let index = 0; index < width; index++) {
        let value: unknown;
        switch (kinds[index]) {
          case INT:
            value = ints[slot + 1] ? null : ints[slot];
            slot += 2;
            break;
          case BOOL:
            value = ints[slot + 1] ? null : ints[slot] === 1;
            slot += 2;
            break;
          case FLOAT: {
            const float = floats[slot >> 1] as number;
            value = float !== float && ints[slot] ? null : float;
            slot += 2;
            break;
          }
          case TEXT: {
            const length = ints[slot] as number;
            if (length < 0) value = null;
            else if (textOf) value = textOf(ints[slot + 1] as number);
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
        row[template ? (names[index] as string) : index] = value;
      }
      rows[number] = row;
    }
    return rows;
  };
}

interface Batch {
  readonly rowCount: number;
  readonly kinds: Uint8Array;
  /** Two per slot. */
  readonly ints: Int32Array;
  readonly floats: Float64Array;
  readonly text: string;
  readonly json: readonly unknown[];
  /** Where a text is not UTF-8: the next of so many bytes. */
  readonly textOf: ((length: number) => string) | undefined;
}

/** The server's text keeps a leading U+FEFF; what is no UTF-8 shows as U+FFFD. */
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** Where slots are decoded: aligned, which the view need not be, and no new memory per batch, which costs more in collections than the copy. */
let scratch = new Uint8Array(0);
/** Larger batches have memory of their own. */
const SCRATCH = 1 << 20;

/** `own`: code of the user's runs meanwhile, which might get here again. */
function open(view: Uint8Array, width: number, own: boolean): Batch {
  const end = view.length - 16;
  const tail = new DataView(view.buffer, view.byteOffset + end);
  const number = (index: number) => tail.getUint32(4 * index, true);
  const json = end - number(2);
  const text = json - number(1);
  const head = (4 + width + 7) & ~7;
  let slots = scratch;
  if (own || text > SCRATCH) slots = view.slice(0, text);
  else {
    if (scratch.length < text) slots = scratch = new Uint8Array(2 * text);
    slots.set(view.subarray(0, text));
  }
  const { buffer } = slots;
  const invalid = number(3) ? view.slice(text, json) : undefined;
  let at = 0;
  return {
    rowCount: number(0),
    kinds: view.slice(4, 4 + width),
    ints: new Int32Array(buffer, head, (text - head) >> 2),
    floats: new Float64Array(buffer, head, (text - head) >> 3),
    text: decoder.decode(view.subarray(text, json)),
    json: json < end ? (JSON.parse(decoder.decode(view.subarray(json, end))) as unknown[]) : [],
    textOf: invalid && ((length) => decoder.decode(invalid.subarray(at, (at += length)))),
  };
}
