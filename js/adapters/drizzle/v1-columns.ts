// Chooses the decoder of each field of a selection, by the codec of Drizzle's column and by the type that the server
// names. For drizzle-orm 1.0.
//
// Knows Drizzle's fields. Must not know how rows are built (rows.ts), how a statement runs, nor what our codecs are
// (v1-codecs.ts).
//
// The rows of a plain selection are built here. Those of a relational query are built by Drizzle, with decoders from
// here for its root.
import type { Column as ResultColumn } from "../../index.ts";
import { DATE, eachOf, elementOf, INT8, NUMERIC, pgForm, TIMESTAMP, TIMESTAMPTZ, type Convert } from "./forms.ts";
import { parseDay, parseInstant } from "./instants.ts";
import { rowMapper, type RowMapper } from "./rows.ts";

/** One selected field, as Drizzle's dialect describes it. */
export interface SelectedField {
  readonly path: readonly string[];
  readonly field: unknown;
  readonly codec?: ((value: unknown, dimensions?: number) => unknown) | undefined;
  readonly arrayDimensions?: number | undefined;
  readonly column?: unknown;
}

/**
 * Caches the last mapper for each list of columns, and the selection that it was made for. All runs of a statement
 * share one list.
 */
const plans = new WeakMap<readonly ResultColumn[], { selection: Selection; mapRow: RowMapper }>();

/** The fields of a selection, and which nested objects are null when an outer join finds no row. */
export class Selection {
  readonly #fields: readonly SelectedField[];
  readonly #nullable: ReadonlySet<string>;

  constructor(fields: readonly SelectedField[], nullable: readonly string[] = []) {
    this.#fields = fields;
    this.#nullable = new Set(nullable);
  }

  /** Returns a mapper that makes an object of each row. */
  mapper(columns: readonly ResultColumn[]): RowMapper {
    const last = plans.get(columns);
    if (last && (last.selection === this || last.selection.#isEquivalentTo(this))) return last.mapRow;
    const mapRow = this.#newMapper(columns);
    plans.set(columns, { selection: this, mapRow });
    return mapRow;
  }

  /**
   * Whether both selections make the same objects from the same columns. Drizzle makes a new selection for each query.
   * The nullable groups need no comparison: they follow from the SQL, and so does the list of columns.
   */
  #isEquivalentTo(other: Selection): boolean {
    return (
      this.#fields.length === other.#fields.length &&
      other.#fields.every((field, index) => {
        const known = this.#fields[index]!;
        return isSamePath(known.path, field.path) && decodesAs(known, field);
      })
    );
  }

  #newMapper(columns: readonly ResultColumn[]): RowMapper {
    const fields = this.#fields.map((field, index) => {
      return { path: field.path, decode: decoderOf(field, columns[index]?.typeOid ?? 0) };
    });
    const nullIndicators = this.#fields.flatMap(({ path }, index) =>
      path.length > 1 && this.#nullable.has(path[0]!) ? [index] : [],
    );
    return rowMapper(fields, new Set(nullIndicators));
  }
}

/**
 * An item of a relational query: a top-level field, or a nested relation, which has `selection` and whose value arrives
 * as JSON.
 */
export interface RelationalItem extends Omit<SelectedField, "path"> {
  readonly selection?: unknown;
}

/** Makes Drizzle's mapper of all rows of a relational query, for these items. */
type MakeMapper = (items: readonly RelationalItem[]) => (rows: unknown[][]) => unknown[];

/** The selection of a relational query. Drizzle's mapper makes the objects from the driver's values. */
export class RelationalSelection {
  readonly #items: readonly RelationalItem[];
  readonly #make: MakeMapper;
  #columns: readonly ResultColumn[] | undefined;
  #mapRows: ReturnType<MakeMapper> | undefined;

  constructor(items: readonly RelationalItem[], make: MakeMapper) {
    this.#items = items;
    this.#make = make;
  }

