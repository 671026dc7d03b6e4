// Dates and times: text in ISO form, microseconds since 2000.
//
// Knows the calendar, and zones by the platform's Intl. Must not know sessions: the zone is a parameter. It writes only
// the ISO form; DateStyle is only stored and reported.
import { PgError } from "./errors.ts";

const EPOCH = Date.UTC(2000, 0);
const DAY = 86_400_000_000n;
export const LATEST = 0x7fffffffffffffffn;
export const EARLIEST = -0x8000000000000000n;

/** The moment when virtual time begins. */
export const BEGINNING = Date.UTC(2026, 0);

export const fromUnix = (milliseconds: number): bigint => BigInt(Math.round((milliseconds - EPOCH) * 1000));
export const toUnix = (micros: bigint): number => Number(micros / 1000n) + EPOCH;

const FORM =
  /^(\d{4,6})-(\d\d?)-(\d\d?)(?:[T ](\d\d?):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?)?\s*(Z\b|[+-]\d\d?(?::?\d\d)?(?::?\d\d)?|(?!BC\b)[A-Z][A-Za-z/_]+)?( ?BC)?$/i;

/**
 * `zone` applies to a text that names no zone. It is `undefined` for a type without zones, which ignores the text's
 * zone.
 */
export function parseTimestamp(text: string, type: string, zone: string | undefined): bigint {
  const trimmed = text.trim();
  if (/^infinity$/i.test(trimmed)) return LATEST;
  if (/^-infinity$/i.test(trimmed)) return EARLIEST;
  const found = FORM.exec(trimmed);
  if (!found) throw new PgError("22007", `invalid input syntax for type ${type}: "${text}"`);
  const [, year, month, day, hour = "0", minute = "0", second = "0", fraction = "", offset, bc] = found;
  const full = bc ? 1 - Number(year) : Number(year);
  const wrong = () => new PgError("22008", `date/time field value out of range: "${text}"`);
  if (+month! < 1 || +month! > 12 || +day! < 1 || +day! > daysOf(full, +month!)) throw wrong();
  if (+hour > 24 || +minute > 59 || +second > 60) throw wrong();
  const date = new Date(0);
  date.setUTCFullYear(full, +month! - 1, +day!);
  const midnight = BigInt(Math.round((date.getTime() - EPOCH) / 86_400_000)) * DAY;
  const clock = BigInt((+hour * 60 + +minute) * 60 + +second) * 1_000_000n;
  const local = midnight + clock + BigInt(Math.round(Number(`0.${fraction || 0}`) * 1e6));
  if (zone === undefined) return local;
  return local - BigInt(secondsEast(offset ?? zone, local, true)) * 1_000_000n;
}

function daysOf(year: number, month: number): number {
  const date = new Date(0);
  date.setUTCFullYear(year, month, 0);
  return date.getUTCDate();
}

/** Prints a timestamp; with a zone, a timestamptz. */
export function printTimestamp(micros: bigint, zone?: string): string {
  if (micros === LATEST) return "infinity";
  if (micros === EARLIEST) return "-infinity";
  const east = zone === undefined ? 0 : secondsEast(zone, micros, false);
  const local = micros + BigInt(east) * 1_000_000n;
  const ofDay = ((local % DAY) + DAY) % DAY;
  const seconds = Number(ofDay / 1_000_000n);
  const fraction = String(ofDay % 1_000_000n)
    .padStart(6, "0")
    .replace(/0+$/, "");
  const two = (n: number) => String(Math.floor(n)).padStart(2, "0");
  const clock = `${two(seconds / 3600)}:${two((seconds / 60) % 60)}:${two(seconds % 60)}`;
  const { text, isBc } = dayText((local - ofDay) / DAY);
  const behind = zone === undefined ? "" : printOffset(east);
  return `${text} ${clock}${fraction && `.${fraction}`}${behind}${isBc ? " BC" : ""}`;
}

function printOffset(east: number): string {
  const two = (n: number) => String(Math.floor(n)).padStart(2, "0");
  const size = Math.abs(east);
  const [minutes, seconds] = [Math.floor(size / 60) % 60, size % 60];
  const rest = seconds ? `:${two(minutes)}:${two(seconds)}` : minutes ? `:${two(minutes)}` : "";
  return `${east < 0 ? "-" : "+"}${two(size / 3600)}${rest}`;
}

function dayText(day: bigint): { text: string; isBc: boolean } {
  const date = new Date(EPOCH + Number(day) * 86_400_000);
  const year = date.getUTCFullYear();
  const two = (n: number) => String(n).padStart(2, "0");
  const shown = String(year > 0 ? year : 1 - year).padStart(4, "0");
  return { text: `${shown}-${two(date.getUTCMonth() + 1)}-${two(date.getUTCDate())}`, isBc: year <= 0 };
}

const LATEST_DAY = 0x7fffffff;
const EARLIEST_DAY = -0x80000000;

export function parseDate(text: string): number {
  if (/^\s*infinity\s*$/i.test(text)) return LATEST_DAY;
  if (/^\s*-infinity\s*$/i.test(text)) return EARLIEST_DAY;
  const micros = parseTimestamp(text, "date", undefined);
  return Number((micros - (((micros % DAY) + DAY) % DAY)) / DAY);
}

export function printDate(day: number): string {
  if (day === LATEST_DAY) return "infinity";
  if (day === EARLIEST_DAY) return "-infinity";
  const { text, isBc } = dayText(BigInt(day));
  return text + (isBc ? " BC" : "");
}

/** Returns the seconds east of Greenwich at that moment, given in the zone's own time (`isLocal`) or in UTC. */
function secondsEast(zone: string, micros: bigint, isLocal: boolean): number {
  if (/^(z|utc|gmt|etc\/utc)$/i.test(zone)) return 0;
  const offset = /^([+-])(\d\d?)(?::?(\d\d))?(?::?(\d\d))?$/.exec(zone);
  if (offset) {
    const [, sign, hours, minutes = "0", seconds = "0"] = offset;
    return (sign === "-" ? -1 : 1) * (+hours! * 3600 + +minutes * 60 + +seconds);
  }
  const at = toUnix(micros);
  const first = ofZone(zone, at);
  return isLocal ? ofZone(zone, at - first * 1000) : first;
}

const formats = new Map<string, Intl.DateTimeFormat>();

export function isZone(zone: string): boolean {
  try {
    secondsEast(zone, 0n, false);
    return true;
  } catch {
    return false;
  }
}

function ofZone(timeZone: string, milliseconds: number): number {
  let format = formats.get(timeZone);
  if (!format) formats.set(timeZone, (format = new Intl.DateTimeFormat("en-US", { timeZone, ...ALL })));
  const parts = Object.fromEntries(format.formatToParts(milliseconds).map(({ type, value }) => [type, Number(value)]));
  const { year, month, day, hour, minute, second } = parts as Record<string, number>;
  const local = Date.UTC(year!, month! - 1, day!, hour! % 24, minute!, second!);
  return Math.round((local - Math.floor(milliseconds / 1000) * 1000) / 1000);
}

const ALL = {
  year: "numeric",
  month: "numeric",
  day: "numeric",
  hour: "numeric",
  minute: "numeric",
  second: "numeric",
  hourCycle: "h23",
} as const;
