// From JavaScript values to PostgreSQL's input text, and the refusals that every form of a value shares.
//
// Knows: type OIDs, array literals. The declared type decides what a value becomes, never the value alone. Must not know: messages,
// binary forms. Errors name the parameter and its type, never the value.

import { UsageError, type Code } from "../errors.ts";
import { isText, jsonTextOf } from "../text.ts";
import { names } from "./element-types.ts";
import { BOOL, BOX, BYTEA, DATE, FLOAT4, INT2, INT4, INT8, JSON_, JSONB, OID, TIMESTAMP, TIMESTAMPTZ } from "./oid.ts";

/** What an error names: the parameter, or what `what` says, and its declared type. */
export interface Where {
  readonly index: number;
  readonly type: number;
  /** What stands before the number, such as `"Row 7, column "`. */
  readonly what?: string;
}

export const integerRanges: Record<number, readonly [min: number | bigint, max: number | bigint]> = {
  [INT2]: [-0x8000, 0x7fff],
  [INT4]: [-0x80000000, 0x7fffffff],
  [OID]: [0, 0xffffffff],
  [INT8]: [-(2n ** 63n), 2n ** 63n - 1n],
};

/** `value` in the input syntax of `type`, which is the parameter's or, inside an array, the element's. */
export function textOf(where: Where, type: number, value: unknown): string {
  const made = jsonTextOf(value);
  if (made !== undefined) return made;
  if (type === JSON_ || type === JSONB) return json(where, value);
  if (type in integerRanges) return String(integer(where, type, value));
  if (typeof value === "string") return value;
  if (type === BYTEA) return isBytes(value) ? hex(value) : wrong(where, value, "pass a Uint8Array");
  if (type === DATE || type === TIMESTAMP || type === TIMESTAMPTZ) return value instanceof Date ? dateText(where, type, value) : wrong(where, value, "pass a Date or text");
  const kind = typeof value;
  if (type === BOOL && kind !== "boolean") return wrong(where, value, "pass a boolean");
  if (type === FLOAT4 && kind === "number") return String(float4(where, value as number));
  if (kind === "number" || kind === "bigint" || kind === "boolean") return String(value);
  const hint = kind === "object" && !Array.isArray(value) ? ", or cast the parameter to jsonb" : "";
  return wrong(where, value, `pass text${hint}`);
}

export function integer(where: Where, type: number, value: unknown): number | bigint {
  const whole = typeof value === "string" ? digits(value) : value;
  if (typeof whole !== "bigint" && !Number.isInteger(whole)) {
    return wrong(where, value, "pass a whole number, bigint or digits");
  }
  const found = whole as number | bigint;
  const [min, max] = integerRanges[type] as [number | bigint, number | bigint];
  if (found < min || found > max) return outOfRange(where, `${names[type]} holds ${min} to ${max}`);
  if (typeof found === "number" && !Number.isSafeInteger(found)) return outOfRange(where, "beyond 2^53 a number has lost digits, pass a bigint");
  return found;
}

function digits(text: string): bigint | undefined {
  if (!/^\s*[-+]?\d+\s*$/.test(text)) return undefined;
  // 2^63 has 19 digits; BigInt of a megabyte of them would take seconds.
  return text.length < 64 ? BigInt(text) : 2n ** 64n;
}

export function float4(where: Where, value: number): number {
  const rounded = Math.fround(value);
  // As float4in: what is too large or too small for float4 is an error, not Infinity or 0.
  if (Number.isFinite(value) && (!Number.isFinite(rounded) || (rounded === 0 && value !== 0))) return outOfRange(where, "float4 holds 1e-45 to 3.4e38");
  return value;
}

function json(where: Where, value: unknown): string {
  if (typeof value === "string") return value;
  if (typeof value === "bigint") return String(value);
  if (isBytes(value)) return wrong(where, value, "pass what JSON can hold");
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (cause) {
    throw new UsageError("INVALID_PARAMETER", `${named(where)} cannot be written as JSON.`, { cause });
  }
  return text ?? wrong(where, value, "pass what JSON can hold");
}

/** ISO 8601 in UTC, with PostgreSQL's BC for the years before 1. */
function dateText(where: Where, type: number, date: Date): string {
  const year = date.getUTCFullYear();
  if (Number.isNaN(year)) return wrong(where, date, "this Date is invalid");
  // Behind the year: "-MM-DDTHH:MM:SS.sssZ". A timestamp without time zone has no place for the Z.
  const rest = date.toISOString().slice(-20, type === DATE ? -14 : type === TIMESTAMP ? -1 : undefined);
  return `${String(year > 0 ? year : 1 - year).padStart(4, "0")}${rest}${year > 0 ? "" : " BC"}`;
}

/** `{"a",NULL,{"b"}}`; everything but NULL quoted, so that no content can mean anything else. */
export function arrayLiteral(where: Where, element: number, array: readonly unknown[], depth: number): string {
  if (depth > 6) return wrong(where, array, "arrays have at most 6 dimensions");
  const items = Array.from(array, (item) => {
    if (item === null) return "NULL";
    // In json[] an inner array is a JSON array: there is one dimension.
    if (Array.isArray(item) && element !== JSON_ && element !== JSONB) return arrayLiteral(where, element, item, depth + 1);
    return `"${textOf(where, element, item).replace(/["\\]/g, "\\$&")}"`;
  });
  return `{${items.join(element === BOX ? ";" : ",")}}`;
}

export type Bytes = ArrayBuffer | ArrayBufferView;

export function isBytes(value: unknown): value is Bytes {
  return ArrayBuffer.isView(value) || value instanceof ArrayBuffer;
}

export function bytesOf(value: Bytes): Uint8Array {
  return ArrayBuffer.isView(value) ? new Uint8Array(value.buffer, value.byteOffset, value.byteLength) : new Uint8Array(value);
}

function hex(value: Bytes): string {
  let text = "\\x";
  for (const byte of bytesOf(value)) text += (byte < 16 ? "0" : "") + byte.toString(16);
  return text;
}

/** @throws UsageError `INVALID_PARAMETER` for what would end the text on the wire, or not arrive as it is. */
export function checked(where: Where, text: string): string {
  return isText(text) ? text : fail("INVALID_PARAMETER", `${named(where)} holds NUL or half a surrogate pair.`);
}

function named({ what = "Parameter $", index, type }: Where): string {
  return `${what}${index + 1} (${names[type] ?? `type OID ${type}`})`;
}

export function wrong(where: Where, value: unknown, advice: string): never {
  const kind = Array.isArray(value) ? "array" : value instanceof Date ? "Date" : isBytes(value) ? "binary" : typeof value;
  return fail("INVALID_PARAMETER", `${named(where)} cannot be made from this ${kind} value: ${value === undefined ? "pass null for NULL" : advice}.`);
}

export function outOfRange(where: Where, why: string): never {
  return fail("PARAMETER_OUT_OF_RANGE", `${named(where)} is out of range: ${why}.`);
}

function fail(code: Code, message: string): never {
  throw new UsageError(code, message);
}
