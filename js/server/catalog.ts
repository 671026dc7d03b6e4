// The definitions of a database's own types: enums, domains, composites, ranges, arrays of them, and types of
// well-known extensions. The server's catalog is asked on first need, never at connect. The answer is cached per server
// in this isolate and passed to each core once.
//
// Knows pg_type and the numbers of the core's `define_types`. Must not know values. A type that is not found stays the
// server's text.
import { BoundedSet } from "../util/bounded.ts";
import { MOST_TYPES } from "../util/limits.ts";
import {
  LAYOUT_HSTORE,
  LAYOUT_VECTOR,
  TYPE_ARRAY,
  TYPE_COMPOSITE,
  TYPE_MULTIRANGE,
  TYPE_RANGE,
  TYPE_SAME,
  TYPE_TEXT,
  type Column,
} from "../wasm/boundary.ts";
import type { Definition } from "../wasm/type-definitions.ts";
import type { Parser, Parsers, ParsersByOid } from "../values/converters.ts";
import { FIRST_OF_A_DATABASE, RECORD, RECORD_ARRAY, TEXT } from "../values/oid.ts";

/**
 * What the catalog returns for a type: its OID, how it is made (pg_type.typtype, `A` for an array, the extension of a
 * base type), its name, the types that it is made of, attribute names, the delimiter of its arrays.
 */
type Row = [oid: number, how: string | null, name: string, parts: number[], names: string[], delimiter: string];

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
 * The core's code for how a type is made. A type that is made in another way has the layout of another type, or the
 * core knows only its text.
 */
const CODES: Readonly<Record<string, number>> = {
  d: TYPE_SAME,
  A: TYPE_ARRAY,
  r: TYPE_RANGE,
  m: TYPE_MULTIRANGE,
  c: TYPE_COMPOSITE,
};

/** A column, or anything else that has a type. */
export type Typed = Pick<Column, "typeOid">;

/** What one server's catalog has answered so far. */
export class Catalog {
  /** Definitions by OID. `undefined`: the server was asked, and the core can use no definition of the type. */
  readonly #types = new Map<number, Definition | undefined>();
  /** Types that were met inside a value, where no description of columns names them. */
  readonly #met = new Set<number>();
  #complete = false;
  /** Types that the database no longer had when it was asked for them. */
  readonly #gone = new BoundedSet<number>(MOST_TYPES);
  /** Types of columns, in the order in which they were met. */
  readonly #ofColumns = new Set<number>();
  /** Types by the name that a user gives them. */
  readonly #named = new Map<string, number>();
  /** The parsers of calls, by type. Calls on other servers may use the same parsers for other types. */
  readonly #parsers = new WeakMap<Parsers, ParsersByOid>();

