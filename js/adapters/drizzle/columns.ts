// Which decoder a field of a selection has, by Drizzle's column and by the type that the server names: chosen once per
// statement. For drizzle-orm 0.45.
//
// Knows Drizzle's columns. Must not know how rows are built (rows.ts), nor how a statement runs.
import { Column, getTableName, is, SQL, Subquery } from "drizzle-orm";
import { PgArray, type PgColumn } from "drizzle-orm/pg-core";
import type { Column as ResultColumn } from "../../index.ts";
import {
  DATE,
  eachOf,
  elementOf,
  FLOAT4,
  FLOAT8,
  INT2,
  INT4,
  INT8,
  JSON_TYPE,
  JSONB,
  NUMERIC,
  pgForm,
  TIMESTAMP,
  TIMESTAMPTZ,
  type Convert,
} from "./forms.ts";
import { rowMapper, type RowMapper } from "./rows.ts";

/** One field of a selection: where its value goes, and what says how to decode it. */
export interface SelectedField {
  readonly path: readonly string[];
  readonly field: unknown;
}

/** What Drizzle's decoders have in common. */
interface Decoder {
  mapFromDriverValue(value: unknown): unknown;
}

/**
 * What makes an object of each row.
 *
 * `notNullable`: by table name, which joined tables always have a row.
 */
export function selectionMapper(
  fields: readonly SelectedField[],
  columns: readonly ResultColumn[],
  notNullable: Readonly<Record<string, boolean>> | undefined,
): RowMapper {
  const leaves = fields.map(({ path, field }, index) => {
    return { path, decode: decoderOf(field, columns[index]?.typeOid ?? 0) };
  });
  return rowMapper(leaves, notNullable ? absentColumns(fields, notNullable) : new Set());
}

/**
 * The columns whose NULL says that a joined table had no row, so that its group is null. The rule is Drizzle's: a group
 * whose columns are all of one table is null if the first of them is.
 */
function absentColumns(
  fields: readonly SelectedField[],
  notNullable: Readonly<Record<string, boolean>>,
): ReadonlySet<number> {
  const groups = new Map<string, { readonly first: number; readonly tables: Set<string> }>();
  fields.forEach(({ path, field }, index) => {
    if (path.length !== 2 || !is(field, Column)) return;
    const known = groups.get(path[0]!);
    const table = getTableName(field.table);
    if (known) known.tables.add(table);
    else groups.set(path[0]!, { first: index, tables: new Set([table]) });
  });
  const firsts = [...groups.values()].filter(({ tables }) => tables.size === 1 && !notNullable[[...tables][0]!]);
  return new Set(firsts.map(({ first }) => first));
}

// -- decoders --------------------------------------------------------------------------------------------------------

/** Whether a time has a zone is the server's type to say. */
const dateIn = (zone: string) => (value: unknown) => {
  const text = String(value);
  // More digits than milliseconds are not ISO 8601 for every engine.
  return new Date((text.includes(".") ? text.replace(/(\.\d{3})\d+/, "$1") : text) + zone);
};

const same: Convert = (value) => value;
const ofInt8 = { [INT8]: Number };
const numbers = { [INT2]: same, [INT4]: same, [FLOAT4]: same, [FLOAT8]: same };

/**
 * By Drizzle's name of the column, then by the type of the result: what makes its value of the driver's at once. All
 * others, and other types under these columns, go through node-postgres' form and the column's own decoder.
 */
const DIRECT: Readonly<Record<string, Readonly<Record<number, Convert>>>> = {
  PgSmallInt: numbers,
  PgInteger: numbers,
  PgReal: numbers,
  PgDoublePrecision: numbers,
  PgBigInt53: ofInt8,
  PgBigSerial53: ofInt8,
  PgBigInt64: { [INT8]: BigInt as Convert },
  PgBigSerial64: { [INT8]: BigInt as Convert },
  PgNumeric: { [NUMERIC]: same },
  PgNumericNumber: { [NUMERIC]: Number },
  PgNumericBigInt: { [NUMERIC]: BigInt as Convert },
  PgTimestamp: { [TIMESTAMP]: dateIn("Z"), [TIMESTAMPTZ]: dateIn("") },
  PgDate: { [DATE]: dateIn("") },
  PgDateString: { [DATE]: same },
  // They come parsed. The column would parse once more a string that looks like JSON.
  PgJson: { [JSON_TYPE]: same, [JSONB]: same },
  PgJsonb: { [JSON_TYPE]: same, [JSONB]: same },
};

const NOTHING = Column.prototype.mapFromDriverValue;

/** Of each column with the type that it had last: to ask Drizzle's classes costs more than to decode a row. */
const known = new WeakMap<object, { readonly typeOid: number; readonly decode: Convert | undefined }>();

function decoderOf(field: unknown, typeOid: number): Convert | undefined {
  const last = known.get(field as object);
  if (last?.typeOid === typeOid) return last.decode;
  const decode = newDecoder(field, typeOid);
  known.set(field as object, { typeOid, decode });
  return decode;
}

/** What makes Drizzle's value of the driver's; `undefined`: they are the same. NULL never comes. */
function newDecoder(field: unknown, typeOid: number): Convert | undefined {
  if (is(field, PgArray)) return arrayDecoder(field as PgArray<never, never>, typeOid);
  const form = pgForm(typeOid);
  if (is(field, Column)) {
    const direct = DIRECT[field.columnType]?.[typeOid];
    if (direct) return direct === same ? undefined : direct;
    if (field.mapFromDriverValue === NOTHING) return form;
    return (value) => field.mapFromDriverValue(form ? form(value) : value);
  }
  const decoder = decoderIn(field);
  if (is(decoder, Column)) return decoderOf(decoder, typeOid); // mapWith(column)
  return decoder ? (value) => decoder.mapFromDriverValue(form ? form(value) : value) : form;
}

/** The elements come parsed, NULLs among them, where node-postgres gives some arrays as text. */
function arrayDecoder(array: PgArray<never, never>, typeOid: number): Convert | undefined {
  let base: PgColumn = array;
  while (is(base, PgArray)) base = (base as PgArray<never, never>).baseColumn as PgColumn;
  const decode = decoderOf(base, elementOf(typeOid) ?? 0);
  return (value) => {
    if (!Array.isArray(value)) return array.mapFromDriverValue(value as never);
    return decode ? eachOf(value, decode) : value;
  };
}

/** Of an expression or a subquery. */
function decoderIn(field: unknown): Decoder | undefined {
  const expression = is(field, SQL) ? field : is(field, Subquery) ? field._.sql : (field as { sql?: unknown }).sql;
  return (expression as { decoder?: Decoder } | undefined)?.decoder;
}
