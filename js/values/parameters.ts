// Encodes JavaScript values as the middle of a Bind message, each for the parameter's real type.
//
//   int16 n · n × int16 format code · int16 n · n × (int32 length, -1 for NULL · bytes)
//
// Knows: which values are sent in binary and which as text. binary-values.ts and text-values.ts write them. Must not
// know: connections, results. Errors name the parameter and its type, never the value, and come before the statement
// runs.
//
// This is JavaScript and not part of the core, because the values are JavaScript's. To cross into wasm, each would need
// a type tag, which is as much work as writing its wire form. COPY of typed rows is encoded here for the same reason.

import { PgzError, UsageError } from "../util/errors.ts";
import { PIECE } from "../util/limits.ts";
import { writeBinary } from "./binary-values.ts";
import { Block } from "./block.ts";
import { elements, names } from "./element-types.ts";
import { BOOL, BYTEA, FLOAT4, FLOAT8, INT2, INT4, INT8, OID } from "./oid.ts";
import { arrayLiteral, textOf, unreadable, type Where } from "./text-values.ts";

export { binaryWriter, numbers, takesText, type BinaryWriter } from "./binary-values.ts";
export { Block } from "./block.ts";
export type { Where } from "./text-values.ts";

/**
 * Returns the encoded block, which the next call overwrites.
 *
 * docs/queries.md has the table of what each type takes.
 *
 * @throws UsageError `INVALID_QUERY` (another number of values), `TOO_MANY_PARAMETERS`, `INVALID_PARAMETER`,
 * `PARAMETER_OUT_OF_RANGE`, `PARAMETERS_TOO_LARGE`
 */
export function encodeParameters(values: readonly unknown[], types: ArrayLike<number>): Uint8Array {
  if (busy) return encoded(new Block(), values, types);
  busy = true;
  try {
    if (scratch.bytes.length > PIECE) scratch = new Block();
    scratch.length = 0;
    return encoded(scratch, values, types);
  } finally {
    busy = false;
  }
}

/** Reused: memory of its own would cost each call more than the encoding. */
let scratch = new Block();
/** Set while encoding. A value's own code runs meanwhile (toJSON), and might call this function again. */
let busy = false;

function encoded(block: Block, values: readonly unknown[], types: ArrayLike<number>): Uint8Array {
  appendParameters(block, values, types);
  return block.bytes.subarray(0, block.length);
}

/**
 * Appends the encoded values to `block`, for several executions in one buffer. If it throws, the caller must set
 * `block.length` back.
 */
export function appendParameters(block: Block, values: readonly unknown[], types: ArrayLike<number>): void {
  const count = values.length;
  checkCount(values);
  if (count !== types.length)
    throw new UsageError(
      "INVALID_QUERY",
      `The statement has ${types.length} parameters, but ${count} values were given.`,
    );
  const start = block.reserve(4 + 2 * count);
  // The memory may have been used before, and format codes are 0 by default.
  block.bytes.fill(0, start, block.length);
  block.view.setUint16(start, count);
  block.view.setUint16(start + 2 + 2 * count, count);
  for (let index = 0; index < count; index++) {
    const where = { index, type: types[index] as number };
    try {
      if (append(block, where, values[index])) block.view.setUint16(start + 2 + 2 * index, 1);
    } catch (error) {
      throw error instanceof PgzError ? error : unreadable(where, error);
    }
  }
}

/**
 * Writes one value. Returns whether it is in binary. Text is sent to the server unchanged, which knows more spellings;
 * only integers are read here.
 */
function append(block: Block, where: Where, value: unknown): boolean {
  const { type } = where;
  const kind = BINARY[type];
  const binary = value !== null && kind !== undefined && (kind === "" || kind === typeof value);
  if (value === null) block.null();
  else if (binary) writeBinary(block, where, type, value);
  // A string is sent unchanged, whatever the type.
  else if (typeof value !== "string" || !block.ascii(value)) block.text(literal(where, value));
  return binary;
}

/** Returns text that the type's input function reads. */
export function literal(where: Where, value: unknown): string {
  const { type } = where;
  // For a type that is known here and is no array type, an array must be a mistake, unless it is a multirange.
  return Array.isArray(value) && !names[type]
    ? arrayLiteral(where, elements[type] ?? 0, value, 1)
    : textOf(where, type, value);
}

/**
 * Called before anything is sent. The counts of Bind are 16 bits wide, and a server that describes more parameters
 * wraps its own count (seen).
 *
 * @throws UsageError `TOO_MANY_PARAMETERS`
 */
export function checkCount({ length }: readonly unknown[]): void {
  if (length > 0xffff)
    throw new UsageError("TOO_MANY_PARAMETERS", "Over 65535 parameters: use = any(array), or unnest().");
}

/** The types with values that are sent in binary, by the value's `typeof`. `""`: all values. */
const BINARY: Record<number, string> = {
  [BOOL]: "boolean",
  [BYTEA]: "object",
  [INT2]: "",
  [INT4]: "",
  [INT8]: "",
  [OID]: "",
  [FLOAT4]: "number",
  [FLOAT8]: "number",
};

/** Whether some values of the type are sent in binary, so that Parse must declare the type. */
export function goesInBinary(typeOid: number): boolean {
  return typeOid in BINARY;
}
