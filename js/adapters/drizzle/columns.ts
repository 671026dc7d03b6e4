// Chooses the decoder of each field of a selection, by Drizzle's column and by the type that the server names. This is
// done once per statement. For drizzle-orm 0.45.
//
// Knows Drizzle's columns. Must not know how rows are built (rows.ts), nor how a statement runs.
import { Column, getTableName, is, noopDecoder, SQL, Subquery } from "drizzle-orm";
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
import { parseDay, parseInstant } from "./instants.ts";
import { rowMapper, type RowMapper } from "./rows.ts";

/** One field of a selection: the path of its value, and the column or expression that decides how to decode it. */
export interface SelectedField {
  readonly path: readonly string[];
  readonly field: unknown;
}

/** The part that Drizzle's decoders have in common. */
interface Decoder {
  mapFromDriverValue(value: unknown): unknown;
}

/**
 * Caches the last mapper for each list of columns, and the fields that it was made for. All runs of a statement share
 * one list.
 */
const plans = new WeakMap<readonly ResultColumn[], { fields: readonly SelectedField[]; mapRow: RowMapper }>();

/**
 * Returns a mapper that makes an object of each row.
 *
 * `notNullable` has, by table name, whether a joined table always has a row. It follows from the SQL, as the columns
 * do.
 */
export function selectionMapper(
  fields: readonly SelectedField[],
  columns: readonly ResultColumn[],
  notNullable: Readonly<Record<string, boolean>> | undefined,
): RowMapper {
  const last = plans.get(columns);
  if (last && isSame(last.fields, fields)) return last.mapRow;
  const mapRow = newMapper(fields, columns, notNullable);
  plans.set(columns, { fields, mapRow });
  return mapRow;
}

/** Whether both lists decode alike. Drizzle makes a new list of fields for each query. */
function isSame(known: readonly SelectedField[], fields: readonly SelectedField[]): boolean {
  return (
    known.length === fields.length &&
    fields.every(({ path, field }, index) => {
      const last = known[index]!;
      return (
        path.length === last.path.length &&
        path.every((key, at) => key === last.path[at]) &&
        decodesAs(last.field, field)
      );
    })
  );
}

/** Drizzle also makes new expressions for each query, so these are compared by their decoders. */
const decodesAs = (known: unknown, field: unknown) =>
  known === field || (!is(known, Column) && !is(field, Column) && decoderIn(known) === decoderIn(field));

function newMapper(
  fields: readonly SelectedField[],
  columns: readonly ResultColumn[],
  notNullable: Readonly<Record<string, boolean>> | undefined,
): RowMapper {
  const leaves = fields.map(({ path, field }, index) => {
    return { path, decode: decoderOf(field, columns[index]?.typeOid ?? 0) };
  });
  return rowMapper(leaves, notNullable ? nullIndicators(fields, notNullable) : new Set());
}

/**
 * Returns the columns whose NULL means that a joined table had no row, so that its group is null. The rule is
 * Drizzle's: a group with columns of only one table is null if its first column is.
 */
function nullIndicators(
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

const same: Convert = (value) => value;
/** The driver's value is already Drizzle's. */
const text: Convert = (value) => value;
const ofInt8 = { [INT8]: Number };
const numbers = { [INT2]: same, [INT4]: same, [FLOAT4]: same, [FLOAT8]: same };

/**
 * Direct conversions from the driver's value to Drizzle's, by Drizzle's name of the column type, then by the type OID
 * of the result. All other columns, and other types for these columns, go through node-postgres' form and the column's
 * own decoder.
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
  PgNumeric: { [NUMERIC]: text },
  PgNumericNumber: { [NUMERIC]: Number },
  PgNumericBigInt: { [NUMERIC]: BigInt as Convert },
  PgTimestamp: { [TIMESTAMP]: parseInstant as Convert, [TIMESTAMPTZ]: parseInstant as Convert },
  PgDate: { [DATE]: parseDay as Convert },
  PgDateString: { [DATE]: text },
  // They come parsed. The column would parse a string that looks like JSON once more.
  PgJson: { [JSON_TYPE]: same, [JSONB]: same },
  PgJsonb: { [JSON_TYPE]: same, [JSONB]: same },
};

const NOTHING = Column.prototype.mapFromDriverValue;

/** The conversion of each decoder for its last type. Asking Drizzle's classes costs more than decoding a row. */
const known = new WeakMap<object, { readonly typeOid: number; readonly decode: Convert | undefined }>();

/**
 * Returns the conversion from the driver's value to Drizzle's, or `undefined` if they are the same. It is not called
 * for NULL.
 */
function decoderOf(field: unknown, typeOid: number): Convert | undefined {
  const decoder = decoderIn(field);
  if (!decoder) return pgForm(typeOid);
  const last = known.get(decoder);
  if (last?.typeOid === typeOid) return last.decode;
  const decode = is(decoder, Column) ? ofColumn(decoder as PgColumn, typeOid) : ofExpression(decoder, typeOid);
  known.set(decoder, { typeOid, decode });
  return decode;
}

function ofColumn(column: PgColumn, typeOid: number): Convert | undefined {
  if (is(column, PgArray)) return arrayDecoder(column as PgArray<never, never>, typeOid);
  const form = pgForm(typeOid);
  const direct = DIRECT[column.columnType]?.[typeOid];
  if (direct === same) return undefined;
  // A parser of the client may have made another kind of value.
  if (direct) return (value) => (typeof value === "string" ? direct(value) : column.mapFromDriverValue(value));
  if (column.mapFromDriverValue === NOTHING) return form;
  return (value) => column.mapFromDriverValue(form ? form(value) : value);
}

function ofExpression(decoder: Decoder, typeOid: number): Convert | undefined {
  const form = pgForm(typeOid);
  if (decoder === noopDecoder) return form;
  return (value) => decoder.mapFromDriverValue(form ? form(value) : value);
}

/** The elements come parsed, with NULLs among them. node-postgres gives some of these arrays as text. */
function arrayDecoder(array: PgArray<never, never>, typeOid: number): Convert | undefined {
  let base: PgColumn = array;
  while (is(base, PgArray)) base = (base as PgArray<never, never>).baseColumn as PgColumn;
  const decode = decoderOf(base, elementOf(typeOid) ?? 0);
  return (value) => {
    if (!Array.isArray(value)) return array.mapFromDriverValue(value as never);
    return decode ? eachOf(value, decode) : value;
  };
}

/**
 * Returns the column itself. For an expression or a subquery it is the decoder it was mapped with, which may be a
 * column.
 */
function decoderIn(field: unknown): Decoder | undefined {
  if (is(field, Column)) return field;
  const expression = is(field, SQL) ? field : is(field, Subquery) ? field._.sql : (field as { sql?: unknown }).sql;
  return (expression as { decoder?: Decoder } | undefined)?.decoder;
}
