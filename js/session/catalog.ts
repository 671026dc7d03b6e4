// What a database's own types are made of: enums, domains, composites, ranges, arrays of them, and those of well-known
// extensions. The server's catalog is asked on first need, never at connect; the answer is kept per server in this
// isolate and told to a core once.
//
// Knows pg_type and the numbers of the core's `define_types`. Must not know values. What it does not find stays the
// server's text.
import { BoundedMap } from "../util/bounded.ts";
import { MOST_CATALOGS, MOST_TYPES } from "../util/limits.ts";
import {
  LAYOUT_HSTORE,
  LAYOUT_VECTOR,
  TYPE_ARRAY,
  TYPE_COMPOSITE,
  TYPE_MULTIRANGE,
  TYPE_RANGE,
  TYPE_SAME,
  type Column,
} from "../wasm/boundary.ts";
import type { Definition } from "../wasm/type-definitions.ts";
import { FIRST_OF_A_DATABASE, RECORD, RECORD_ARRAY, TEXT } from "../values/oid.ts";

/**
 * Per type: its OID, how it is made (pg_type.typtype, `A` for an array, the extension of a base type), its name, what
 * it is made of, attribute names.
 */
type Row = [oid: number, how: string | null, name: string, parts: number[], names: string[]];

/** The core's decoder for a type of an extension: its own, or that of a built-in type with the same layout. */
const EXTENSIONS: Readonly<Record<string, number>> = {
  "citext.citext": TEXT,
  "hstore.hstore": LAYOUT_HSTORE,
  "vector.vector": LAYOUT_VECTOR,
  "ltree.ltree": 4072,
  "ltree.lquery": 4072,
  "ltree.ltxtquery": 4072,
};
/**
 * The core's code for how a type is made. Whatever is not here has the layout of another type, or one that nobody can
 * read.
 */
const CODES: Readonly<Record<string, number>> = {
  d: TYPE_SAME,
  A: TYPE_ARRAY,
  r: TYPE_RANGE,
  m: TYPE_MULTIRANGE,
  c: TYPE_COMPOSITE,
};

/** A column, or whatever else has a type. */
export type Typed = Pick<Column, "typeOid">;

/** What one server's catalog has said so far. */
export class Catalog {
  /** `undefined`: the server was asked, and there is nothing that the core could read. */
  readonly #types = new Map<number, Definition | undefined>();
  /** Met inside a value, where no description of columns tells of it. */
  readonly #met = new Set<number>();
  #complete = false;
  /** Types that the database has not any more, until somebody has heard of it. */
  readonly #gone = new Set<number>();
  /** Columns had these, in the order in which they were met. */
  readonly #ofColumns = new Set<number>();
  /** Types by the name that a user gives them. */
  readonly #named = new Map<string, number>();

