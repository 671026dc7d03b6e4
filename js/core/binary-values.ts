// PostgreSQL's binary form of a value, where its type has one here: for Bind, and for COPY in binary.
//
// A value becomes what the server would make of its text (text-values.ts), so COPY and INSERT agree; a text whose meaning depends on a
// setting of the session, or in a spelling that is not read here, is refused. Knows: the layouts of the server's recv functions.
// Must not know: messages, columns. Nothing is written before the value is known to be good, but in arrays.

import type { Block } from "./block.ts";
import { fromHex } from "./converters.ts";
import { elements } from "./element-types.ts";
import { BOOL, BPCHAR, BYTEA, DATE, FLOAT4, FLOAT8, INT2, INT4, INT8, JSON_, JSONB, NAME, NUMERIC, OID, TEXT, TIME, TIMESTAMP, TIMESTAMPTZ, UNKNOWN, UUID, VARCHAR } from "./oid.ts";
import { bytesOf, checked, float4, integer, isBytes, outOfRange, textOf, wrong, type Where } from "./text-values.ts";

/**
 * Appends int32 length and the binary form of `value`, or -1 for `null`.
 *
 * @throws UsageError `INVALID_PARAMETER`, `PARAMETER_OUT_OF_RANGE`, `PARAMETERS_TOO_LARGE`; an array may then be half written
 */
export type BinaryWriter = (block: Block, where: Where, value: unknown) => void;

/** `undefined` where the type has no binary form here. */
export function binaryWriter(type: number): BinaryWriter | undefined {
  const element = elements[type];
  const write = writers[element ?? type];
  return (
    write &&
    ((block, where, value) => {
      if (value === null) block.null();
      else if (element === undefined) write(block, where, value, type);
      else writeArray(block, where, value, element);
    })
  );
}

/** For a type and a value that is not NULL of which the caller knows that they have a binary form. */
export function writeBinary(block: Block, where: Where, type: number, value: unknown): void {
  writers[type]!(block, where, value, type);
}

type Write = (block: Block, where: Where, value: unknown, type: number) => void;

const writers: Record<number, Write> = {
  [BOOL](block, where, value) {
    const [found, yes] = typeof value === "boolean" ? [true, value] : (/^\s*(?:(t|tr|tru|true|y|ye|yes|on|1)|f|fa|fal|fals|false|n|no|of|off|0)\s*$/i.exec(textOf(where, BOOL, value)) ?? []);
    if (found === undefined) wrong(where, value, "pass a boolean");
    const at = block.value(1);
    block.view.setUint8(at, yes ? 1 : 0);
  },
  [BYTEA](block, where, value) {
    if (isBytes(value)) {
      const at = block.value(value.byteLength);
      return block.bytes.set(bytesOf(value), at);
    }
    const text = checked(where, textOf(where, BYTEA, value));
    if (!text.includes("\\")) return block.text(text);
    if (!/^\\x/.test(text) || text.length % 2 || /[^\da-f]/i.test(text.slice(2))) wrong(where, value, "pass a Uint8Array");
    bytes(block, fromHex(text));
  },
  [JSONB](block, where, value) {
    // The version of the format, a byte, which is a character of its own.
    block.text(`\x01${checked(where, textOf(where, JSONB, value))}`);
  },
  [UUID](block, where, value) {
    const digits = textOf(where, UUID, value).replace(/^\{(.*)\}$/, "$1");
    if (!/^(?:[\da-f]{4}-?){7}[\da-f]{4}$/i.test(digits)) wrong(where, value, "pass 32 hexadecimal digits");
    bytes(block, fromHex(`\\x${digits.replaceAll("-", "")}`));
  },
  [DATE](block, where, value) {
    const { days } = moment(where, DATE, value);
    // The server's int4 for the infinities, too.
    const at = block.value(4);
    block.view.setInt32(at, days);
  },
  [NUMERIC]: numeric,
};
for (const type of [INT2, INT4, INT8, OID]) writers[type] = writeInteger;
for (const type of [FLOAT4, FLOAT8]) writers[type] = float;
for (const type of [TIME, TIMESTAMP, TIMESTAMPTZ]) writers[type] = timestamp;
for (const type of [TEXT, VARCHAR, BPCHAR, NAME, UNKNOWN, JSON_]) writers[type] = (block, where, value) => block.text(checked(where, textOf(where, type, value)));

function bytes(block: Block, value: Uint8Array): void {
  const at = block.value(value.length);
  block.bytes.set(value, at);
}

function writeInteger(block: Block, where: Where, value: unknown, type: number): void {
  const found = integer(where, type, value);
  const at = block.value(type === INT8 ? 8 : type === INT2 ? 2 : 4);
  if (type === INT8) return block.view.setBigInt64(at, BigInt(found));
  if (type === INT2) return block.view.setInt16(at, Number(found));
  // Two's complement: oid's upper half has the same bits.
  block.view.setInt32(at, Number(found));
}

