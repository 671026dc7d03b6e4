// What a value becomes beyond number, boolean, text and JSON: the policies of docs/options.md, and the user's own
// parsers per type.
//
// Knows types by OID and the text forms that the core writes for them. Must not know batches, rows or connections.
import type { Column } from "../wasm/boundary.ts";
import { base64, type OwnBytes } from "../util/bytes.ts";
import { elements } from "./element-types.ts";
import { BYTEA, DATE, FLOAT4, FLOAT8, INT8, INTERVAL, NUMERIC, TIME, TIMESTAMP, TIMESTAMPTZ } from "./oid.ts";
import { times } from "./text-values.ts";

/**
 * A parser for a type: what it returns is put into the row. It gets each value that is not NULL: a number, boolean or
 * text as in JSON output, int8 and numeric as their options say, bytea as `\x…`, arrays and json parsed.
 */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- what comes depends on the type that the user names
export type Parser = (value: any, column: Column) => unknown;

/** The user's own. */
export interface Parsers {
  /** As given, the one that wins last. */
  readonly byName: ReadonlyMap<string, Parser>;
  /** Filled from them when the server has said what the names mean. */
  byOid: ReadonlyMap<number, Parser>;
}

/** How values become JavaScript's. */
export interface ValuePolicy {
  /** `undefined`: text, as of `numeric`. */
  readonly int8: "string" | "number" | "bigint" | undefined;
  readonly numeric: "string" | "number" | undefined;
  readonly dates: "string" | "date" | "temporal";
  readonly bytea: "uint8array" | "hex" | "base64";
  readonly parsers: Parsers | undefined;
}

type Convert = (value: never) => unknown;

/**
 * What is to be done with the values of a column that are not NULL; mostly nothing. `isJson`: they come parsed, not as
 * slots.
 */
export function converter(
  column: Column,
  policy: ValuePolicy,
  isJson: boolean,
): ((value: unknown) => unknown) | undefined {
  const { typeOid } = column;
  const parser = policy.parsers?.byOid.get(typeOid);
  // The same values from the server's text, which have no slot of their own, as from binary.
  if (parser) return (value) => parser(isJson && typeOid === FLOAT8 ? Number(value) : value, column);
  const element = elements[typeOid];
  const convert = ofElement(element ?? typeOid, policy, isJson);
  // The simple protocol leaves an array as the server's text, `{01/02/2024}`, where it cannot be read.
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
      // NaN and the infinities come as text where JSON has no number for them; float8 alone has a slot.
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

/** Converts the texts among a value, or an array of any dimension. */
function each(value: unknown, convert: Convert): unknown {
  if (typeof value === "string") return convert(value as never);
  return Array.isArray(value) ? value.map((item) => each(item, convert)) : value;
}

// -- bytea -----------------------------------------------------------------------------------------------------------

/** From bytea's hex form, `\x` and two digits a byte. */
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

/** The runtime's Temporal, where it has one. */
export function temporal(): { readonly [type: string]: TemporalType } | undefined {
  return (globalThis as { Temporal?: { readonly [type: string]: TemporalType } }).Temporal;
}

/**
 * A Date cannot say infinity, nor all of the server's years: those stay text. A timestamp without time zone is read as
 * UTC.
 */
function dateOf(typeOid: number): Convert {
  const zone = typeOid === TIMESTAMP ? "Z" : "";
  return (text: string) => {
    // More digits than milliseconds are not ISO 8601 for every engine. Other DateStyles, of the simple protocol, an
    // engine would read in its own way.
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
      return text; // infinity, 24:00:00, years that it does not have, an interval with parts of both signs
    }
  };
}

/** The server's `P-1Y-2M` has a sign at each part, ISO 8601 one for all. */
function durationOf(text: string): string {
  return /\d/.test(text.replace(/-[\d.]+/g, "")) ? text : `-${text.replaceAll("-", "")}`;
}

/** The server's years: more than four digits, and ` BC` at the end, are `+012345` and `-000043` in ISO 8601. */
function isoOf(text: string): string {
  const [, year, rest, bc] = /^(\d{4,})(-\S+?)( BC)?$/.exec(text) ?? [];
  if (year === undefined || (year.length === 4 && !bc)) return text;
  const number = bc ? 1 - Number(year) : Number(year);
  return (number < 0 ? "-" : "+") + String(Math.abs(number)).padStart(6, "0") + rest;
}
