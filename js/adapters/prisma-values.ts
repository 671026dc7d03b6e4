// Values between Prisma and the driver: what an argument is sent as, and which kind and form a column has.
//
// Knows Prisma's kinds, OIDs, and the forms in which the driver gives values (docs/types.md). Must not know who asked.
import type { Column } from "../index.ts";
import { parseArray } from "./pg/types/arrays.ts";
import { ColumnKind, type ArgType, type ColumnType, type SqlQuery, type SqlResultSet } from "./prisma-contract.ts";

/** How the driver is to give values, so that few have to be changed. A pool's own settings must not matter. */
export const VALUES = {
  int8: "string",
  numeric: "string",
  dates: "string",
  bytea: "uint8array",
  json: "text",
  onLimit: "error",
  duplicates: "keep",
} as const;

// -- arguments -------------------------------------------------------------------------------------------------------

/** The values of `$1`, `$2` … The driver encodes each for the type that the server reports. */
export function parametersOf({ args, argTypes }: SqlQuery): unknown[] {
  return args.map((arg, index) => parameterOf(arg, argTypes[index]));
}

function parameterOf(arg: unknown, type: ArgType | undefined): unknown {
  if (Array.isArray(arg) && type?.arity === "list") return arg.map((item) => parameterOf(item, type));
  if (typeof arg === "string") {
    if (type?.scalarType === "datetime") return timeOf(new Date(arg), type.dbType) ?? arg;
    return type?.scalarType === "bytes" ? fromBase64(arg) : arg;
  }
  return arg instanceof Date ? (timeOf(arg, type?.dbType) ?? arg) : arg;
}

/**
 * As text with its zone, UTC: right for every type, whatever the session's TimeZone. `timestamp` and `time` ignore the
 * zone, and a parameter that is text has a text. What is no time is left to the driver or the server to refuse.
 */
function timeOf(date: Date, dbType: string | undefined): string | undefined {
  if (Number.isNaN(date.getTime())) return undefined;
  const [, sign, years, rest, time] = /^([+-]?)(\d+)(-\d\d-\d\d)T(.*)Z$/.exec(date.toISOString())!;
  const clock = `${time!.replace(".000", "")}+00`;
  if (dbType === "TIME" || dbType === "TIMETZ") return clock;
  const isBefore = sign === "-" || Number(years) === 0;
  const year = String(isBefore ? Number(years) + 1 : Number(years)).padStart(4, "0");
  const day = dbType === "DATE" ? `${year}${rest}` : `${year}${rest} ${clock}`;
  return isBefore ? `${day} BC` : day;
}

function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

// -- columns ---------------------------------------------------------------------------------------------------------

type Convert = (value: never) => unknown;

/** Of the built-in types: what Prisma calls it, and what is left to do with a value. */
const KINDS: Readonly<Record<number, readonly [kind: ColumnType, convert?: Convert]>> = {
  16: [ColumnKind.Boolean],
  17: [ColumnKind.Bytes],
  20: [ColumnKind.Int64],
  21: [ColumnKind.Int32],
  23: [ColumnKind.Int32],
  26: [ColumnKind.Int64], // oid
  114: [ColumnKind.Json],
  700: [ColumnKind.Float],
  701: [ColumnKind.Double],
  790: [ColumnKind.Numeric, amountOf], // money
  1082: [ColumnKind.Date],
  1083: [ColumnKind.Time],
  1114: [ColumnKind.DateTime, inUtc],
  1184: [ColumnKind.DateTime],
  1266: [ColumnKind.Time, withoutZone], // timetz
  1700: [ColumnKind.Numeric],
  2950: [ColumnKind.Uuid],
  3802: [ColumnKind.Json],
  143: [ColumnKind.TextArray, listOf()], // xml[]
  199: [ColumnKind.JsonArray],
  651: [ColumnKind.TextArray], // cidr[]
  791: [ColumnKind.NumericArray, listOf(amountOf)],
  1000: [ColumnKind.BooleanArray],
  1001: [ColumnKind.BytesArray],
  1002: [ColumnKind.CharacterArray],
  1005: [ColumnKind.Int32Array],
  1007: [ColumnKind.Int32Array],
  1009: [ColumnKind.TextArray],
  1014: [ColumnKind.TextArray], // bpchar[]
  1015: [ColumnKind.TextArray], // varchar[]
  1016: [ColumnKind.Int64Array],
  1021: [ColumnKind.FloatArray],
  1022: [ColumnKind.DoubleArray],
  1028: [ColumnKind.Int64Array], // oid[]
  1041: [ColumnKind.TextArray], // inet[]
  1115: [ColumnKind.DateTimeArray, each(inUtc)],
  1182: [ColumnKind.DateArray],
  1183: [ColumnKind.TimeArray],
  1185: [ColumnKind.DateTimeArray],
  1231: [ColumnKind.NumericArray],
  1561: [ColumnKind.TextArray], // bit[]
  1563: [ColumnKind.TextArray], // varbit[]
  2951: [ColumnKind.UuidArray],
  3807: [ColumnKind.JsonArray],
};

