// From JavaScript values to the middle of a Bind message, each value encoded for the parameter's real type.
//
//   int16 n · n × int16 format code · int16 n · n × (int32 length, -1 for NULL · bytes)
//
// Knows: which values go in binary and which as text. What they become is in binary-values.ts and text-values.ts. Must
// not know: connections, results. Errors name the parameter and its type, never the value, and come before anything is
// sent.

import { UsageError } from "../util/errors.ts";
import { PIECE } from "../util/limits.ts";
import { writeBinary } from "./binary-values.ts";
import { Block } from "./block.ts";
import { elements, names, parts } from "./element-types.ts";
import { BOOL, BYTEA, FLOAT4, FLOAT8, INT2, INT4, INT8, OID } from "./oid.ts";
import { arrayLiteral, textOf, type Where } from "./text-values.ts";

export { binaryWriter, takesText, type BinaryWriter } from "./binary-values.ts";
export { Block } from "./block.ts";
export type { Where } from "./text-values.ts";

/**
 * The encoded block, which the next call writes over.
 *
 * What each type takes is the table of docs/queries.md.
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

/** Used again and again: memory of its own for each call costs more than what is done with it. */
let scratch = new Block();
/** A value's own code runs meanwhile (toJSON), which might get here again. */
let busy = false;

function encoded(block: Block, values: readonly unknown[], types: ArrayLike<number>): Uint8Array {
  appendParameters(block, values, types);
  return block.bytes.subarray(0, block.length);
}

/**
 * The same behind what `block` holds already, for several executions in one buffer. When it throws, `block.length` is
 * the caller's to set back.
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
  // The room may have been used before: the format codes must be 0 to begin with.
  block.bytes.fill(0, start, block.length);
  block.view.setUint16(start, count);
  block.view.setUint16(start + 2 + 2 * count, count);
  for (let index = 0; index < count; index++) {
    const type = types[index] as number;
    if (append(block, { index, type }, values[index])) block.view.setUint16(start + 2 + 2 * index, 1);
  }
}

/**
 * Writes one value; returns whether in binary. Text is left to the server, which knows more spellings, but for
 * integers.
 */
function append(block: Block, where: Where, value: unknown): boolean {
  const { type } = where;
  const kind = BINARY[type];
  const binary = value !== null && kind !== undefined && (kind === "" || kind === typeof value);
  if (value === null) block.null();
  else if (binary) writeBinary(block, where, type, value);
  // A text is taken as it is, whatever the type.
  else if (typeof value !== "string" || !block.ascii(value)) block.text(literal(where, value));
  return binary;
}

/** What the type's input reads. */
export function literal(where: Where, value: unknown): string {
  const { type } = where;
  // An array for a type that is known here not to be one cannot be meant.
  return Array.isArray(value) && !names[type] && !parts[type]
    ? arrayLiteral(where, elements[type] ?? 0, value, 1)
    : textOf(where, type, value);
}

/**
 * Before anything is sent: the counts of Bind are 16 bits wide, and a server that describes more parameters wraps its
 * own (seen).
 *
 * @throws UsageError `TOO_MANY_PARAMETERS`
 */
export function checkCount({ length }: readonly unknown[]): void {
  if (length > 0xffff)
    throw new UsageError("TOO_MANY_PARAMETERS", `More than 65535 parameters: pass arrays, and unnest() them.`);
}

/** With the kind of value that goes in binary. */
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

/** Whether some values of the type go in binary, so that Parse must declare it. */
export function goesInBinary(typeOid: number): boolean {
  return typeOid in BINARY;
}
