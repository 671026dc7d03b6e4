// Converts parameters as pg does, without knowing the type that the server expects. Also quotes names and texts for
// SQL.
//
// Knows JavaScript's values and the server's text forms. Must not know messages.
import { Buffer } from "node:buffer";
import { defaults } from "./defaults.ts";
import type { Wire } from "./writer.ts";

/** Returns a value as text, as bytes (binary format), or as NULL. */
export function prepareValue(value: unknown): Wire {
  return prepared(value, []);
}

function prepared(value: unknown, seen: readonly unknown[]): Wire {
  if (value === null || value === undefined) return null;
  if (typeof value !== "object") return String(value);
  if (ArrayBuffer.isView(value)) return bytesOf(value);
  if (value instanceof Date) return dateText(value);
  if (Array.isArray(value)) return arrayText(value);
  return objectText(value as { toPostgres?: (prepare: typeof prepareValue) => unknown }, seen);
}

function bytesOf(view: ArrayBufferView): Buffer {
  return view instanceof Buffer ? view : Buffer.from(view.buffer, view.byteOffset, view.byteLength);
}

function objectText(value: { toPostgres?: (prepare: typeof prepareValue) => unknown }, seen: readonly unknown[]): Wire {
  if (typeof value.toPostgres !== "function") return JSON.stringify(value);
  if (seen.includes(value)) throw new Error(`circular reference detected while preparing "${String(value)}" for query`);
  return prepared(value.toPostgres(prepareValue), [...seen, value]);
}

/** `{1,"a b",NULL,{…}}` */
function arrayText(items: readonly unknown[]): string {
  return `{${items.map(itemText).join()}}`;
}

function itemText(item: unknown): string {
  if (item === null || item === undefined) return "NULL";
  if (Array.isArray(item)) return arrayText(item);
  if (ArrayBuffer.isView(item)) return `\\\\x${bytesOf(item).toString("hex")}`;
  const text = prepareValue(item);
  return text === null ? "NULL" : `"${String(text).replace(/[\\"]/g, "\\$&")}"`;
}

const two = (number: number) => String(number).padStart(2, "0");

/**
 * Writes a date in this machine's time zone with its offset, or in UTC if `defaults` says so. Before standard time an
 * offset has seconds, which `getTimezoneOffset` rounds away: pg writes a date there one minute or one day early.
 */
function dateText(date: Date): string {
  const isUtc = defaults.parseInputDatesAsUTC;
  // The local date and time, to be read by the UTC getters.
  const local = isUtc ? date : localAsUtc(date);
  const year = local.getUTCFullYear();
  const day = `${String(year < 1 ? 1 - year : year).padStart(4, "0")}-${two(local.getUTCMonth() + 1)}-${two(local.getUTCDate())}`;
  const fraction = String(local.getUTCMilliseconds()).padStart(3, "0");
  return `${day}T${clock(local)}.${fraction}${zoneText(local.getTime() - date.getTime())}${year < 1 ? " BC" : ""}`;
}

function localAsUtc(date: Date): Date {
  const local = new Date(0);
  local.setUTCFullYear(date.getFullYear(), date.getMonth(), date.getDate());
  local.setUTCHours(date.getHours(), date.getMinutes(), date.getSeconds(), date.getMilliseconds());
  return local;
}

/** `offset` in milliseconds. */
function zoneText(offset: number): string {
  const size = new Date(Math.abs(offset));
  const text = clock(size);
  return `${offset < 0 ? "-" : "+"}${size.getUTCSeconds() ? text : text.slice(0, 5)}`;
}

const clock = (time: Date) => `${two(time.getUTCHours())}:${two(time.getUTCMinutes())}:${two(time.getUTCSeconds())}`;

/** Returns a name for SQL, in double quotes. */
export function escapeIdentifier(name: string): string {
  return `"${name.replace(/"/g, '""')}"`;
}

/** Returns a text for SQL, in single quotes. Returns `''` if the argument is not a text. */
export function escapeLiteral(text: string): string {
  if (typeof text !== "string") return "''";
  const quoted = `'${text.replace(/['\\]/g, "$&$&")}'`;
  return text.includes("\\") ? ` E${quoted}` : quoted;
}