  mapper(columns: readonly ResultColumn[]): ReturnType<MakeMapper> {
    if (this.#mapRows && this.#columns === columns) return this.#mapRows;
    this.#columns = columns;
    return (this.#mapRows = this.#make(
      this.#items.map((item, index) => withDriverCodec(item, columns[index]?.typeOid ?? 0)),
    ));
  }
}

const withDriverCodec = (item: RelationalItem, typeOid: number): RelationalItem =>
  item.selection ? item : { ...item, codec: normalizer(item.codec, item.arrayDimensions, codecName(item), typeOid) };

const codecName = ({ column, field }: Omit<SelectedField, "path">) =>
  ((column ?? field) as { codec?: string } | undefined)?.codec;

const isSamePath = (known: readonly string[], path: readonly string[]) =>
  path.length === known.length && path.every((key, at) => key === known[at]);

/** Drizzle also makes new expressions for each query, so these are compared by their decoders. */
const decodesAs = (known: SelectedField, field: SelectedField) =>
  known.codec === field.codec &&
  known.column === field.column &&
  (known.field === field.field || decoderIn(known.field) === decoderIn(field.field));

// -- decoders --------------------------------------------------------------------------------------------------------

/** The part that Drizzle's decoders have in common. */
interface Decoder {
  readonly mapFromDriverValue: ((value: unknown) => unknown) & { readonly isNoop?: boolean };
}

const times = { [TIMESTAMP]: parseInstant as Convert, [TIMESTAMPTZ]: parseInstant as Convert };

/**
 * Direct conversions from the driver's value to Drizzle's, by the codec's name, then by type OID. For an array it is
 * the OID of its elements.
 */
const DIRECT: Readonly<Record<string, Readonly<Record<number, Convert>>>> = {
  bigint: { [INT8]: BigInt as Convert },
  bigserial: { [INT8]: BigInt as Convert },
  "bigint:number": { [INT8]: Number },
  "bigserial:number": { [INT8]: Number },
  "numeric:number": { [NUMERIC]: Number },
  "numeric:bigint": { [NUMERIC]: BigInt as Convert },
  date: { [DATE]: parseDay as Convert },
  timestamp: times,
  timestamptz: times,
};

function decoderOf(selected: SelectedField, typeOid: number): Convert | undefined {
  const normalize = normalizer(selected.codec, selected.arrayDimensions, codecName(selected), typeOid);
  const decoder = decoderIn(selected.field);
  if (!decoder || decoder.mapFromDriverValue.isNoop) return normalize;
  return normalize
    ? (value) => decoder.mapFromDriverValue(normalize(value))
    : (value) => decoder.mapFromDriverValue(value);
}

/**
 * Returns the conversion for a codec: the direct one if there is one, else the conversion to node-postgres' form and
 * then through the codec.
 */
function normalizer(
  codec: SelectedField["codec"],
  dimensions: number | undefined,
  name: string | undefined,
  typeOid: number,
): Convert | undefined {
  const form = pgForm(typeOid);
  const throughCodec = codec ? (value: unknown) => codec(form ? form(value) : value, dimensions) : form;
  const direct = name === undefined ? undefined : DIRECT[name]?.[(dimensions && elementOf(typeOid)) || typeOid];
  if (!direct) return throughCodec;
  // A parser of the client may have made another kind of value.
  const ofText: Convert = (value) => (typeof value === "string" ? direct(value) : value);
  return dimensions
    ? (value) => eachOf(value, ofText)
    : (value) => (typeof value === "string" ? direct(value) : throughCodec!(value));
}

/** Returns the decoder of a field. A column is its own decoder; expressions and subqueries have one. */
function decoderIn(field: unknown): Decoder | undefined {
  const given = field as Partial<Decoder> & { decoder?: Decoder; sql?: { decoder?: Decoder } } & {
    _?: { sql?: { decoder?: Decoder } };
  };
  if (given.mapFromDriverValue) return given as Decoder;
  return given.decoder ?? given.sql?.decoder ?? given._?.sql?.decoder;
}
