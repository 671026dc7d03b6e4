// Dates and times: text in ISO form, microseconds since 2000.
//
// Knows zones by the platform's Intl. Must not know sessions: the zone is a parameter. It reads and writes only the ISO
// form of years from 1000 to 9999; DateStyle is only stored and reported.
import { PgError } from "./errors.ts";

const EPOCH = Date.UTC(2000, 0);
const DAY = 86_400_000_000n;

/** The moment when virtual time begins. */
export const BEGINNING = Date.UTC(2026, 0);

export const fromUnix = (milliseconds: number): bigint => BigInt(Math.round((milliseconds - EPOCH) * 1000));
const toUnix = (micros: bigint): number => Number(micros / 1000n) + EPOCH;

const FORM = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?)?(Z|[+-]\d\d(?::\d\d)?)?$/;

/** `zone` applies to a text that names no zone. */
export function parseTimestamp(text: string, zone: string): bigint {
  const [, day, clock = "00:00:00", fraction = "0", offset] = FORM.exec(text) ?? [];
  const seconds = Date.parse(`${day}T${clock}Z`);
  if (Number.isNaN(seconds))
    throw new PgError("22007", `invalid input syntax for type timestamp with time zone: "${text}"`);
  const local = fromUnix(seconds) + BigInt(fraction.padEnd(6, "0"));
  return local - BigInt(secondsEast(offset ?? zone, local, true)) * 1_000_000n;
}

export function printTimestamp(micros: bigint, zone: string): string {
  const east = secondsEast(zone, micros, false);
  const local = micros + BigInt(east) * 1_000_000n;
  const ofSecond = ((local % 1_000_000n) + 1_000_000n) % 1_000_000n;
  const fraction = String(ofSecond).padStart(6, "0").replace(/0+$/, "");
  const shown = new Date(toUnix(local - ofSecond)).toISOString().slice(0, 19).replace("T", " ");
  return `${shown}${fraction && `.${fraction}`}${printOffset(east)}`;
}

function printOffset(east: number): string {
  const two = (n: number) => String(n).padStart(2, "0");
  const size = Math.abs(east);
  const [minutes, seconds] = [Math.floor(size / 60) % 60, size % 60];
  const rest = seconds ? `:${two(minutes)}:${two(seconds)}` : minutes ? `:${two(minutes)}` : "";
  return `${east < 0 ? "-" : "+"}${two(Math.floor(size / 3600))}${rest}`;
}

export function parseDate(text: string): number {
  return Number(parseTimestamp(text, "UTC") / DAY);
}

export function printDate(day: number): string {
  return new Date(EPOCH + day * 86_400_000).toISOString().slice(0, 10);
}

/** Returns the seconds east of Greenwich at that moment, given in the zone's own time (`isLocal`) or in UTC. */
function secondsEast(zone: string, micros: bigint, isLocal: boolean): number {
  if (zone === "Z" || zone === "UTC") return 0;
  const offset = /^([+-])(\d\d)(?::(\d\d))?$/.exec(zone);
  if (offset) {
    const [, sign, hours, minutes = "0"] = offset;
    return (sign === "-" ? -1 : 1) * (Number(hours) * 3600 + Number(minutes) * 60);
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
