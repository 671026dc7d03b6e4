// Reads dates and intervals from the server's text (DateStyle ISO), in pg's forms: a `Date`, and an object of units.
//
// A date or a timestamp without a zone is a time of this machine, as in pg. Knows text forms only.

const DATE =
  /^(\d{1,})-(\d{2})-(\d{2})(?: (\d{2}):(\d{2}):(\d{2})(\.\d+)?)?(?:(Z)|([+-])(\d{2})(?::?(\d{2}))?(?::?(\d{2}))?)?( BC)?$/;

/** Returns the date, or `null` if the text is not a date in this style. */
export function parseDate(text: string): Date | number | null {
  const plain = plainDate(text);
  if (plain) return plain;
  if (text === "infinity") return Infinity;
  if (text === "-infinity") return -Infinity;
  const parts = DATE.exec(text);
  if (!parts) return null;
  const [, digits = "", month, day, hour, minute, second, fraction, utc, sign, hours, minutes, seconds, bc] = parts;
  const year = bc ? 1 - Number(digits) : Number(digits);
  const [h, m, s] = [Number(hour ?? 0), Number(minute ?? 0), Number(second ?? 0)];
  const ms = Math.trunc(1000 * Number(fraction ?? 0));
  if (!utc && !sign) return localDate(year, Number(month) - 1, Number(day), h, m, s, ms);
  const offset = Number(hours ?? 0) * 3600 + Number(minutes ?? 0) * 60 + Number(seconds ?? 0);
  const date = new Date(Date.UTC(2000, Number(month) - 1, Number(day), h, m, s, ms));
  date.setUTCFullYear(year, Number(month) - 1, Number(day));
  return new Date(date.getTime() - (sign === "-" ? -offset : offset) * 1000);
}

/** A time of this machine's zone. `month` is 0 to 11, `time` its hours, minutes, seconds and milliseconds. */
export function localDate(year: number, month: number, day: number, ...time: [number, number, number, number]): Date {
  if (year < 0 || year > 99) return new Date(year, month, day, ...time);
  // The constructor would read these years as 1900 to 1999. The year 400 years later is as long.
  const date = new Date(year + 400, month, day, ...time);
  date.setFullYear(year);
  return date;
}

/**
 * Reads `2024-02-29 12:34:56.789+00` in the years 1000 to 9999 by its digits. Returns `undefined` for every other form.
 * Most dates have this form, and the expression above costs three times as much.
 */
function plainDate(text: string): Date | undefined {
  const { length } = text;
  const sign = text.charCodeAt(length - 3);
  if (length < 22 || text.charCodeAt(4) !== 45 || text.charCodeAt(10) !== 32 || text.charCodeAt(0) === 48)
    return undefined;
  if (sign !== 43 || text.charCodeAt(length - 1) !== 48 || text.charCodeAt(length - 2) !== 48) return undefined;
  const fraction = text.charCodeAt(19) === 46 ? Math.trunc(1000 * Number(text.slice(19, length - 3))) : 0;
  if (!fraction && length !== 22 && text.charCodeAt(19) !== 46) return undefined;
  const two = (at: number) => (text.charCodeAt(at) - 48) * 10 + text.charCodeAt(at + 1) - 48;
  const year = two(0) * 100 + two(2);
  return new Date(Date.UTC(year, two(5) - 1, two(8), two(11), two(14), two(17), fraction));
}

const UNITS = ["years", "months", "days", "hours", "minutes", "seconds"] as const;
const LETTERS = ["Y", "M", "D", "H", "M", "S"];
const INTERVAL =
  /^(?:([+-]?\d+) years?)? ?(?:([+-]?\d+) mons?)? ?(?:([+-]?\d+) days?)? ?(?:([+-])?(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?/;

/** An interval by units. Units that are 0 are missing. */
class PostgresInterval {
  declare years?: number;
  declare months?: number;
  declare days?: number;
  declare hours?: number;
  declare minutes?: number;
  declare seconds?: number;
  declare milliseconds?: number;

  /** Returns a text that the server can read. */
  toPostgres(): string {
    const parts = UNITS.filter((unit) => this[unit] || (unit === "seconds" && this.milliseconds));
    return parts.map((unit) => `${this.#text(unit, /\.?0+$/)} ${unit}`).join(" ") || "0";
  }

  /** Returns the interval in ISO 8601. */
  toISO(): string {
    const parts = UNITS.map((unit, index) => this.#text(unit, /0+$/) + LETTERS[index]);
    return `P${parts.slice(0, 3).join("")}T${parts.slice(3).join("")}`;
  }

  toISOString(): string {
    return this.toISO();
  }

  #text(unit: (typeof UNITS)[number], zeros: RegExp): string {
    const value = this[unit] ?? 0;
    if (unit !== "seconds" || !this.milliseconds) return String(value);
    return (value + this.milliseconds / 1000).toFixed(6).replace(zeros, "");
  }
}

/** `1 year -2 mons 3 days -04:05:06.789` */
export function parseInterval(text: string): PostgresInterval {
  const interval = new PostgresInterval();
  const [, years, months, days, sign, hours, minutes, seconds, fraction] = INTERVAL.exec(text) ?? [];
  const put = (unit: (typeof UNITS)[number] | "milliseconds", value: number) => {
    if (value) interval[unit] = value;
  };
  const factor = sign === "-" ? -1 : 1;
  put("years", Number(years ?? 0));
  put("months", Number(months ?? 0));
  put("days", Number(days ?? 0));
  put("hours", factor * Number(hours ?? 0));
  put("minutes", factor * Number(minutes ?? 0));
  put("seconds", factor * Number(seconds ?? 0));
  put("milliseconds", (factor * Number((fraction ?? "").padEnd(6, "0"))) / 1000);
  return interval;
}
