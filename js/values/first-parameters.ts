// Writes the values of a statement that has not been described yet: as text, with rules for a parameter's type. If they
// hold, the server makes of the text what it would make of the value's own form.
//
// Knows which values have such a text, and for which types the encoder (parameters.ts) would do something else. Must
// not know connections, or how a type is asked for.
import { bytesOf, hex, isBytes } from "../util/bytes.ts";
import { jsonTextOf } from "../util/json.ts";
import { isText } from "../util/text.ts";
import { Block } from "./block.ts";
import { BOOL, BYTEA, DATE, FLOAT4, INT2, INT4, INT8, INTERVAL, OID, TIME, TIMESTAMP, TIMESTAMPTZ } from "./oid.ts";

/** The types of a parameter for which a text means the same as its value. */
export interface TypeRule {
  /** The parameter's number, from 1. */
  readonly parameter: number;
  /** Whether the type must be one of `types`, or must not be. */
  readonly isOneOf: boolean;
  readonly types: readonly number[];
}

interface FirstParameters {
  /** The middle of a Bind message, all values as text. */
  readonly parameters: Uint8Array;
  /** No rule for a parameter of which every type would do. */
  readonly rules: readonly TypeRule[];
}

/** A value as text. `undefined` if it has no text that the server would read as the encoder does. */
type First = { readonly text: string; readonly isOneOf?: boolean; readonly types?: readonly number[] } | undefined;

/** Maximum bytes of a value that is sent as hexadecimal digits, twice as many bytes, to save a Describe. */
const LONGEST_BYTES = 16 << 10;

const INTEGERS = [INT2, INT4, INT8, OID];
/** For these types the encoder refuses a number, but the server would accept its digits. */
const NOT_OF_NUMBERS = [BOOL, BYTEA, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, INTERVAL];

/** Returns `undefined` if one of the values needs the types to be known first. */
export function firstParameters(values: readonly unknown[]): FirstParameters | undefined {
  // More values than Bind can count: the encoder throws for them.
  if (values.length > 0xffff) return undefined;
  const block = new Block();
  const rules: TypeRule[] = [];
  const start = block.reserve(4);
  block.view.setUint16(start, 0);
  block.view.setUint16(start + 2, values.length);
  for (const [index, value] of values.entries()) {
    if (value === null) {
      block.null();
      continue;
    }
    const first = textOrNone(value);
    if (!first || !isText(first.text)) return undefined;
    if (!block.ascii(first.text)) block.text(first.text);
    const { isOneOf = false, types } = first;
    if (types) rules.push({ parameter: index + 1, isOneOf, types });
  }
  return { parameters: block.bytes.subarray(0, block.length), rules };
}

/** The encoder reports a value whose own code throws. */
function textOrNone(value: unknown): First {
  try {
    return firstText(value);
  } catch {
    return undefined;
  }
}

function firstText(value: unknown): First {
  switch (typeof value) {
    case "string":
      return ofText(value);
    case "number":
      return ofNumber(value);
    case "bigint":
      return { text: String(value), types: value < 0 ? [...NOT_OF_NUMBERS, OID] : NOT_OF_NUMBERS };
    case "boolean":
      return { text: String(value), types: [BYTEA] };
    case "object":
      return ofObject(value as object);
    default:
      return undefined;
  }
}

/**
 * Text is sent unchanged, except for integers: there the encoder accepts decimal digits only, and a server may also
 * accept 0x1F, 1_000 or an octal 010.
 */
function ofText(text: string): First {
  const mayBeInteger = /^\s*[-+]?\d\w*\s*$/.test(text);
  const isDecimal = /^(0|[1-9]\d*)$/.test(text);
  return mayBeInteger && !isDecimal ? { text, types: INTEGERS } : { text };
}

/** The text of -0 loses its sign. For integers the encoder refuses a whole number beyond 2^53. */
function ofNumber(value: number): First {
  const isWhole = Number.isInteger(value);
  if (!Number.isFinite(value) || Object.is(value, -0) || (isWhole && !Number.isSafeInteger(value))) return undefined;
  const types = [...NOT_OF_NUMBERS];
  if (value < 0) types.push(OID);
  // A float4 rounded from the digits may differ from a float4 rounded from the bits.
  if (!isWhole) types.push(FLOAT4);
  return { text: String(value), types };
}

function ofObject(value: object): First {
  const made = jsonTextOf(value);
  if (made !== undefined) return { text: made, types: [...INTEGERS, BYTEA] };
  if (isBytes(value)) {
    const bytes = bytesOf(value);
    return bytes.length > LONGEST_BYTES ? undefined : { text: `\\x${hex(bytes)}`, isOneOf: true, types: [BYTEA] };
  }
  // Other years are written differently (text-values.ts).
  const year = value instanceof Date ? value.getUTCFullYear() : NaN;
  if (year >= 1 && year <= 9999)
    return { text: (value as Date).toISOString(), isOneOf: true, types: [DATE, TIMESTAMP, TIMESTAMPTZ] };
  // An array may be meant as an array, a JSON array or a composite, and an object has even more meanings.
  return undefined;
}
