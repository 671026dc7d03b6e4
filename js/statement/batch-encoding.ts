// The items of a batch as the core takes them, in windows of whole items.
//
//   item:  int32 number of its statement · int32 length · the middle of Bind
//
// Knows parameters and that layout. Must not know the wire. Everything is encoded before anything is sent, so that a
// value that cannot be sent undoes nothing.
import type { Shape } from "../server/shapes.ts";
import { PIECE } from "../util/limits.ts";
import { appendParameters, Block } from "../values/parameters.ts";
import type { Query } from "./sql.ts";

/** Number of the statement, and length. */
const ITEM_HEADER = 8;

export interface EncodedBatch {
  /** The indexes of the queries in it. */
  readonly order: readonly number[];
  /** For each of these queries, the number of its statement. */
  readonly numbers: readonly number[];
  /** Encoded items; each window holds whole ones. */
  readonly windows: readonly Uint8Array[];
  /** The statements, by their numbers in the batch. */
  readonly statements: readonly Shape[];
}

/** Encodes these of the queries. `refuse` receives a value that cannot be sent: it throws, or the item is left out. */
export function encodeBatch(
  queries: readonly Query[],
  indexes: readonly number[],
  shapes: ReadonlyMap<string, Shape>,
  refuse: (index: number, error: unknown) => void,
): EncodedBatch {
  const order: number[] = [];
  const numbers: number[] = [];
  const windows: Uint8Array[] = [];
  const statements = new Map<Shape, number>();
  let block = new Block();
  const closeWindow = () => void windows.push(block.bytes.subarray(0, block.length));
  for (const index of indexes) {
    const { text, values } = queries[index]!;
    const shape = shapes.get(text)!;
    let number = statements.get(shape);
    if (number === undefined) statements.set(shape, (number = statements.size));
    const start = block.reserve(ITEM_HEADER);
    try {
      appendParameters(block, values, shape.parameterTypes);
    } catch (error) {
      refuse(index, error);
      block.length = start;
      continue;
    }
    order.push(index);
    numbers.push(number);
    block.view.setUint32(start, number);
    block.view.setUint32(start + 4, block.length - start - ITEM_HEADER);
    if (block.length < PIECE) continue;
    closeWindow();
    block = new Block();
  }
  if (block.length || !windows.length) closeWindow();
  return { order, numbers, windows, statements: [...statements.keys()] };
}
