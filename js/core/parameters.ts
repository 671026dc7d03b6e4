// From JavaScript values to the middle of a Bind message, each value encoded for the parameter's real type.
//
//   int16 n · n × int16 format code · int16 n · n × (int32 length, -1 for NULL · bytes)
//
// Knows: type OIDs, PostgreSQL's binary form of bool, integers, floats and bytea, array literals. The declared type decides
// what a value becomes, never the value alone. Must not know: statements, connections, results. Errors name the parameter and
// its type, never the value, and come before anything is sent.

import { UsageError, type Code } from "../errors.ts";
import { isText, jsonTextOf } from "../text.ts";
import { elements, names } from "./element-types.ts";
import { BOOL, BOX, BYTEA, DATE, FLOAT4, FLOAT8, INT2, INT4, INT8, JSON_, JSONB, OID, TIMESTAMP, TIMESTAMPTZ } from "./oid.ts";

/**
 * The encoded block; the caller owns it.
 *
 * | type | takes |
 * |---|---|
 * | bool | boolean; text as bool's input |
 * | int2, int4, int8, oid | whole number, bigint, text of digits; a number beyond 2^53 is refused, it has lost digits already |
 * | float4, float8 | number; text or bigint as the server reads it |
 * | bytea | Uint8Array or another view, ArrayBuffer; text as bytea's input (`\x…`) |
 * | json, jsonb | text: JSON as it is; `sql.json(…)`; anything else through JSON.stringify. `null` is NULL, `"null"` is JSON's null |
 * | date, timestamp, timestamptz | Date, as ISO 8601 in UTC; text |
 * | arrays, and types unknown here (enums' arrays) | JavaScript array, nested for more dimensions (not in json[]); text as array literal |
 * | every other type | text, number, bigint, boolean, as the type's input text |
 *
 * @throws UsageError `INVALID_QUERY` (another number of values), `TOO_MANY_PARAMETERS`, `INVALID_PARAMETER`,
 * `PARAMETER_OUT_OF_RANGE`, `PARAMETERS_TOO_LARGE`
 */
export function encodeParameters(values: readonly unknown[], types: ArrayLike<number>): Uint8Array {
  const count = values.length;
  checkCount(values);
  if (count !== types.length) throw new UsageError("INVALID_QUERY", `The statement has ${types.length} parameters, but ${count} values were given.`);
  const block = new Block(count);
  for (let index = 0; index < count; index++) append(block, index, types[index] as number, values[index]);
  return block.bytes.subarray(0, block.length);
}

/** PostgreSQL refuses longer messages than 0x3ffffffe; what Bind holds besides is far below 64 KiB. */
const MAX = 0x3fffffff - 0x10000;
const encoder = new TextEncoder();

class Block {
  bytes = new Uint8Array(512);
  view = new DataView(this.bytes.buffer);
  length = 0;

  constructor(count: number) {
    this.reserve(4 + 2 * count);
    this.view.setUint16(0, count);
    this.view.setUint16(2 + 2 * count, count);
  }

  /** Where the next `size` bytes go. Only then ask for `view` and `bytes`: both may have moved. */
  reserve(size: number): number {
    const at = this.length;
    const end = at + size;
    // Before anything is allocated; sums of JavaScript numbers do not wrap.
    if (end > MAX) throw new UsageError("PARAMETERS_TOO_LARGE", "The parameters exceed one message of 1 GiB.");
    if (end > this.bytes.length) {
      const { bytes } = this;
      this.bytes = new Uint8Array(Math.min(Math.max(end, 2 * bytes.length), MAX));
      this.bytes.set(bytes);
      this.view = new DataView(this.bytes.buffer);
    }
    this.length = end;
    return at;
  }

  null(): void {
    const at = this.reserve(4);
    this.view.setInt32(at, -1);
  }

  /** The place of a value of `size` bytes, its length written. */
  value(size: number): number {
    const at = this.reserve(4 + size);
    this.view.setInt32(at, size);
    return at + 4;
  }

  /** The same for one in binary. */
  binary(index: number, size: number): number {
    this.view.setUint16(2 + 2 * index, 1);
    return this.value(size);
  }

  text(text: string): void {
    // No UTF-16 unit takes more than three bytes. A long text would waste much of that; there a copy costs less.
    if (text.length < 1024) {
      const at = this.value(3 * text.length);
      const { written } = encoder.encodeInto(text, this.bytes.subarray(at));
      this.view.setInt32(at - 4, written);
      this.length = at + written;
    } else {
      const encoded = encoder.encode(text);
      const at = this.value(encoded.length);
      this.bytes.set(encoded, at);
    }
  }
}

const ranges: Record<number, readonly [min: number | bigint, max: number | bigint]> = {
  [INT2]: [-0x8000, 0x7fff],
  [INT4]: [-0x80000000, 0x7fffffff],
  [OID]: [0, 0xffffffff],
  [INT8]: [-(2n ** 63n), 2n ** 63n - 1n],
};

