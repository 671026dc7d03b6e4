// Turns JavaScript values into PostgreSQL's input text, and throws the errors that every form of a value shares.
//
// Knows: type OIDs, array literals. The declared type decides what a value becomes, never the value alone. Must not
// know: messages, binary forms. Errors name the parameter and its type, never the value.

import { UsageError, type Code, type Facts } from "../util/errors.ts";
import { jsonOf, jsonTextOf } from "../util/json.ts";
import { isOfDriver, isQuery } from "../util/shown.ts";
import { isText, isThenable, MUST } from "../util/text.ts";
import { bytesOf, hex, isBytes } from "../util/bytes.ts";
import { elements, names, parts } from "./element-types.ts";
import {
  BOOL,
  BOX,
  BYTEA,
  DATE,
  FIRST_OF_A_DATABASE,
  FLOAT4,
  INT2,
  INT4,
  INT8,
  INTERVAL,
  JSON_,
  JSONB,
  OID,
  TIME,
  TIMESTAMP,
  TIMESTAMPTZ,
} from "./oid.ts";

/** What an error names: the parameter, or the result of `name`, and the declared type. */
export interface Where {
  readonly index: number;
  readonly type: number;
  /** Names the value, for example `Row 7, column "total"`. */
  readonly name?: () => string;
}

const integerRanges: Record<number, readonly [min: number | bigint, max: number | bigint]> = {
  [INT2]: [-0x8000, 0x7fff],
  [INT4]: [-0x80000000, 0x7fffffff],
  [OID]: [0, 0xffffffff],
  [INT8]: [-(2n ** 63n), 2n ** 63n - 1n],
};

/**
 * Returns `value` in the input syntax of `type`, which is the parameter's type or, inside an array, the element's. The
 * text has no NUL, which would end it on the wire, and no unpaired surrogate, which would be replaced.
 */
export function textOf(where: Where, type: number, value: unknown): string {
  const text = inputOf(where, type, value);
  return isText(text) ? text : fail(where, "INVALID_PARAMETER", MUST);
}

function inputOf(where: Where, type: number, value: unknown): string {
  const made = jsonTextOf(value);
  if (made !== undefined && type !== BYTEA) return made;
  if (isJson(type)) return json(where, value);
  if (type in integerRanges) return String(integer(where, type, value));
  if (typeof value === "string") return value;
  if (type === BYTEA) return isBytes(value) ? `\\x${hex(bytesOf(value))}` : wrong(where, value, "pass a Uint8Array");
  const part = parts[type];
  if (part) return parts[part] ? multirangeLiteral(where, part, value) : rangeLiteral(where, part, value);
  const time = times[type];
  if (time) return timeText(where, value, time);
  const kind = typeof value;
  if (type === BOOL && kind !== "boolean") return wrong(where, value, "pass a boolean");
  if (type === FLOAT4 && kind === "number") return String(float4(where, value as number));
  if (kind === "number" || kind === "bigint" || kind === "boolean") return String(value);
  if (type in elements && kind === "object")
    return wrong(where, value, `pass an array${Symbol.iterator in (value as object) ? ", as in [...values]" : ""}`);
  // The element type of an array of the database's own type is not known: then the array's own says where it is from.
  const of = type || where.type;
  return wrong(where, value, `pass text${kind === "object" && !Array.isArray(value) ? otherwise(of, value!) : ""}`);
}

/** What helps besides text. Only the catalog knows what a type of the database is. */
function otherwise(type: number, value: object): string {
  if (type < FIRST_OF_A_DATABASE)
    return `, or cast the parameter to ${value instanceof Date ? "timestamptz" : "jsonb"}`;
  const vector = ArrayBuffer.isView(value) ? ' ("[1,2]" for a vector)' : "";
  return `${vector}, cast the parameter to the base type if this is a domain, or build a composite of its attributes (docs/queries.md)`;
}

