// Maps PostgreSQL's types to TypeScript's, as the driver returns their values in rows (docs/types.md).
//
// Knows pg_type and the options of the driver that change what a value becomes. Must not know statements. Every value
// in a composite type, and every element of an array, can be NULL.
import type { Options, Transaction } from "../../index.ts";
import { Misuse } from "../misuse.ts";
import type { Described } from "./describe.ts";
import { EQ, GT, MEMBER, NE } from "../../util/operators.ts";

/** The options of the client whose rows are described. */
export type Representation = { readonly [Name in Representing]?: Exclude<Options[Name], undefined> };
export type Representing = "int8" | "numeric" | "dates" | "bytea" | "json" | "columnNames";

interface TypeRow {
  readonly oid: number;
  readonly schema: string;
  readonly name: string;
  /** pg_type.typtype, or `A` for an array. */
  readonly how: string;
  /** The base type of a domain, the element type of an array, or the subtype of a range or multirange. */
  readonly of: number;
  readonly labels: readonly string[];
  readonly attributes: readonly (readonly [name: string, type: number])[];
  readonly extension: string | null;
}

/** A member of a row. */
export interface Member {
  readonly name: string;
  /** The TypeScript type, with `null` if the column can be NULL. */
  readonly type: string;
}

/** What a statement's author knows better about NULL: columns, by the server's names. */
export interface Sayings {
  readonly notNull: ReadonlySet<string>;
  readonly nullable: ReadonlySet<string>;
}

export class RowTypes {
  readonly #types: ReadonlyMap<number, TypeRow>;
  /** The dimensions of array columns that are declared with more than one, by `table.number`. */
  readonly #dimensions: ReadonlyMap<string, number>;
  readonly #options: Representation;
  /** The names of the enums and composite types in use, each with its type's OID and its declaration. */
  readonly #declared = new Map<string, { readonly oid: number; readonly text: string }>();
  /** Names that are taken, by rows and by TypeScript. */
  readonly #taken: ReadonlySet<string>;

  private constructor(
    rows: readonly TypeRow[],
    dimensions: ReadonlyMap<string, number>,
    options: Representation,
    taken: ReadonlySet<string>,
  ) {
    this.#types = new Map(rows.map((row) => [row.oid, row]));
    this.#dimensions = dimensions;
    this.#options = options;
    this.#taken = new Set([...taken, ...GLOBALS]);
  }

  /**
   * Asks the catalog about the types of these statements and all types that they are made of, in one round trip.
   * `taken`: names of rows.
   */
  static async of(
    tx: Transaction,
    statements: readonly Described[],
    options: Representation,
    taken: ReadonlySet<string>,
  ): Promise<RowTypes> {
    const columns = statements.flatMap(({ fields }) => fields);
    const oids = [...columns.map(({ typeOid }) => typeOid), ...statements.flatMap((each) => each.parameterTypes)];
    const [types, deep] = await Promise.all([
      tx.query<TypeRow>(TYPES, [[...new Set(oids)]]),
      tx.query<{ place: string; dimensions: number }>(DIMENSIONS, [[...new Set(columns.map((one) => one.tableOid))]]),
    ]);
    const dimensions = new Map(deep.rows.map((row) => [row.place, row.dimensions]));
    return new RowTypes(types.rows, dimensions, options, taken);
  }

  /** Returns the members of the statement's row. If two columns have one name, the last one counts. */
  members({ fields, nullable }: Described, { notNull, nullable: maybe }: Sayings): Member[] {
    const members = new Map<string, Member>();
    fields.forEach(({ name: given, typeOid, tableOid, columnAttributeNumber }, index) => {
      const type = this.#typeOf(typeOid, this.#dimensions.get(`${tableOid}.${columnAttributeNumber}`) ?? 1, false);
      const canBeNull = maybe.has(given) || (nullable[index]! && !notNull.has(given));
      const name = this.#options.columnNames === "camelCase" ? camelCase(given) : given;
      members.set(name, { name, type: canBeNull ? orNull(type) : type });
    });
    return [...members.values()];
  }

  /** The server's name of the type. */
  nameOf(oid: number): string {
    const type = this.#types.get(oid);
    if (!type) return String(oid);
    return type.how === "A" ? `${this.nameOf(type.of)}[]` : type.name;
  }

