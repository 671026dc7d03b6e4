// Writes values in PostgreSQL's binary form, if this file has one for the type: for Bind, and for COPY in binary.
//
// A value becomes what the server would make of its text (text-values.ts), so COPY and INSERT agree. Text is refused if
// its meaning depends on a setting of the session, or if its spelling is not read here. Knows: the layouts of the
// server's recv functions. Must not know: messages, columns.

import { LAYOUT_VECTOR } from "../wasm/boundary.ts";
import type { Block } from "./block.ts";
import { bytesOf, isBytes, type Bytes } from "../util/bytes.ts";
import { fromHex } from "./converters.ts";
import { elements } from "./element-types.ts";
import { jsonTextOf } from "../util/json.ts";
import {
  BOOL,
  BPCHAR,
  BYTEA,
  DATE,
  FLOAT4,
  FLOAT8,
  INT2,
  INT4,
  INT8,
  JSON_,
  JSONB,
  NAME,
  NUMERIC,
  OID,
  TEXT,
  TIME,
  TIMESTAMP,
  TIMESTAMPTZ,
  UNKNOWN,
  UUID,
  VARCHAR,
} from "./oid.ts";
import { DIMENSIONS, float4, integer, isJson, outOfRange, textOf, wrong, type Where } from "./text-values.ts";

/**
 * Appends an int32 length and the binary form of `value`, or -1 for `null`.
 *
 * @throws UsageError `INVALID_PARAMETER`, `PARAMETER_OUT_OF_RANGE`, `PARAMETERS_TOO_LARGE`; an array may then be half
 * written
 */
export type BinaryWriter = (block: Block, where: Where, value: unknown) => void;

/** Returns `undefined` if the type has no binary form here. */
export function binaryWriter(type: number): BinaryWriter | undefined {
  const written = elements[type] ?? type;
  const write = written === type ? writeBinary : writeArray;
  return (
    writers[written] && ((block, where, value) => (value === null ? block.null() : write(block, where, written, value)))
  );
}

/** Whether the type accepts any text unchanged. */
export function takesText(type: number): boolean {
  return writers[type] === utf8;
}

/** Writes a value that is not NULL. The caller knows that the type has a binary form here. */
export function writeBinary(block: Block, where: Where, type: number, value: unknown): void {
  writers[type]!(block, where, type, value);
}

type Write = (block: Block, where: Where, type: number, value: unknown) => void;

/** A writer for types that are a number in binary. Two's complement: the upper half of oid has the same bits. */
function fixed(
  size: 1 | 2 | 4 | 8,
  of: (where: Where, type: number, value: unknown) => number | bigint,
  method = size === 8 ? "setBigInt64" : `setInt${8 * size}`,
): Write {
  const convert: (found: number | bigint) => never = (size === 8 && of !== float ? BigInt : Number) as never;
  return (block, where, type, value) => {
    const found = convert(of(where, type, value));
    const at = block.value(size);
    block.view[method as "setInt32"](at, found);
  };
}
const utf8: Write = (block, where, type, value) => {
  if (typeof value !== "string" || !block.ascii(value)) block.text(textOf(where, type, value));
};

const writers: Record<number, Write> = {
  [BOOL]: fixed(1, bool),
  [INT2]: fixed(2, integer),
  [INT4]: fixed(4, integer),
  [OID]: fixed(4, integer),
  [INT8]: fixed(8, integer),
  [FLOAT4]: fixed(4, float, "setFloat32"),
  [FLOAT8]: fixed(8, float, "setFloat64"),
  [NUMERIC]: numeric,
  [DATE]: fixed(4, moment),
  [TIME]: fixed(8, moment),
  [TIMESTAMP]: fixed(8, moment),
  [TIMESTAMPTZ]: fixed(8, moment),
  [TEXT]: utf8,
  [VARCHAR]: utf8,
  [BPCHAR]: utf8,
  [NAME]: utf8,
  [UNKNOWN]: utf8,
  [JSON_]: utf8,
  // The version byte of the format, which is a character of its own.
  [JSONB]: (block, where, type, value) => block.text(`\x01${textOf(where, type, value)}`),
  [UUID](block, where, type, value) {
    const digits = textOf(where, type, value).replace(/^\{(.*)\}$/, "$1");
    if (!/^(?:[\da-f]{4}-?){7}[\da-f]{4}$/i.test(digits)) wrong(where, value, "pass hexadecimal digits");
    bytes(block, fromHex(`\\x${digits.replaceAll("-", "")}`));
  },
  [BYTEA](block, where, type, value) {
    if (isBytes(value)) return bytes(block, value);
    const text = textOf(where, type, value);
    if (!text.startsWith("\\x") || text.length % 2 || /[^\da-f]/i.test(text.slice(2)))
      wrong(where, value, "pass a Uint8Array");
    bytes(block, fromHex(text));
  },
  /** int16 dimensions · int16 0 · a float4 per dimension */
  [LAYOUT_VECTOR](block, where, _, value) {
    const found = numbers(where, value);
    const { length } = found;
    const at = block.value(4 + 4 * length);
    block.view.setUint16(at, length);
    block.view.setUint16(at + 2, 0);
    for (let index = 0; index < length; index++) block.view.setFloat32(at + 4 + 4 * index, found[index]!);
  },
};