export function integer(where: Where, type: number, value: unknown): number | bigint {
  const whole = typeof value === "string" ? digits(value) : value;
  if (typeof whole !== "bigint" && !Number.isInteger(whole)) {
    const advice = "pass a whole number, a bigint or digits";
    if (typeof value !== "number") return wrong(where, value, advice);
    const which = Number.isFinite(value) ? "a number with a fraction" : String(value);
    return fail(where, "INVALID_PARAMETER", `does not accept ${which}: ${advice}.`);
  }
  const found = whole as number | bigint;
  const [min, max] = integerRanges[type] as [number | bigint, number | bigint];
  if (found < min || found > max) return outOfRange(where, `${names[type]} holds ${min} to ${max}`);
  if (typeof found === "number" && !Number.isSafeInteger(found)) return outOfRange(where, "beyond 2^53, pass a bigint");
  return found;
}

function digits(text: string): bigint | undefined {
  if (!/^\s*[-+]?\d+\s*$/.test(text)) return undefined;
  // 2^63 has 19 digits. BigInt of a megabyte of digits would take seconds.
  return text.length < 64 ? BigInt(text) : 2n ** 64n;
}

export function float4(where: Where, value: number): number {
  const rounded = Math.fround(value);
  // Like float4in: a value that is too large or too small for float4 is an error, not Infinity or 0.
  if (Number.isFinite(value) && (!Number.isFinite(rounded) || (rounded === 0 && value !== 0)))
    return outOfRange(where, "float4 holds 1e-45 to 3.4e38");
  return value;
}

function json(where: Where, value: unknown): string {
  if (typeof value === "string") return value;
  if (typeof value === "bigint") return String(value);
  const must = "pass a value that JSON can represent";
  if (isBytes(value)) return wrong(where, value, must);
  const found = jsonOf(value);
  if ("text" in found) return found.text;
  const facts = found.cause === undefined ? undefined : { cause: found.cause };
  return wrong(where, value, `${must} (${found.why})`, facts);
}

/** A date or time type, and the values that its parameters take besides text. */
interface TimeType {
  /** The Temporal type that its values are read as. */
  readonly temporal: string;
  /** By their tags, since Temporal may come from a library. */
  readonly takes: readonly string[];
}

export const times: Readonly<Record<number, TimeType>> = {
  [DATE]: { temporal: "PlainDate", takes: ["Date", "Temporal.PlainDate"] },
  [TIME]: { temporal: "PlainTime", takes: ["Temporal.PlainTime"] },
  [TIMESTAMP]: { temporal: "PlainDateTime", takes: ["Date", "Temporal.PlainDate", "Temporal.PlainDateTime"] },
  [TIMESTAMPTZ]: { temporal: "Instant", takes: ["Date", "Temporal.Instant", "Temporal.ZonedDateTime"] },
  [INTERVAL]: { temporal: "Duration", takes: ["Temporal.Duration"] },
};

/**
 * Returns ISO 8601 text, of a Date in UTC, as PostgreSQL reads it: with BC for the years before 1, and with signs after
 * an interval's P. Never shortened to a date, since a column may have become a timestamptz by now.
 */
