// What a value becomes beyond number, boolean, text and JSON: by the policies of docs/options.md, and by the user's own
// parsers per type.
//
// Knows types by OID and the text forms that the core writes for them. Must not know batches, rows or connections.
import type { Column } from "../wasm/boundary.ts";
import { base64, type OwnBytes } from "../util/bytes.ts";
import { elements } from "./element-types.ts";
import { BYTEA, DATE, FLOAT4, FLOAT8, INT8, INTERVAL, NUMERIC, TIME, TIMESTAMP, TIMESTAMPTZ } from "./oid.ts";
import { times } from "./text-values.ts";

/**
 * A parser for a type: its result is put into the row. It is called with each value that is not NULL: a number, boolean
 * or text as in JSON output, int8 and numeric as their options say, bytea as `\x…`, arrays and json parsed.
 */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- what comes depends on the type that the user names
export type Parser = (value: any, column: Column) => unknown;

/** The user's own parsers, by the names that the user gave. If two names mean one type, the last wins. */
export type Parsers = ReadonlyMap<string, Parser>;
/** The same parsers by type, as a server has resolved the names. */
export type ParsersByOid = ReadonlyMap<number, Parser>;

/** How values become JavaScript values. */
export interface ValuePolicy {
  /** `undefined`: text, as for `numeric`. */
  readonly int8: "string" | "number" | "bigint" | undefined;
  readonly numeric: "string" | "number" | undefined;
  readonly dates: "string" | "date" | "temporal";
  readonly bytea: "uint8array" | "hex" | "base64";
  readonly parsers: Parsers | undefined;
}

type Convert = (value: never) => unknown;

/**
 * Returns the conversion for a column's values that are not NULL, or `undefined`, as for most columns. `isJson`: the
 * values come from parsed JSON, not from slots.
 */
export function converter(
  column: Column,
  policy: ValuePolicy,
  isJson: boolean,
  parsers?: ParsersByOid,
): ((value: unknown) => unknown) | undefined {
  const { typeOid } = column;
  const parser = parsers?.get(typeOid);
  // From the server's text, float8 values have no slot of their own. `Number` makes them the same as from binary.
  if (parser) return (value) => parser(isJson && typeOid === FLOAT8 ? Number(value) : value, column);
  const element = elements[typeOid];
  const convert = ofElement(element ?? typeOid, policy, isJson);
  // With the simple query protocol an array that cannot be read stays the server's text, `{01/02/2024}`.
  return convert && ((value) => (element && !Array.isArray(value) ? value : each(value, convert)));
}

function ofElement(
  typeOid: number,
  { int8, numeric, dates, bytea }: ValuePolicy,
  isJson: boolean,
): Convert | undefined {
  switch (typeOid) {
    case FLOAT4:
    case FLOAT8:
      // NaN and the infinities, for which JSON has no number, come as text. Only float8 has a slot, which holds them.
      return isJson ? Number : undefined;
    case NUMERIC:
      return numeric === "number" ? Number : undefined;
    case INT8:
      return int8 === "bigint" ? BigInt : undefined;
    case BYTEA:
      return bytea === "hex"
        ? undefined
        : (text: string) => (bytea === "base64" ? base64(fromHex(text)) : fromHex(text));
    case DATE:
    case TIMESTAMP:
    case TIMESTAMPTZ:
      return dates === "string" ? undefined : dates === "date" ? dateOf(typeOid) : temporalOf(typeOid);
    case TIME:
    case INTERVAL:
      return dates === "temporal" ? temporalOf(typeOid) : undefined;
  }
  return undefined;
}

/** Converts a text, or the texts in an array of any dimension. */
function each(value: unknown, convert: Convert): unknown {
  if (typeof value === "string") return convert(value as never);
  return Array.isArray(value) ? value.map((item) => each(item, convert)) : value;
}

// -- bytea -----------------------------------------------------------------------------------------------------------

/** Reads bytea's hex form: `\x` and two digits a byte. */
export function fromHex(text: string): OwnBytes {
  const bytes = new Uint8Array((text.length - 2) / 2);
  for (let index = 0; index < bytes.length; index++) {
    bytes[index] = (digit(text.charCodeAt(2 * index + 2)) << 4) | digit(text.charCodeAt(2 * index + 3));
  }
  return bytes;
}

/** 0-9 are 48-57; a-f are 97-102, A-F 65-70: their low four bits are 1-6. */
function digit(code: number): number {
  return code < 58 ? code - 48 : (code & 15) + 9;
}

// -- dates and times -------------------------------------------------------------------------------------------------

interface TemporalType {
  from(text: string): unknown;
}

/** The runtime's Temporal, if it has one. */
export function temporal(): { readonly [type: string]: TemporalType } | undefined {
  return (globalThis as { Temporal?: { readonly [type: string]: TemporalType } }).Temporal;
}

/**
 * A Date has no infinity, and not all of the server's years: such values stay text. A timestamp without time zone is
 * read as UTC.
 */
function dateOf(typeOid: number): Convert {
  const zone = typeOid === TIMESTAMP ? "Z" : "";
  return (text: string) => {
    // Not every engine reads more digits than milliseconds as ISO 8601. With the simple query protocol there may be
    // other DateStyles, which an engine would read in its own way.
    const date = new Date(isoOf(text).replace(/(\.\d{3})\d+/, "$1") + zone);
    return /^\d{4,}-/.test(text) && !Number.isNaN(date.getTime()) ? date : text;
  };
}

function temporalOf(typeOid: number): Convert {
  const type = temporal()![times[typeOid]!.temporal]!;
  const iso = typeOid === INTERVAL ? durationOf : isoOf;
  return (text: string) => {
    try {
      return type.from(iso(text));
    } catch {
      return text; // infinity, 24:00:00, years that Temporal does not have, an interval with parts of both signs
    }
  };
}

/** The server's `P-1Y-2M` has a sign for each part, ISO 8601 has one sign for all. */
function durationOf(text: string): string {
  return /\d/.test(text.replace(/-[\d.]+/g, "")) ? text : `-${text.replaceAll("-", "")}`;
}

/** The server writes years with more than four digits, and ` BC` at the end. ISO 8601 has `+012345` and `-000043`. */
function isoOf(text: string): string {
  const [, year, rest, bc] = /^(\d{4,})(-\S+?)( BC)?$/.exec(text) ?? [];
  if (year === undefined || (year.length === 4 && !bc)) return text;
  const number = bc ? 1 - Number(year) : Number(year);
  return (number < 0 ? "-" : "+") + String(Math.abs(number)).padStart(6, "0") + rest;
}