/** The numbers of a vector, from an array or a text. As the type's input does it, what is too small becomes 0. */
export function numbers(where: Where, value: unknown): number[] {
  const isList = Array.isArray(value) || (ArrayBuffer.isView(value) && !(value instanceof Uint8Array));
  const items = isList ? value : /^\s*\[(.*)\]\s*$/s.exec(jsonTextOf(value) ?? String(value))?.[1]!.split(",");
  const found = Array.from((items ?? []) as unknown[], (item) => {
    if (!/^(number|bigint|string)$/.test(typeof item)) wrong(where, value, "pass an array of numbers");
    const number = float(where, FLOAT8, item);
    return Math.fround(number) ? float(where, FLOAT4, item) : number;
  });
  return found.length ? found : wrong(where, value, "pass an array of numbers");
}

function bytes(block: Block, value: Bytes): void {
  const at = block.value(value.byteLength);
  block.bytes.set(bytesOf(value), at);
}

function bool(where: Where, type: number, value: unknown): number {
  const [found, yes] = /^(?:(t|true|y|yes|on|1)|f|false|n|no|off|0)$/i.exec(textOf(where, type, value)) ?? [];
  return found ? (yes ? 1 : 0) : wrong(where, value, "pass a boolean");
}

// -- numbers ---------------------------------------------------------------------------------------------------------

/**
 * Matches the whole number: sign, digits before and after the point, exponent. NaN and the infinities have no digits.
 */
function decimal(where: Where, type: number, value: unknown): RegExpExecArray {
  const found = /^\s*([-+]?)(?:(?=\.?\d)(\d*)(?:\.(\d*))?(?:[eE]([-+]?\d+))?|NaN|Infinity)\s*$/.exec(
    textOf(where, type, value),
  );
  return found ?? wrong(where, value, "pass a number");
}

function float(where: Where, type: number, value: unknown): number {
  let number = value as number;
  if (typeof value !== "number") {
    const [text, , whole, fraction] = decimal(where, type, value);
    number = +text;
    if (Number.isFinite(number) ? !number && /[1-9]/.test(`${whole}${fraction}`) : whole !== undefined)
      outOfRange(where, "PostgreSQL has no such number");
  }
  if (type !== FLOAT4) return number;
  float4(where, number);
  // A value from text is rounded twice: to a double, then to float4. If the double lies halfway between two float4
  // values, the digits that would decide are lost, so the text is refused.
  const mirrored = 2 * number - Math.fround(number);
  if (number !== value && number !== mirrored && Math.fround(mirrored) === mirrored)
    wrong(where, value, "pass a number");
  return number;
}

/**
 * int16 number of digits · int16 weight, the power of 10000 of the first digit · int16 sign · int16 decimal digits
 * after the point · n × int16, a digit of base 10000. The server drops zeros at both ends, and the sign of 0.
 */
function numeric(block: Block, where: Where, type: number, value: unknown): void {
  const [text, sign, whole, fraction = "", exponent = 0] = decimal(where, type, value);
  const scale = fraction.length - +exponent;
  // Zeros are added at both ends, so that the point falls between two digits of base 10000.
  const all = (whole ?? "") + fraction;
  const point = all.length - scale;
  const padding = (4 - (point % 4)) % 4;
  const weight = (point + padding) / 4 - 1;
  if (!(weight <= 0x7fff && scale <= 0x3fff)) outOfRange(where, "PostgreSQL has no such number");
  const digits = `${"0".repeat(padding)}${all}000`.match(/\d{4}/g) ?? [];
  const minus = sign === "-";
  const bits = whole !== undefined ? (minus ? 0x4000 : 0) : text.includes("N") ? 0xc000 : minus ? 0xf000 : 0xd000;
  const at = block.value(8 + 2 * digits.length);
  [digits.length, weight, bits, Math.max(scale, 0), ...digits].forEach((number, index) =>
    block.view.setUint16(at + 2 * index, +number),
  );
}

