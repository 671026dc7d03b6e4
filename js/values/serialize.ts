// Option `serialize`: what the user's own code makes of parameters before they are encoded.
//
// Knows arrays, whose elements are values too. Must not know types, which may not be known yet.
import { UsageError } from "../util/errors.ts";

/**
 * Makes a value that the driver takes of one of your own: it gets each that is not null, and each element of arrays.
 */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- what comes is what the user passes
export type Serializer = (value: any) => unknown;

/** Dimensions of an array, as in the server. What lies deeper is refused later. */
const MOST_DIMENSIONS = 6;

export function serialized(values: readonly unknown[], serialize: Serializer): unknown[] {
  return values.map((value) => one(value, serialize, MOST_DIMENSIONS));
}

function one(value: unknown, serialize: Serializer, dimensions: number): unknown {
  if (value === null || value === undefined) return value;
  if (Array.isArray(value) && dimensions) return value.map((item) => one(item, serialize, dimensions - 1));
  const made = serialize(value);
  if (made !== undefined) return made;
  throw new UsageError(
    "INVALID_PARAMETER",
    'Option "serialize" gave undefined: return the value itself where there is nothing to do, and null for NULL.',
  );
}
