// Option `serialize`: the user's own code changes parameters before they are encoded.
//
// Knows arrays, whose elements are values too. Must not know types, which may not be known yet.
import { UsageError } from "../util/errors.ts";

/**
 * Turns one of your values into a value that the driver takes. It is called with each value that is not null, and with
 * each element of an array.
 */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- what comes is what the user passes
export type Serializer = (value: any) => unknown;

/** Maximum dimensions of an array, as in the server. A deeper array is refused later. */
const MOST_DIMENSIONS = 6;

/** Lists that stay flat: of an item that became an array the server would make several rows. */
const flat = new WeakSet<object>();

export function keepFlat(values: unknown[]): unknown[] {
  flat.add(values);
  return values;
}

/** The values as they are sent. @internal */
export function serialized(values: readonly unknown[], serialize: Serializer): unknown[] {
  return values.map((value) => one(value, serialize, MOST_DIMENSIONS));
}

function one(value: unknown, serialize: Serializer, dimensions: number): unknown {
  if (value === null || value === undefined) return value;
  if (Array.isArray(value) && dimensions) {
    const items = value.map((item) => one(item, serialize, dimensions - 1));
    if (!flat.has(value) || !items.some(Array.isArray)) return items;
    throw new UsageError("INVALID_PARAMETER", 'Option "serialize" made an array of a value of unnest.');
  }
  const made = serialize(value);
  if (made !== undefined) return made;
  throw new UsageError(
    "INVALID_PARAMETER",
    'Option "serialize" returned undefined: return the value unchanged, or null for NULL.',
  );
}