  /**
   * Returns the question for the server that must be asked before these columns of a new statement can be read in
   * binary; `undefined`: none. A composite is asked for again: it may have other attributes than when it was learned.
   */
  question(columns: readonly Typed[]): string | undefined {
    const own = columns.map(({ typeOid }) => typeOid).filter((oid) => oid >= FIRST_OF_A_DATABASE);
    const all = columns.some(isRecord);
    if (!all && !own.length) return undefined;
    const mayBeOld = (oid: number) => !this.#types.has(oid) || this.#hasComposite(oid);
    const asked = [...own, ...(all ? this.#met : [])].filter(mayBeOld);
    const isComplete = this.#complete && !this.definitions().some(({ code }) => code === TYPE_COMPOSITE);
    return asked.length || (all && !isComplete) ? typesSql(asked, all) : undefined;
  }

  /** Stores the answer to `question`. */
  learn(columns: readonly Typed[], rows: readonly Row[]): void {
    const found = new Set(rows.map(([oid]) => oid));
    for (const oid of this.#unknown(columns)) if (!found.has(oid)) this.#gone.add(oid);
    for (const oid of found) this.#gone.delete(oid);
    this.learnNothing(columns);
    for (const row of rows) this.#learn(row[0], definition(row));
    this.#complete ||= columns.some(isRecord);
    // A type that is new here may have been dropped and created again under the same name.
    this.#named.clear();
  }

  /** Notes that there is no catalog to ask: these types stay text. */
  learnNothing(columns: readonly Typed[]): void {
    for (const { typeOid } of columns) if (typeOid >= FIRST_OF_A_DATABASE) this.#ofColumns.add(typeOid);
    for (const oid of this.#unknown(columns)) this.#types.set(oid, undefined);
  }

  #unknown(columns: readonly Typed[]): number[] {
    return columns.map(({ typeOid }) => typeOid).filter((oid) => oid >= FIRST_OF_A_DATABASE && !this.#types.has(oid));
  }

  /** An unchanged definition stays the same object: shapes recognise it by its identity. */
  #learn(oid: number, found: Definition | undefined): void {
    const known = this.#types.get(oid);
    if (!known || JSON.stringify(known) !== JSON.stringify(found)) this.#types.set(oid, found);
  }

  /** Returns the question that must be asked before these names can be read as types; `undefined`: none. */
  nameQuestion(names: Iterable<string>): string | undefined {
    const asked = [...names].filter((name) => this.oid(name) === undefined);
    return asked.length ? namesSql(asked) : undefined;
  }

  /** Stores the answer to `nameQuestion`. */
  learnNames(found: Readonly<Record<string, number | null>>): void {
    for (const [name, oid] of Object.entries(found)) if (oid) this.#named.set(name, oid);
  }

  /**
   * Resolves the names of these parsers, for rows that arrive from now on. Returns a name that means no type here, if
   * there is one; then nothing is resolved.
   */
  resolve(parsers: Parsers): string | undefined {
    const byOid = new Map<number, Parser>();
    for (const [name, parser] of parsers) {
      const oid = this.oid(name);
      if (oid === undefined) return name;
      byOid.set(oid, parser);
    }
    this.#parsers.set(parsers, byOid);
    return undefined;
  }

  /** Returns the parsers by type, as `resolve` has last found them. */
  parsersByOid(parsers: Parsers): ParsersByOid | undefined {
    return this.#parsers.get(parsers);
  }

  /** Returns the OID of the type with this name or number, if it is known. */
  oid(name: string): number | undefined {
    return /^\d+$/.test(name) ? Number(name) : this.#named.get(name);
  }

  /**
   * Returns the definitions of all types that these columns are made of. A record may hold any type, and so may columns
   * that are not known yet.
   */
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
   * Yields the types of columns whose text can be read with what is known now, the last one met first. A type that
   * contains a composite is left out, because a composite's text does not say what it is made of.
   */
  *readable(): Generator<number> {
    for (const typeOid of [...this.#ofColumns].reverse()) if (!this.#hasComposite(typeOid)) yield typeOid;
  }

  #hasComposite(typeOid: number): boolean {
    return this.definitions([{ typeOid }]).some(({ code }) => code === TYPE_COMPOSITE);
  }

  /** Called when a value held this type and its definition did not fit: everything is forgotten and asked for again. */
  forget(oid: number): void {
    if (oid < FIRST_OF_A_DATABASE) return;
    this.#types.clear();
    this.#ofColumns.clear();
    this.#named.clear();
    this.#complete = false;
    this.#met.add(oid);
  }

  /**
   * The types of these columns that the database no longer had when it was asked. The statement therefore returns
   * another type by now, for each caller that has such a description.
   */
  gone(columns: readonly Typed[]): number[] {
    return columns.map(({ typeOid }) => typeOid).filter((oid) => this.#gone.has(oid));
  }

  /** Whether the type is known, and only as text. */
  isText(oid: number): boolean {
    return this.#types.has(oid) && (this.#types.get(oid)?.code ?? TYPE_TEXT) === TYPE_TEXT;
  }

  /** Whether types have been found by names that a user gives them. */
  get hasNames(): boolean {
    return this.#named.size > 0;
  }

  /** Whether none of these definitions has been forgotten or replaced since it was learned. */
  knows(definitions: readonly Definition[]): boolean {
    return definitions.every((definition) => this.#types.get(definition.oid) === definition);
  }
}

/**
 * The question for the OIDs of these type names, or nulls, as one row of JSON. It uses dollar quotes, which no setting
 * changes. In JSON text a dollar may be written as an escape.
 */
export function namesSql(names: readonly string[]): string {
  const list = JSON.stringify(names).replaceAll("$", "\\u0024");
  return `select pg_catalog.json_object_agg(name, pg_catalog.to_regtype(name)::pg_catalog.oid::bigint)
  from pg_catalog.json_array_elements_text($$${list}$$) as name`;
}

function isRecord({ typeOid }: Typed): boolean {
  return typeOid === RECORD || typeOid === RECORD_ARRAY;
}

function definition(row: Row): Definition | undefined {
  const [oid, , , parts, names] = row;
  const made = madeOf(row);
  // Only lists can be copied here. So whatever the server answers fails now, and not later when the definition is
  // passed to a core.
  return made && { oid, ...made, parts: [...parts], names: [...names] };
}

function madeOf([, how, name, parts, , delimiter]: Row): Pick<Definition, "code" | "of"> | undefined {
  const code = CODES[how ?? ""];
  if (code === TYPE_COMPOSITE) return { code, of: parts.length };
  if (code !== undefined) return { code, of: parts[0]! };
  if (how === "e") return { code: TYPE_SAME, of: TEXT };
  if (how === "p") return undefined;
  const layout = EXTENSIONS[`${how}.${name}`];
  return layout === undefined ? { code: TYPE_TEXT, of: delimiter.charCodeAt(0) } : { code: TYPE_SAME, of: layout };
}

/**
 * The question for these types and all types that they are made of, as one row of JSON. With `all` also for every type
 * that an anonymous record may hold, except the rows of tables. Up to PostgreSQL 13 pg_range has no multiranges, so the
 * column is read through JSON. 1247 is the OID of pg_type itself.
 */
export function typesSql(oids: readonly number[], all: boolean): string {
  const everything = all
    ? `union (select pg_catalog.unnest(array[oid, typarray]) from pg_catalog.pg_type
       where oid operator(pg_catalog.>=) ${FIRST_OF_A_DATABASE} and typelem operator(pg_catalog.=) 0
       and not exists (select from pg_catalog.pg_class c
         where c.oid operator(pg_catalog.=) typrelid and relkind operator(pg_catalog.<>) 'c') limit ${MOST_TYPES})`
    : "";
  const attributes = (what: string) =>
    `array(select ${what} from pg_catalog.pg_attribute
      where attrelid operator(pg_catalog.=) typrelid and attnum operator(pg_catalog.>) 0 and not attisdropped
      order by attnum)`;
  const parts = `case
    when typtype operator(pg_catalog.=) 'd' then array[typbasetype]
    when typtype operator(pg_catalog.=) 'r' then
      (select array[rngsubtype] from ranges where rngtypid operator(pg_catalog.=) t.oid)
    when typtype operator(pg_catalog.=) 'm' then
      (select array[rngtypid] from ranges where multirange operator(pg_catalog.=) t.oid)
    when typtype operator(pg_catalog.=) 'c' then ${attributes("atttypid")}
    else array[typelem] end`;
  return `with recursive ranges as (
    select rngtypid, rngsubtype,
      (pg_catalog.to_json(r) operator(pg_catalog.->>) 'rngmultitypid')::pg_catalog.oid as multirange
    from pg_catalog.pg_range r
  ), reached(oid) as (
    select pg_catalog.unnest(array[${oids.join()}]::pg_catalog.oid[]) ${everything} union
    select part from reached join pg_catalog.pg_type t on t.oid operator(pg_catalog.=) reached.oid
      cross join lateral pg_catalog.unnest(${parts}) as part
    where part operator(pg_catalog.>=) ${FIRST_OF_A_DATABASE}
  )
  select pg_catalog.json_agg(pg_catalog.json_build_array(t.oid::bigint,
    case when typcategory operator(pg_catalog.=) 'A' and typelem operator(pg_catalog.<>) 0
        and typlen operator(pg_catalog.=) '-1' then 'A'
      when typtype operator(pg_catalog.<>) 'b' then typtype::pg_catalog.text else (
      select extname from pg_catalog.pg_depend join pg_catalog.pg_extension e on e.oid operator(pg_catalog.=) refobjid
      where classid operator(pg_catalog.=) 1247 and objid operator(pg_catalog.=) t.oid
        and deptype operator(pg_catalog.=) 'e') end,
    typname, (${parts})::bigint[], ${attributes("attname")}, typdelim))
  from (select oid from reached limit ${MOST_TYPES}) as first
    join pg_catalog.pg_type t on t.oid operator(pg_catalog.=) first.oid`;
}