  /** What must be asked before these columns can be read in binary; `undefined`: nothing. */
  question(columns: readonly Typed[]): string | undefined {
    const own = columns.map(({ typeOid }) => typeOid).filter((oid) => oid >= FIRST_OF_A_DATABASE);
    const all = columns.some(isRecord);
    if (!all && !own.length) return undefined;
    const asked = [...own, ...(all ? this.#met : [])].filter((oid) => !this.#types.has(oid));
    return asked.length || (all && !this.#complete) ? sql(asked, all) : undefined;
  }

  /** Takes the answer to `question`. */
  learn(columns: readonly Typed[], rows: readonly Row[]): void {
    const found = new Set(rows.map(([oid]) => oid));
    for (const oid of this.#unknown(columns)) if (!found.has(oid)) this.#gone.add(oid);
    this.learnNothing(columns);
    for (const row of rows) this.#learn(row[0], definition(row));
    this.#complete ||= columns.some(isRecord);
    // A type that is new here may be one that was dropped and made again.
    this.#named.clear();
  }

  /** There is no catalog that could be asked: these types stay text. */
  learnNothing(columns: readonly Typed[]): void {
    for (const { typeOid } of columns) if (typeOid >= FIRST_OF_A_DATABASE) this.#ofColumns.add(typeOid);
    for (const oid of this.#unknown(columns)) this.#types.set(oid, undefined);
  }

  #unknown(columns: readonly Typed[]): number[] {
    return columns.map(({ typeOid }) => typeOid).filter((oid) => oid >= FIRST_OF_A_DATABASE && !this.#types.has(oid));
  }

  /** What is as it was stays the same object, by which shapes know that it is. */
  #learn(oid: number, found: Definition | undefined): void {
    const known = this.#types.get(oid);
    if (!known || JSON.stringify(known) !== JSON.stringify(found)) this.#types.set(oid, found);
  }

  /** The question about these columns, whatever is known of them; `undefined`: there is nothing to ask. */
  questionAnew(columns: readonly Typed[]): string | undefined {
    const own = columns.map(({ typeOid }) => typeOid).filter((oid) => oid >= FIRST_OF_A_DATABASE);
    return own.length ? sql(own, false) : undefined;
  }

  /** What must be asked before these names can be read as types; `undefined`: nothing. */
  nameQuestion(names: Iterable<string>): string | undefined {
    const asked = [...names].filter((name) => this.oid(name) === undefined);
    return asked.length ? namesSql(asked) : undefined;
  }

  /** Takes the answer to `nameQuestion`. */
  learnNames(found: Readonly<Record<string, number | null>>): void {
    for (const [name, oid] of Object.entries(found)) if (oid) this.#named.set(name, oid);
  }

  /** The type of this name or number, as far as is known. */
  oid(name: string): number | undefined {
    return /^\d+$/.test(name) ? Number(name) : this.#named.get(name);
  }

  /** All that these columns are made of, parts first. A record may hold anything, and so may columns yet to come. */
  definitions(columns?: readonly Typed[]): Definition[] {
    const found = new Set<Definition>();
    const add = (oid: number) => {
      const type = this.#types.get(oid);
      if (!type || found.has(type)) return;
      found.add(type);
      type.parts.forEach(add);
    };
    columns?.forEach(({ typeOid }) => add(typeOid));
    if (!columns || columns.some(isRecord)) for (const oid of this.#types.keys()) add(oid);
    return [...found];
  }

  /**
   * Types of columns whose text can be read by what is known now, the last one met first: not where a composite is part
   * of it, whose text does not say what it is made of.
   */
  *readable(): Generator<number> {
    for (const typeOid of [...this.#ofColumns].reverse())
      if (!this.definitions([{ typeOid }]).some(isComposite)) yield typeOid;
  }

  /** A value held this type, and what is known of it did not fit: everything is asked anew. */
  forget(oid: number): void {
    if (oid < FIRST_OF_A_DATABASE) return;
    this.#types.clear();
    this.#ofColumns.clear();
    this.#named.clear();
    this.#complete = false;
    this.#met.add(oid);
  }

  /**
   * Whether a column has a type that the database did not have any more when it was asked, so that its statement
   * returns another by now. `true` once for each.
   */
  isGone(columns: readonly Typed[]): boolean {
    return columns.map(({ typeOid }) => this.#gone.delete(typeOid)).includes(true);
  }

  /** Whether nothing has been forgotten since these were learned. */
  knows(definitions: readonly Definition[]): boolean {
    return definitions.every((definition) => this.#types.get(definition.oid) === definition);
  }
}

const catalogs = new BoundedMap<string, Catalog>(MOST_CATALOGS);

/** The catalog of a server, by `serverKey`. */
export function catalogOf(server: string): Catalog {
  let catalog = catalogs.get(server);
  if (!catalog) catalogs.set(server, (catalog = new Catalog()));
  return catalog;
}

/**
 * The OIDs of these names of types, or nulls, as one row of JSON. Dollar quotes, which no setting changes; in JSON text
 * a dollar may be written otherwise.
 */
function namesSql(names: readonly string[]): string {
  const list = JSON.stringify(names).replaceAll("$", "\\u0024");
  return `select pg_catalog.json_object_agg(name, pg_catalog.to_regtype(name)::pg_catalog.oid::bigint)
  from pg_catalog.json_array_elements_text($$${list}$$) as name`;
}

/** What it is made of may have changed since somebody asked. */
export function isComposite({ code }: Definition): boolean {
  return code === TYPE_COMPOSITE;
}

function isRecord({ typeOid }: Typed): boolean {
  return typeOid === RECORD || typeOid === RECORD_ARRAY;
}

function definition([oid, how, name, parts, names]: Row): Definition | undefined {
  const code = CODES[how ?? ""];
  const of =
    code === TYPE_COMPOSITE
      ? parts.length
      : code !== undefined
        ? parts[0]
        : how === "e"
          ? TEXT
          : EXTENSIONS[`${how}.${name}`];
  // Copies, which only a list has: whatever the server says, telling a core of it must not fail.
  return of === undefined ? undefined : { oid, code: code ?? TYPE_SAME, of, parts: [...parts], names: [...names] };
}

/**
 * These types and all that they are made of, as one row of JSON. With `all` also whatever an anonymous record may hold,
 * except the rows of tables. Up to PostgreSQL 13 pg_range has no multiranges, hence the detour by JSON. 1247 is pg_type
 * itself.
 */
function sql(oids: readonly number[], all: boolean): string {
  const everything = all
    ? `union (select unnest(array[oid, typarray]) from pg_catalog.pg_type
       where oid >= ${FIRST_OF_A_DATABASE} and typelem = 0
       and typrelid not in (select oid from pg_catalog.pg_class where relkind <> 'c') limit ${MOST_TYPES})`
    : "";
  const attributes = (what: string) =>
    `array(select ${what} from pg_catalog.pg_attribute
      where attrelid = typrelid and attnum > 0 and not attisdropped order by attnum)`;
  const parts = `case typtype
    when 'd' then array[typbasetype]
    when 'r' then (select array[rngsubtype] from ranges where rngtypid = t.oid)
    when 'm' then (select array[rngtypid] from ranges where multirange = t.oid)
    when 'c' then ${attributes("atttypid")}
    else array[typelem] end`;
  return `with recursive ranges as (
    select rngtypid, rngsubtype, (pg_catalog.to_json(r)->>'rngmultitypid')::pg_catalog.oid as multirange
    from pg_catalog.pg_range r
  ), reached(oid) as (
    select unnest(array[${oids.join()}]::pg_catalog.oid[]) ${everything} union
    select part from reached join pg_catalog.pg_type t using (oid) cross join lateral unnest(${parts}) as part
    where part >= ${FIRST_OF_A_DATABASE}
  )
  select pg_catalog.json_agg(pg_catalog.json_build_array(t.oid::bigint,
    case when typcategory = 'A' and typelem <> 0 and typlen = -1 then 'A' when typtype <> 'b' then typtype::text else (
      select extname from pg_catalog.pg_depend join pg_catalog.pg_extension e on e.oid = refobjid
      where classid = 1247 and objid = t.oid and deptype = 'e') end,
    typname, (${parts})::bigint[], ${attributes("attname")}))
  from (select oid from reached limit ${MOST_TYPES}) as first join pg_catalog.pg_type t using (oid)`;
}