function timeText(where: Where, value: unknown, { takes }: TimeType): string {
  const tag = tagOf(value);
  // An invalid Date has no text. A ZonedDateTime rounds its zone's offset to minutes if the offset has seconds.
  const text =
    takes.includes(tag) &&
    (tag === "Date"
      ? isoText(value as Date)
      : String((value as { toInstant?(): unknown }).toInstant?.() ?? value).replace(/\[.*/, ""));
  if (!text) return wrong(where, value, `pass text, or a valid ${takes.join(" or ")}`);
  // Most values are a Date of the years 1 to 9999, which needs no change.
  if (text.length === 24 && text > "0001") return text;
  if (text.startsWith("-P")) return text.slice(1).replace(/\d[\d.]*/g, "-$&");
  const afterYear = text.indexOf("-", 1);
  if (afterYear < 0) return text;
  const year = parseInt(text);
  const rest = text.slice(afterYear);
  if (year < -4713 || (year === -4713 && rest < "-11-24")) return outOfRange(where, "PostgreSQL has no such time");
  return `${String(year > 0 ? year : 1 - year).padStart(4, "0")}${rest}${year > 0 ? "" : " BC"}`;
}

/** With toISOString, because toJSON takes twice as long. */
function isoText(date: Date): string {
  return Number.isNaN(date.getTime()) ? "" : date.toISOString();
}

export const DIMENSIONS = "pass an array of at most 6 dimensions";

/** `{"a",NULL,{"b"}}`: everything except NULL is quoted, so that no content can mean anything else. */
export function arrayLiteral(where: Where, element: number, array: readonly unknown[], depth: number): string {
  if (depth > 6) return wrong(where, array, DIMENSIONS);
  const items = Array.from(array, (item, row) => {
    try {
      if (item === null) return "NULL";
      // In json[] an inner array is a JSON array, and in an array of multiranges a multirange. Both have one dimension.
      if (Array.isArray(item) && !isJson(element) && !parts[parts[element]!])
        return arrayLiteral(where, element, item, depth + 1);
      return quoted(textOf(where, element, item));
    } catch (error) {
      throw error instanceof UsageError ? Object.assign(error, { row }) : error;
    }
  });
  return `{${items.join(element === BOX ? ";" : ",")}}`;
}

const RANGE = "pass { lower, upper }";

/**
 * `["1","10")`, from `{ lower, upper, bounds }`. A missing bound may be a mistake, so it does not mean an infinite
 * bound.
 */
function rangeLiteral(where: Where, part: number, value: unknown): string {
  const {
    lower,
    upper,
    bounds = "[)",
    empty,
  } = Object(value) as { lower?: unknown; upper?: unknown; bounds?: unknown; empty?: unknown };
  if (empty === true) return "empty";
  const missing = lower === undefined ? "lower" : upper === undefined ? "upper" : undefined;
  if (lower === undefined && upper === undefined) return wrong(where, value, RANGE);
  if (missing) return wrong(where, value, `${RANGE}: ${missing} is missing, and null is no bound`);
  if (!/^[[(][\])]$/.test(String(bounds))) return wrong(where, value, `${RANGE} with bounds "[)", "[]", "(]" or "()"`);
  const bound = (one: unknown) => (one === null ? "" : quoted(textOf(where, part, one)));
  return `${(bounds as string)[0]}${bound(lower)},${bound(upper)}${(bounds as string)[1]}`;
}

function multirangeLiteral(where: Where, range: number, value: unknown): string {
  if (!Array.isArray(value)) return wrong(where, value, "pass an array of ranges");
  return `{${Array.from(value, (one) => textOf(where, range, one)).join()}}`;
}

function quoted(text: string): string {
  return `"${text.replace(/["\\]/g, "\\$&")}"`;
}

export function isJson(type: number): boolean {
  return type === JSON_ || type === JSONB;
}

function named({ name = () => `Parameter $${index + 1}`, index, type }: Where): string {
  const element = names[elements[type]!];
  return `${name()} (${element ? `${element}[]` : (names[type] ?? `type OID ${type}`)})`;
}

export function wrong(where: Where, value: unknown, advice: string, facts?: Facts): never {
  const isList = Array.isArray(value) && !where.name && !(where.type in elements);
  const list = isList ? `; for a list write = any($${where.index + 1}), or sql.in(list)` : "";
  const what = insteadOf(value) ?? advice + list;
  const given = typeof value === "string" ? "this text" : `a value of type ${tagOf(value)}`;
  return fail(where, "INVALID_PARAMETER", `does not accept ${given}: ${what}.`, facts);
}

/** What to do with a value that no type takes. */
function insteadOf(value: unknown): string | undefined {
  if (value === undefined) return "pass null for NULL";
  if (isThenable(value)) return "await it first";
  if (!isOfDriver(value)) return undefined;
  return isQuery(value as object)
    ? "it is a query: write it in the SQL, sql`… ${fragment}`"
    : "it is an object of the driver";
}

/** Returns a tag such as `Undefined`, `Array` or `Temporal.Instant`. */
function tagOf(value: unknown): string {
  return Object.prototype.toString.call(value).slice(8, -1);
}

/** The error for a value whose own code threw, such as a revoked proxy, or whose bytes are gone. */
export function unreadable(where: Where, cause: unknown): never {
  return fail(where, "INVALID_PARAMETER", `cannot be read: ${cause instanceof Error ? cause.message : "it threw"}.`, {
    cause,
  });
}

export function outOfRange(where: Where, why: string): never {
  return fail(where, "PARAMETER_OUT_OF_RANGE", `is out of range: ${why}.`);
}

function fail(where: Where, code: Code, what: string, facts?: Facts): never {
  const error = new UsageError(code, `${named(where)} ${what}`, facts);
  throw where.name ? error : Object.assign(error, { parameter: where.index + 1 });
}