/** A timestamp has no zone; Prisma reads it as UTC. */
function inUtc(text: string): string {
  return `${text}+00:00`;
}

function withoutZone(text: string): string {
  return text.replace(/[+-]\d\d(:\d\d){0,2}$/, "");
}

/** Without the currency and the thousands' separators of a locale that writes them as English does. */
function amountOf(text: string): string {
  return text.replace(/[^-\d.]/g, "");
}

/** In arrays of any dimension. */
function each(convert: Convert): (value: unknown) => unknown {
  const all = (value: unknown): unknown =>
    Array.isArray(value) ? value.map(all) : value === null ? null : convert(value as never);
  return all;
}

/** Arrays that the driver leaves as the server's text. */
function listOf(convert: Convert = String): (value: unknown) => unknown {
  const all = each(convert);
  return (value) => all(typeof value === "string" ? parseArray(value, String) : value);
}

// -- results ---------------------------------------------------------------------------------------------------------

/** What is known of a result's columns before its rows are. */
interface Shape {
  readonly columnNames: string[];
  readonly columnTypes: ColumnType[];
  readonly converts: readonly (readonly [index: number, convert: Convert])[];
  /** Columns of types that Prisma has no kind for: their values say what they are. */
  readonly others: readonly number[];
  /** Without those of types of the database. */
  readonly builtIn: readonly number[];
}

/** Types of the database begin here. */
const FIRST_OF_A_DATABASE = 16_384;

/** Such as an enum, a composite, an extension's. */
export function isOfDatabase({ typeOid }: Column): boolean {
  return typeOid >= FIRST_OF_A_DATABASE;
}

/** A statement's columns are one list in all its runs, so Prisma finds its own notes about them again, too. */
const shapes = new WeakMap<readonly Column[], Shape>();

/** `isParsed`: values of types of the database stay the driver's, since the user's parser makes texts of them. */
export function resultSet(fields: readonly Column[], rows: unknown[][], isParsed: boolean): SqlResultSet {
  let shape = shapes.get(fields);
  if (!shape) shapes.set(fields, (shape = shapeOf(fields)));
  const { columnNames, columnTypes, converts } = shape;
  const others = isParsed ? shape.builtIn : shape.others;
  for (const [index, convert] of converts)
    for (const row of rows) {
      const value = row[index];
      if (value !== null) row[index] = convert(value as never);
    }
  return { columnNames, columnTypes: others.length ? withOthers(columnTypes, others, rows) : columnTypes, rows };
}

function shapeOf(fields: readonly Column[]): Shape {
  const kinds = fields.map(({ typeOid }) => KINDS[typeOid]);
  const others = kinds.flatMap((kind, index) => (kind ? [] : [index]));
  return {
    columnNames: fields.map(({ name }) => name),
    columnTypes: kinds.map((kind) => kind?.[0] ?? ColumnKind.Text),
    converts: kinds.flatMap((kind, index) => (kind?.[1] ? [[index, kind[1]] as const] : [])),
    others,
    builtIn: others.filter((index) => !isOfDatabase(fields[index]!)),
  };
}

/** Texts stay; what has a structure (composites, arrays of enums) becomes JSON. */
function withOthers(columnTypes: readonly ColumnType[], others: readonly number[], rows: unknown[][]): ColumnType[] {
  const kinds = [...columnTypes];
  for (const index of others) {
    const first = rows.find((row) => row[index] !== null)?.[index];
    if (first === undefined || typeof first === "string") continue;
    kinds[index] = ColumnKind.Json;
    for (const row of rows) if (row[index] !== null) row[index] = JSON.stringify(row[index]);
  }
  return kinds;
}