// -- numbers -----------------------------------------------------------------------------------------------------------------

/** Sign, digits before and behind the point, exponent, NaN; or an infinity. */
const NUMBER = /^\s*([-+]?)(?:(?=\.?\d)(\d*)(?:\.(\d*))?(?:e([-+]?\d+))?|(nan)|inf(?:inity)?)\s*$/i;

function numberText(where: Where, type: number, value: unknown): RegExpExecArray {
  return NUMBER.exec(textOf(where, type, value)) ?? wrong(where, value, "pass a number, or decimal digits");
}

function float(block: Block, where: Where, value: unknown, type: number): void {
  const number = typeof value === "number" ? value : floatOf(where, type, value);
  if (type === FLOAT4) {
    const rounded = float4(where, number);
    const at = block.value(4);
    return block.view.setFloat32(at, rounded);
  }
  const at = block.value(8);
  block.view.setFloat64(at, number);
}

function floatOf(where: Where, type: number, value: unknown): number {
  const [text, sign, whole, fraction = "", , nan] = numberText(where, type, value);
  if (whole === undefined) return nan ? NaN : sign === "-" ? -Infinity : Infinity;
  const number = Number(text);
  const near = Math.fround(number);
  const mirrored = 2 * number - near;
  // Halfway between two of float4's numbers, perhaps only since it is a double: what would decide is gone.
  if (type === FLOAT4 && near !== number && Math.fround(mirrored) === mirrored) wrong(where, value, "pass a number");
  return Number.isFinite(number) && (number !== 0 || !/[1-9]/.test(whole + fraction)) ? number : outOfRange(where, "float8 holds 5e-324 to 1.8e308");
}

/** int16 number of digits · int16 weight, 10000 to which the first digit counts · int16 sign · int16 digits behind the point · n × int16, base 10000. */
function numeric(block: Block, where: Where, value: unknown): void {
  const [, sign, whole, fraction = "", exponent, nan] = numberText(where, NUMERIC, value);
  let negative = sign === "-" ? 0x4000 : 0;
  let digits: number[] = [];
  let weight = 0;
  let scale = 0;
  if (whole === undefined) negative = nan ? 0xc000 : 0xd000 | (negative >> 1);
  else {
    scale = fraction.length - Number(exponent ?? 0);
    const all = whole + fraction;
    // Digits before the point, and zeros in front so that the point falls between two of base 10000.
    const point = all.length - scale;
    const padding = (4 - (point % 4)) % 4;
    const groups = ("0".repeat(padding) + all + "000").match(/\d{4}/g) ?? [];
    const first = groups.findIndex((group) => group !== "0000");
    weight = (point + padding) / 4 - 1 - first;
    while (groups.at(-1) === "0000") groups.pop();
    digits = groups.slice(first).map(Number);
    if (!digits.length) weight = negative = 0;
    scale = Math.max(scale, 0);
    if (weight > 0x7fff || scale > 0x3fff) outOfRange(where, "numeric holds 131072 digits before the point and 16383 behind it");
  }
  const at = block.value(8 + 2 * digits.length);
  [digits.length, weight, negative, scale, ...digits].forEach((number, index) => block.view.setUint16(at + 2 * index, number));
}

// -- dates and times ---------------------------------------------------------------------------------------------------------

/** Since 2000-01-01; or the values that stand for the infinities. Of a time, `micros` since midnight. */
interface Moment {
  readonly days: number;
  readonly micros: bigint;
}

const DAY = 86_400_000;
const EPOCH = Date.UTC(2000, 0, 1);
/** Year, month, day; hour, minute, second, fraction; Z, or hours, minutes, seconds of the zone; BC. */
const MOMENT = /^\s*(?:(\d{4,7})-(\d\d)-(\d\d)(?:[ T]|(?=\s*$| BC)))?(?:(\d\d):(\d\d)(?::(\d\d)(\.\d+)?)?\s?(?:(Z)|([-+]\d\d)(?::?(\d\d)(?::?(\d\d))?)?)?)?( BC)?\s*$/i;

type Numbers = [number, number, number, number, number, number, number, number, number, number, number, number];

function timestamp(block: Block, where: Where, value: unknown, type: number): void {
  const { micros } = moment(where, type, value);
  const at = block.value(8);
  block.view.setBigInt64(at, micros);
}