  /** The declarations of the enums and composite types in use, in alphabetical order. */
  declarations(): string[] {
    return [...this.#declared].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, { text }]) => text);
  }

  #typeOf(oid: number, dimensions: number, inComposite: boolean): string {
    const type = this.#types.get(oid);
    if ((type?.how === "A" || type?.how === "c") && !this.#isSplit(type)) return "string";
    switch (type?.how) {
      case "A": {
        const element = orNull(this.#typeOf(type.of, 1, inComposite));
        return `(${element})[]${"[]".repeat(Math.max(dimensions, 1) - 1)}`;
      }
      case "d":
        return this.#typeOf(type.of, 1, inComposite);
      case "e":
        return this.#declare(type, () => type.labels.map((label) => JSON.stringify(label)).join(" | ") || "never");
      case "c":
        return this.#declare(type, () => this.#composite(type));
    }
    if (type?.schema === "pg_catalog") return this.#builtin(type.name, inComposite);
    // The driver recognizes hstore by its extension.
    return type?.name === "hstore" && type.extension === "hstore" ? "Record<string, string | null>" : "string";
  }

  #builtin(name: string, inComposite: boolean): string {
    const { int8, numeric, dates = "string", bytea, json } = this.#options;
    switch (name) {
      case "bool":
        return "boolean";
      case "int2":
      case "int4":
      case "oid":
        return "number";
      case "float4":
      case "float8":
        return inComposite ? FLOAT_IN_JSON : "number";
      case "int2vector":
      case "oidvector":
        return "number[]";
      case "int8":
        return int8 === "number" ? "number" : int8 === "bigint" && !inComposite ? "bigint" : "string";
      case "numeric":
        return numeric !== "number" ? "string" : inComposite ? FLOAT_IN_JSON : "number";
      case "json":
      case "jsonb":
        return json === "text" && !inComposite ? "string" : "unknown";
      case "record":
        return "Record<string, unknown>";
      case "bytea":
        return bytea === undefined || bytea === "uint8array" ? (inComposite ? "string" : "Uint8Array") : "string";
    }
    return (!inComposite && TIMES[dates][name]) || "string";
  }

  /** Whether values are arrays or objects. With a type that has no binary form, only arrays of that type itself are. */
  #isSplit(type: TypeRow): boolean {
    return this.#isBinary(type) || (type.how === "A" && this.#isBase(type.of));
  }

  #isBase(oid: number): boolean {
    const type = this.#types.get(oid);
    return type?.how === "d" ? this.#isBase(type.of) : type?.how === "b";
  }

  /** Whether the type has a binary form. */
  #isBinary(type: TypeRow | undefined, within: readonly TypeRow[] = []): boolean {
    if (!type) return false;
    if (within.includes(type)) return true;
    if (within.length >= MAX_DEPTH) return false;
    if (type.how === "r" || type.how === "m") return this.#isBound(type.of);
    const parts = type.how === "c" ? type.attributes.map(([, oid]) => oid) : /^[Ad]$/.test(type.how) ? [type.of] : [];
    if (parts.length) return parts.every((oid) => this.#isBinary(this.#types.get(oid), [...within, type]));
    if (type.how !== "b") return true;
    if (type.schema === "pg_catalog") return !TEXT_ONLY.test(type.name);
    return EXTENSIONS.has(`${String(type.extension)}.${type.name}`);
  }

  /** Whether ranges of the type have a binary form: the text of a bound must follow from its JSON. */
  #isBound(oid: number): boolean {
    const type = this.#types.get(oid);
    if (type?.how === "d") return this.#isBound(type.of);
    return type?.how === "e" || (type?.how === "b" && this.#isBinary(type) && !NO_BOUNDS.test(type.name));
  }

  #composite({ attributes }: TypeRow): string {
    const members = attributes.map(([name, oid]) => `  ${property(name)}: ${orNull(this.#typeOf(oid, 1, true))};\n`);
    return `{\n${members.join("")}}`;
  }

  /** Declares the type under its own name, or with its schema's name in front if the own name is taken. */
  #declare(type: TypeRow, body: () => string): string {
    const others = [...this.#types.values()].filter(({ how }) => how === "e" || how === "c");
    const isShared = others.some((other) => other !== type && pascal(other.name) === pascal(type.name));
    const short = pascal(type.name);
    const name = isShared || this.#taken.has(short) ? pascal(`${type.schema}_${type.name}`) : short;
    const { oid } = type;
    const owner = this.#declared.get(name)?.oid;
    if (this.#taken.has(name) || (owner !== undefined && owner !== oid))
      throw new Misuse(`No name is left for the type ${type.schema}.${type.name}.`);
    if (owner === undefined) {
      this.#declared.set(name, { oid, text: "" }); // a composite may have arrays of itself
      const keyword = type.how === "c" ? `export interface ${name} ` : `export type ${name} = `;
      const declaration = `${keyword}${body()}${type.how === "c" ? "" : ";"}`;
      this.#declared.set(name, { oid, text: `/** ${inComment(`${type.schema}.${type.name}`)} */\n${declaration}` });
    }
    return name;
  }
}