function append(block: Block, index: number, type: number, value: unknown): void {
  if (value === null) return block.null();
  const where: Where = { index, type };
  if (type in ranges) return appendInteger(block, index, type, integer(where, type, value));
  if (type === BOOL && typeof value === "boolean") {
    const at = block.binary(index, 1);
    return block.view.setUint8(at, Number(value));
  }
  if (type === FLOAT4 && typeof value === "number") {
    const rounded = float4(where, value);
    const at = block.binary(index, 4);
    return block.view.setFloat32(at, rounded);
  }
  if (type === FLOAT8 && typeof value === "number") {
    const at = block.binary(index, 8);
    return block.view.setFloat64(at, value);
  }
  if (type === BYTEA && isBytes(value)) {
    const at = block.binary(index, value.byteLength);
    return block.bytes.set(bytesOf(value), at);
  }
  // An array for a type that is known here not to be one cannot be meant.
  const text = Array.isArray(value) && !names[type] ? arrayLiteral(where, elements[type] ?? 0, value, 1) : textOf(where, type, value);
  block.text(checked(where, text));
}

function appendInteger(block: Block, index: number, type: number, value: number | bigint): void {
  const at = block.binary(index, type === INT8 ? 8 : type === INT2 ? 2 : 4);
  if (type === INT8) return block.view.setBigInt64(at, BigInt(value));
  if (type === INT2) return block.view.setInt16(at, Number(value));
  // Two's complement: oid's upper half has the same bits.
  block.view.setInt32(at, Number(value));
}

/** What an error names: the parameter and its declared type. */
interface Where {
  readonly index: number;
  readonly type: number;
}

/** `value` in the input syntax of `type`, which is the parameter's or, inside an array, the element's. */
function textOf(where: Where, type: number, value: unknown): string {
  const made = jsonTextOf(value);
  if (made !== undefined) return made;
  if (type === JSON_ || type === JSONB) return json(where, value);
  if (type in ranges) return String(integer(where, type, value));
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

function integer(where: Where, type: number, value: unknown): number | bigint {
  const whole = typeof value === "string" ? digits(value) : value;
  if (typeof whole !== "bigint" && !Number.isInteger(whole)) {
    return wrong(where, value, "pass a whole number, bigint or digits");
  }
  const found = whole as number | bigint;
  const [min, max] = ranges[type] as [number | bigint, number | bigint];
  if (found < min || found > max) return outOfRange(where, `${names[type]} holds ${min} to ${max}`);
  if (typeof found === "number" && !Number.isSafeInteger(found)) return outOfRange(where, "beyond 2^53 a number has lost digits, pass a bigint");
  return found;
}

function digits(text: string): bigint | undefined {
  if (!/^\s*[-+]?\d+\s*$/.test(text)) return undefined;
  // 2^63 has 19 digits; BigInt of a megabyte of them would take seconds.
  return text.length < 64 ? BigInt(text) : 2n ** 64n;
}

function float4(where: Where, value: number): number {
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
function arrayLiteral(where: Where, element: number, array: readonly unknown[], depth: number): string {
  if (depth > 6) return wrong(where, array, "arrays have at most 6 dimensions");
  const items = Array.from(array, (item) => {
    if (item === null) return "NULL";
    // In json[] an inner array is a JSON array: there is one dimension.
    if (Array.isArray(item) && element !== JSON_ && element !== JSONB) return arrayLiteral(where, element, item, depth + 1);
    return `"${textOf(where, element, item).replace(/["\\]/g, "\\$&")}"`;
  });
  return `{${items.join(element === BOX ? ";" : ",")}}`;
}

type Bytes = ArrayBuffer | ArrayBufferView;

function isBytes(value: unknown): value is Bytes {
  return ArrayBuffer.isView(value) || value instanceof ArrayBuffer;
}

function bytesOf(value: Bytes): Uint8Array {
  return ArrayBuffer.isView(value) ? new Uint8Array(value.buffer, value.byteOffset, value.byteLength) : new Uint8Array(value);
}

function hex(value: Bytes): string {
  let text = "\\x";
  for (const byte of bytesOf(value)) text += (byte < 16 ? "0" : "") + byte.toString(16);
  return text;
}

function checked(where: Where, text: string): string {
  return isText(text) ? text : fail("INVALID_PARAMETER", `${named(where)} holds NUL or half a surrogate pair.`);
}

function named({ index, type }: Where): string {
  return `Parameter $${index + 1} (${names[type] ?? `type OID ${type}`})`;
}

function wrong(where: Where, value: unknown, advice: string): never {
  const kind = Array.isArray(value) ? "array" : value instanceof Date ? "Date" : isBytes(value) ? "binary" : typeof value;
  return fail("INVALID_PARAMETER", `${named(where)} cannot be made from this ${kind} value: ${value === undefined ? "pass null for NULL" : advice}.`);
}

function outOfRange(where: Where, why: string): never {
  return fail("PARAMETER_OUT_OF_RANGE", `${named(where)} is out of range: ${why}.`);
}

function fail(code: Code, message: string): never {
  throw new UsageError(code, message);
}

/**
 * Before anything is sent: the counts of Bind are 16 bits wide, and a server that describes more parameters wraps its own (seen).
 *
 * @throws UsageError `TOO_MANY_PARAMETERS`
 */
export function checkCount({ length }: readonly unknown[]): void {
  if (length > 0xffff) throw new UsageError("TOO_MANY_PARAMETERS", `More than 65535 parameters: pass arrays, and unnest() them.`);
}

/**
 * The types to declare in Parse: those whose values go in binary, because the bytes depend on them. The others stay 0, so the server reads their
 * text by the type that they have now: a column that has become timestamptz since it was learned as date loses nothing.
 */
export function declaredTypes(types: Uint32Array): Uint32Array {
  return types.map((type) => (BINARY.has(type) ? type : 0));
}

const BINARY = new Set([BOOL, BYTEA, INT8, INT2, INT4, OID, FLOAT4, FLOAT8]);
