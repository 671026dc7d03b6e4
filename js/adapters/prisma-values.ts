// Converts values between Prisma and the driver: the form in which an argument is sent, and the kind and form of a
// column.
//
// Knows Prisma's kinds, OIDs, and the forms in which the driver returns values (docs/types.md). Must not know which
// call the values belong to.
import type { Column } from "../index.ts";
import { ColumnKind, type ArgType, type ColumnType, type SqlQuery, type SqlResultSet } from "./prisma-contract.ts";

/**
 * The forms in which the driver returns values, chosen so that few need a conversion. They override the pool's own
 * settings.
 */
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

/** Returns the values of `$1`, `$2` … The driver encodes each for the type that the server reports. */
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
 * Returns the time as text with its zone, UTC. This is right for every type, whatever the session's TimeZone:
 * `timestamp` and `time` ignore the zone, and a parameter of type text gets a text. Returns `undefined` for an invalid
 * time; the driver or the server then refuses the argument.
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

/** For each built-in type: Prisma's kind, and the conversion that a value still needs. */
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
  143: [ColumnKind.TextArray], // xml[]
  199: [ColumnKind.JsonArray],
  651: [ColumnKind.TextArray], // cidr[]
  791: [ColumnKind.NumericArray, each(amountOf)],
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

/** Removes the currency and the thousands separators, for locales that write numbers as English does. */
function amountOf(text: string): string {
  return text.replace(/[^-\d.]/g, "");
}

/** Converts the elements of arrays of any dimension. */
function each(convert: Convert): (value: unknown) => unknown {
  const all = (value: unknown): unknown =>
    Array.isArray(value) ? value.map(all) : value === null ? null : convert(value as never);
  return all;
}

// -- results ---------------------------------------------------------------------------------------------------------

/** The part of a result that depends only on its columns. */
interface Shape {
  readonly columnNames: string[];
  readonly columnTypes: ColumnType[];
  readonly converts: readonly (readonly [index: number, convert: Convert])[];
  /** Columns of types for which Prisma has no kind. Their kind depends on their values. */
  readonly others: readonly number[];
  /** The columns of `others` whose types are built in. */
  readonly builtIn: readonly number[];
}

/** The first OID of types that a database itself defines. */
const FIRST_OF_A_DATABASE = 16_384;

/** Whether the database itself defines the type, such as an enum, a composite or a type of an extension. */
export function isOfDatabase({ typeOid }: Column): boolean {
  return typeOid >= FIRST_OF_A_DATABASE;
}

/**
 * By columns: all runs of a statement have the same list. Prisma gets the same names and kinds each time, so whatever
 * it has stored for them is found again too.
 */
const shapes = new WeakMap<readonly Column[], Shape>();

/**
 * With `isParsed`, values of the database's own types stay the driver's, because the user's parser makes texts of them.
 */
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

/** Leaves texts. Values with a structure (composites, arrays of enums) become JSON. */
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
