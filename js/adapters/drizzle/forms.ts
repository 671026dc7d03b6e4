// Converts the driver's values to those of node-postgres where the two differ: times, intervals, bytes, points.
// Drizzle's columns and its users' `sql` fields were written for node-postgres' forms.
//
// Knows types by OID and both forms. Must not know Drizzle.
import type { Column } from "../../index.ts";

export type Convert = (value: unknown) => unknown;

/** OIDs of the types whose values differ, and of those that Drizzle's columns need. */
const BYTEA = 17;
export const INT8 = 20;
export const INT2 = 21;
export const INT4 = 23;
export const JSON_TYPE = 114;
const POINT = 600;
export const FLOAT4 = 700;
export const FLOAT8 = 701;
const CIRCLE = 718;
export const DATE = 1082;
export const TIMESTAMP = 1114;
export const TIMESTAMPTZ = 1184;
const INTERVAL = 1186;
export const NUMERIC = 1700;
export const JSONB = 3802;

/** The element type of each array type. */
const ELEMENTS: Readonly<Record<number, number>> = {
  199: JSON_TYPE,
  719: CIRCLE,
  1001: BYTEA,
  1005: INT2,
  1007: INT4,
  1016: INT8,
  1017: POINT,
  1021: FLOAT4,
  1022: FLOAT8,
  1115: TIMESTAMP,
  1182: DATE,
  1185: TIMESTAMPTZ,
  1187: INTERVAL,
  1231: NUMERIC,
  3807: JSONB,
};

/**
 * Returns the type of an array's elements, or `undefined` if the type is not an array, or its elements are not needed.
 */
export const elementOf = (typeOid: number): number | undefined => ELEMENTS[typeOid];

/**
 * Returns the conversion of a type's values to node-postgres' form, or `undefined` if the values are the same. It is
 * not called for NULL.
 */
export function pgForm(typeOid: number): Convert | undefined {
  const element = ELEMENTS[typeOid];
  const convert = FORMS[element ?? typeOid];
  return convert && (element === undefined ? convert : (value) => eachOf(value, convert));
}

/** Converts the elements of an array of any dimension. NULL elements stay NULL. */
export function eachOf(value: unknown, convert: Convert): unknown {
  if (value === null) return null;
  return Array.isArray(value) ? value.map((item) => eachOf(item, convert)) : convert(value);
}

/** Converts the rows, which are objects by name, in place. */
export function convertObjects<Row>(rows: Row[], columns: readonly Column[]): Row[] {
  const forms = new Map<string, Convert | undefined>();
  for (const { name, typeOid } of columns) forms.set(name, pgForm(typeOid));
  for (const [name, form] of forms) if (form) convertAt(rows as Record<string, unknown>[], name, form);
  return rows;
}

/** Converts the rows, which are arrays, in place. */
export function convertArrays(rows: unknown[][], columns: readonly Column[]): unknown[][] {
  columns.forEach(({ typeOid }, index) => {
    const form = pgForm(typeOid);
    if (form) convertAt(rows as unknown as Record<number, unknown>[], index, form);
  });
  return rows;
}

function convertAt<Key extends string | number>(rows: Record<Key, unknown>[], key: Key, form: Convert): void {
  for (const row of rows) if (row[key] !== null) row[key] = form(row[key]);
}

const ofText =
  (convert: (text: string) => unknown): Convert =>
  (value) =>
    typeof value === "string" ? convert(value) : value;

const FORMS: Readonly<Record<number, Convert>> = {
  [TIMESTAMP]: ofText(timeText),
  [TIMESTAMPTZ]: ofText(timeText),
  [INTERVAL]: ofText(intervalText),
  [POINT]: ofText(pointOf),
  [CIRCLE]: ofText(circleOf),
  [BYTEA]: (value) => bufferOf(value),
};

/** Converts `2024-01-02T03:04:05+00:00` to `2024-01-02 03:04:05+00`, the server's DateStyle ISO in a session at UTC. */
function timeText(text: string): string {
  if (text.charCodeAt(10) !== 84) return text.replace("T", " ").replace("+00:00", "+00");
  const end = text.endsWith("+00:00") ? -3 : undefined;
  return `${text.slice(0, 10)} ${text.slice(11, end)}`.replace("+00:00", "+00");
}

const DURATION = /^P(?:(-?\d+)Y)?(?:(-?\d+)M)?(?:(-?\d+)D)?(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?\d+(?:\.\d+)?)S)?)?$/;

/** Converts ISO 8601 to the server's IntervalStyle `postgres`: `1 year 2 mons -3 days +04:05:06.789`. */
function intervalText(text: string): string {
  const match = DURATION.exec(text);
  if (!match) return text; // infinity
  const [, years, months, days, hours = "0", minutes = "0", seconds = "0"] = match;
  const words: string[] = [];
  let wasNegative = false;
  const add = (digits: string | undefined, unit: string): void => {
    if (digits === undefined) return;
    const plus = wasNegative && !digits.startsWith("-") ? "+" : "";
    words.push(`${plus}${digits} ${unit}${digits === "1" ? "" : "s"}`);
    wasNegative = digits.startsWith("-");
  };
  add(years, "year");
  add(months, "mon");
  add(days, "day");
  const time = [hours, minutes, seconds];
  if (words.length && time.every((part) => Number(part) === 0)) return words.join(" ");
  const sign = time.some((part) => part.startsWith("-")) ? "-" : wasNegative ? "+" : "";
  words.push(sign + time.map(twoDigits).join(":"));
  return words.join(" ");
}

function twoDigits(part: string): string {
  const [whole, fraction] = part.replace("-", "").split(".");
  return whole!.padStart(2, "0") + (fraction === undefined ? "" : `.${fraction}`);
}

function pointOf(text: string): object {
  const [x, y] = text.slice(1, -1).split(",").map(Number);
  return { x, y };
}

function circleOf(text: string): object {
  const [x, y, radius] = text
    .replace(/[<>()]/g, "")
    .split(",")
    .map(Number);
  return { x, y, radius };
}

interface BufferType {
  from(buffer: ArrayBufferLike, offset: number, length: number): Uint8Array;
}

/** Returns a Buffer over the same bytes, if the runtime has Buffers: code for node-postgres calls toString("hex"). */
export function bufferOf(value: unknown): unknown {
  const { Buffer } = globalThis as unknown as { Buffer?: BufferType };
  if (!Buffer || !(value instanceof Uint8Array)) return value;
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
}