/** TypeScript's own names, which the file uses. */
const GLOBALS = ["Date", "Record", "Temporal", "Uint8Array"];
/** A float in JSON, which has no number for NaN and infinity. */
const FLOAT_IN_JSON = 'number | "NaN" | "Infinity" | "-Infinity"';
/** `MAX_DEPTH` of the core (src/types/catalog.rs). */
const MAX_DEPTH = 32;
const TEXT_ONLY =
  /^(money|tsvector|tsquery|xml|aclitem|pg_(snapshot|node_tree|ndistinct|dependencies|mcv_list|brin_[a-z_]+)|txid_snapshot|gtsvector|reg[a-z]+)$/;
/** `Types::subtype` of the core. */
const NO_BOUNDS = /^(bool|char|jsonb?|hstore)$/;
const EXTENSIONS: ReadonlySet<string> = new Set([
  "citext.citext",
  "hstore.hstore",
  "vector.vector",
  "ltree.ltree",
  "ltree.lquery",
  "ltree.ltxtquery",
]);

const orNull = (type: string): string => (type === "unknown" ? type : `${type} | null`);

/** Text for a comment, which must not end early, whatever the names in it are. */
export const inComment = (text: string): string => text.replaceAll("*/", "* /");

/** Writes a name as a member of an interface. */
export const property = (name: string): string => (/^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name));

/** A Date cannot represent infinity, and Temporal not all of the server's years. Such values stay text. */
const TIMES: Readonly<Record<"string" | "date" | "temporal", Readonly<Record<string, string>>>> = {
  string: {},
  date: { date: "Date | string", timestamp: "Date | string", timestamptz: "Date | string" },
  temporal: {
    date: "Temporal.PlainDate | string",
    time: "Temporal.PlainTime | string",
    timestamp: "Temporal.PlainDateTime | string",
    timestamptz: "Temporal.Instant | string",
    interval: "Temporal.Duration | string",
  },
};

function pascal(name: string): string {
  const words = name.split(/[^\p{L}\p{N}]+/u).filter(Boolean);
  const joined = words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join("");
  return /^\p{L}/u.test(joined) ? joined : `Type${joined}`;
}

/** Converts a name as option `columnNames` does. */
function camelCase(name: string): string {
  return name.replace(/(?<=[A-Za-z0-9])_([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

export const DIMENSIONS = `select pg_catalog.concat(attrelid, '.', attnum) as place, attndims::int as dimensions
  from pg_catalog.pg_attribute where attrelid ${EQ} any ($1) and attndims ${GT} 1`;

/** 2287 is record[], whose category is that of a pseudo-type. */
/** The subtype of a range or multirange. Multiranges, and the column that names them, are new in PostgreSQL 14. */
const SUBTYPE = `select r.rngsubtype from pg_catalog.pg_range r where t.oid ${EQ} r.rngtypid
  or t.oid ${EQ} (pg_catalog.to_jsonb(r) ${MEMBER} 'rngmultitypid')::pg_catalog.oid`;

export const TYPES = `with recursive reached(oid) as (
    select pg_catalog.unnest($1::pg_catalog.oid[])
    union select part from reached join pg_catalog.pg_type t on t.oid ${EQ} reached.oid
      cross join lateral (
      select pg_catalog.unnest(array[t.typbasetype, t.typelem, (${SUBTYPE})]) as part
      union all select atttypid from pg_catalog.pg_attribute
      where attrelid ${EQ} t.typrelid and attnum ${GT} 0 and not attisdropped and t.typtype ${EQ} 'c'
    ) as parts where part ${NE} 0
  )
  select t.oid, n.nspname as schema, t.typname as name,
    case when t.typtype ${NE} 'd' and (t.typcategory ${EQ} 'A' or t.oid ${EQ} 2287) and t.typelem ${NE} 0
      and t.typlen ${EQ} '-1' then 'A' else t.typtype::pg_catalog.text end as how,
    case when t.typtype ${EQ} 'd' then t.typbasetype
      when t.typtype ${EQ} 'r' or t.typtype ${EQ} 'm' then (${SUBTYPE}) else t.typelem end as "of",
    array(select enumlabel::pg_catalog.text from pg_catalog.pg_enum
      where enumtypid ${EQ} t.oid order by enumsortorder) as labels,
    coalesce((select pg_catalog.json_agg(pg_catalog.json_build_array(attname, atttypid::bigint) order by attnum)
      from pg_catalog.pg_attribute
      where attrelid ${EQ} t.typrelid and attnum ${GT} 0 and not attisdropped and t.typtype ${EQ} 'c'),
      '[]') as attributes,
    (select extname::pg_catalog.text from pg_catalog.pg_depend join pg_catalog.pg_extension e on e.oid ${EQ} refobjid
      where classid ${EQ} 1247 and objid ${EQ} t.oid and deptype ${EQ} 'e') as extension
  from reached join pg_catalog.pg_type t on t.oid ${EQ} reached.oid
    join pg_catalog.pg_namespace n on n.oid ${EQ} t.typnamespace`;