// -- dates and times -------------------------------------------------------------------------------------------------

/**
 * In milliseconds, as Date has them: the start of 4714-11-24 BC, day 0 of the Julian calendar, and that of 2000-01-01.
 */
const LEAST = -210_866_803_200_000;
const EPOCH = 946_684_800_000;
const DAY = 86_400_000;
/**
 * Year (there is no year 0), month and day, clock, fraction (only of seconds: 12:30.5 means something else), zone, BC.
 */
const MOMENT =
  /^(?!0+-)(\d{4,7})-(\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d(?=(\.\d+)?))?)\4(Z|[-+](?:0\d|1[0-5])(?::[0-5]\d)?)?)?( BC)?$/;

/**
 * Days since 2000-01-01 for a date, microseconds for the other types. As in the server, a date ignores a time, and a
 * type without time zone ignores a zone.
 */
function moment(where: Where, type: number, value: unknown): number | bigint {
  const isTime = type === TIME;
  const isDate = type === DATE;
  const isZoned = type === TIMESTAMPTZ;
  if (value instanceof Date && !isTime && +value >= LEAST)
    return isDate ? Math.floor((+value - EPOCH) / DAY) : BigInt(+value - EPOCH) * 1000n;
  const text = (isTime ? "2000-01-01 " : "") + textOf(where, type, value);
  if (/^-?infinity$/i.test(text)) {
    const most = isDate ? 0x7fffffff : 2n ** 63n - 1n;
    return text.startsWith("-") ? ~most : most;
  }
  const [, year, day, clock = "00:00", fraction = 0, zone, bc] = MOMENT.exec(text) ?? [];
  if (!year || (isZoned && !zone))
    return wrong(where, value, `pass ISO 8601 text${isZoned ? " with its time zone" : ""}`);
  // Date has fewer years than PostgreSQL. The calendar repeats after 400 years, so the year moves by such cycles.
  const astronomical = bc ? 1 - +year : +year;
  const cycles = Math.floor(astronomical / 400) - 5;
  const date = `${astronomical - 400 * cycles}-${day}`;
  const milliseconds = Date.parse(`${date}T${clock}${isZoned ? zone!.replace(/^...$/, "$&:00") : "Z"}`) - EPOCH;
  const about = milliseconds + 146_097 * DAY * cycles;
  const midnight = new Date(date);
  // Some engines accept February 30.
  const exists =
    midnight.toJSON()?.slice(5, 10) === day &&
    about >= LEAST - EPOCH &&
    about < (isDate ? 1_853_307_603_936e5 : 92_233_713_312e5);
  if (!exists) outOfRange(where, "PostgreSQL has no such time");
  if (isDate) return (+midnight - EPOCH) / DAY + 146_097 * cycles;
  // Rounds like the server's rint: a number of this size has no bits for a fraction, and a tie goes to the even number.
  return (
    BigInt(milliseconds) * 1000n +
    BigInt(cycles) * 12_622_780_800_000_000n +
    BigInt(+fraction * 1e6 + 2 ** 52 - 2 ** 52)
  );
}

// -- arrays ----------------------------------------------------------------------------------------------------------

/**
 * int32 dimensions · int32 whether it has NULLs · int32 element type · dimensions × (int32 length, int32 lower bound) ·
 * elements. The first array of each dimension sets the length of the others. The server looks for NULLs itself, and
 * makes the same empty array of all arrays without elements.
 */
function writeArray(block: Block, where: Where, element: number, value: unknown): void {
  const lengths: number[] = [];
  // In json[] an inner array is a JSON array, so there is one dimension.
  for (let inner = value; Array.isArray(inner) && lengths.length < (isJson(element) ? 1 : 7); inner = inner[0])
    lengths.push(inner.length);
  const { length } = lengths;
  if (!length || length > 6) wrong(where, value, DIMENSIONS);

  const start = block.value(12 + 8 * length);
  [length, 1, element, ...lengths.flatMap((one) => [one, 1])].forEach((number, index) =>
    block.view.setInt32(start + 4 * index, number),
  );
  const write = (items: unknown, depth: number): void => {
    if (depth === length) return items === null ? block.null() : writeBinary(block, where, element, items);
    if (!Array.isArray(items) || items.length !== lengths[depth])
      wrong(where, value, "pass arrays of equal length within a dimension");
    // Not forEach, which skips holes.
    for (const item of items as unknown[]) write(item, depth + 1);
  };
  write(value, 0);
  block.view.setInt32(start - 4, block.length - start);
}