/** As the server, a date takes no notice of a time, nor what is without time zone of a zone. */
function moment(where: Where, type: number, value: unknown): Moment {
  const milliseconds = value instanceof Date && type !== TIME ? value.getTime() - EPOCH : NaN;
  // A Date that is none is refused where it becomes text.
  if (!Number.isNaN(milliseconds)) return inRange(where, type, Math.floor(milliseconds / DAY), BigInt(milliseconds) * 1000n);
  const text = textOf(where, type, value);
  const infinity = type !== TIME && /^\s*(-?)infinity\s*$/i.exec(text);
  if (infinity) return infinity[1] ? { days: -0x80000000, micros: -(2n ** 63n) } : { days: 0x7fffffff, micros: 2n ** 63n - 1n };

  const parts = MOMENT.exec(text) ?? [];
  const [, hasYear, , , hasHour, , , , utc, zone, , , bc] = parts;
  if (type === TIME ? hasYear || !hasHour || utc || zone || bc : !hasYear || (type === TIMESTAMPTZ && !utc && !zone)) {
    const form = "YYYY-MM-DD HH:MM:SS+HH:MM".slice(type === TIME ? 11 : 0, type === DATE ? 10 : type === TIMESTAMPTZ ? 25 : 19);
    wrong(where, value, `write it as ${form}${type === TIMESTAMPTZ ? "; without a zone it depends on the session's TimeZone" : ""}`);
  }
  const [, year, month, day, hour, minute, second, fraction, , zoneHour, zoneMinute, zoneSecond] = parts.map((part) => Number(part ?? 0)) as Numbers;
  // rint, as the server's: such sums have no place for what is behind the point, and ties go to even.
  const time = ((hour * 60 + minute) * 60 + second) * 1e6 + (fraction * 1e6 + 2 ** 52 - 2 ** 52);
  const inDay = time <= DAY * 1000 && minute < 60 && second <= 60;
  if (type === TIME && inDay) return { days: 0, micros: BigInt(time) };
  // Date holds fewer years than PostgreSQL; every 400 are alike.
  const astronomical = bc ? 1 - year : year;
  const cycles = Math.floor((astronomical - 2000) / 400);
  const date = Date.UTC(astronomical - 400 * cycles, month - 1, day);
  if (!inDay || !year || new Date(date).getUTCMonth() !== month - 1 || Math.abs(zoneHour) > 15 || zoneMinute > 59 || zoneSecond > 59) {
    return outOfRange(where, "there is no such date or time");
  }
  const days = (date - EPOCH) / DAY + 146_097 * cycles;
  const east = type === TIMESTAMPTZ ? (Math.abs(zoneHour) * 3600 + zoneMinute * 60 + zoneSecond) * (zone?.startsWith("-") ? -1 : 1) : 0;
  return inRange(where, type, days, BigInt(days) * 86_400_000_000n + BigInt(time - east * 1e6));
}

function inRange(where: Where, type: number, days: number, micros: bigint): Moment {
  const ok = type === DATE ? days >= -2_451_545 && days <= 2_145_031_948 : micros >= -211_813_488_000_000_000n && micros < 9_223_371_331_200_000_000n;
  return ok ? { days, micros } : outOfRange(where, `${type === DATE ? "date" : "timestamp"} holds 4713 BC to ${type === DATE ? 5874897 : 294276} AD`);
}

// -- arrays ------------------------------------------------------------------------------------------------------------------

/**
 * int32 dimensions · int32 whether with NULL · int32 element type · dimensions × (int32 length, int32 lower bound) · elements. The first of
 * each dimension says how long the others must be.
 */
function writeArray(block: Block, where: Where, value: unknown, element: number): void {
  const lengths: number[] = [];
  // In json[] an inner array is a JSON array: there is one dimension.
  const most = element === JSON_ || element === JSONB ? 1 : 7;
  for (let inner = value; Array.isArray(inner) && lengths.length < most; inner = inner[0]) lengths.push(inner.length);
  if (!lengths.length) wrong(where, value, "pass an array");
  if (lengths.length > 6) wrong(where, value, "arrays have at most 6 dimensions");

  const dimensions = lengths.includes(0) ? 0 : lengths.length;
  const start = block.value(12 + 8 * dimensions);
  block.view.setInt32(start, dimensions);
  block.view.setInt32(start + 4, 0);
  block.view.setInt32(start + 8, element);
  for (let index = 0; index < dimensions; index++) {
    block.view.setInt32(start + 12 + 8 * index, lengths[index] as number);
    block.view.setInt32(start + 16 + 8 * index, 1);
  }
  const write = (items: unknown, depth: number): void => {
    if (!Array.isArray(items) || items.length !== lengths[depth]) wrong(where, value, "the lengths of its arrays differ");
    for (const item of items as unknown[]) {
      if (depth + 1 < lengths.length) write(item, depth + 1);
      else if (item === null) {
        block.null();
        block.view.setInt32(start + 4, 1);
      } else writeBinary(block, where, element, item);
    }
  };
  write(value, 0);
  block.view.setInt32(start - 4, block.length - start);
}
