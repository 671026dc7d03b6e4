// Reads what the catalog says about NULL in tables, functions and domains.
//
// Knows pg_attribute, pg_constraint, pg_inherits, pg_proc and pg_type. Must not know trees, or what is made of the
// facts.
import type { Transaction } from "../../index.ts";
import type { Facts, Named } from "./nullability.ts";

interface ColumnRow {
  readonly table: number;
  readonly number: number;
  readonly own: boolean;
  readonly all: boolean;
}
interface FunctionRow {
  readonly oid: number;
  readonly strict: boolean;
  readonly signature: string | null;
}

/** Asks the catalog in one round trip. */
export async function factsOf(tx: Transaction, { tables, functions, domains }: Named): Promise<Facts> {
  const [columns, called, refusing] = await Promise.all([
    tx.query<ColumnRow>(NOT_NULL, [[...tables]]),
    tx.query<FunctionRow>(FUNCTIONS, [[...functions]]),
    tx.query<{ oid: number }>(REFUSING, [[...domains]]),
  ]);
  const byColumn = new Map(columns.rows.map((row) => [`${row.table}.${row.number}`, row]));
  const byOid = new Map(called.rows.map((row) => [row.oid, row]));
  const refuse = new Set(refusing.rows.map(({ oid }) => oid));
  return {
    isNotNull: (table, column, children) => {
      const found = byColumn.get(`${table}.${column}`);
      return found !== undefined && (children ? found.all : found.own);
    },
    builtin: (oid) => byOid.get(oid)?.signature ?? undefined,
    isStrict: (oid) => byOid.get(oid)?.strict === true,
    refusesNull: (oid) => refuse.has(oid),
  };
}

/**
 * The columns that have no NULL. attnotnull alone does not guarantee that: a constraint of PostgreSQL 18 may exist
 * without being validated; a child may lack its parent's constraint; the rows of a foreign table are not checked; and a
 * virtual column is computed when it is read. "all" is about the table and its children: it is false if the column of
 * one child may have NULL. "own" is about the table alone. But a partitioned table has the rows of its partitions, and
 * an INSERT into it may go into a foreign table.
 */
const NOT_NULL = `with recursive tables as (
    select unnest($1::pg_catalog.oid[]) as top, unnest($1::pg_catalog.oid[]) as oid
    union select top, inhrelid from tables join pg_catalog.pg_inherits on inhparent = oid
  ), columns as (
    select t.top, t.oid, c.relkind, a.attname, a.attnum,
      a.attnotnull and c.relkind in ('r', 'p') and a.attgenerated <> 'v' and not exists (
        select from pg_catalog.pg_constraint n where n.conrelid = t.oid and n.contype = 'n' and not n.convalidated
        and n.conkey = array[a.attnum]) as refuses
    from tables t join pg_catalog.pg_class c on c.oid = t.oid
    join pg_catalog.pg_attribute a on a.attrelid = t.oid
    where a.attnum > 0 and not a.attisdropped
  )
  select p.oid as "table", p.attnum as number, p.refuses and (p.relkind = 'r' or a.holds) as own,
    p.refuses and a.holds as "all"
  from columns p cross join lateral (select not exists (
    select from columns c where c.top = p.oid and c.attname = p.attname and not c.refuses) as holds) as a
  where p.oid = p.top`;

/**
 * Only pg_catalog's functions get a signature. PostgreSQL's source fixes their OIDs, below 10,000. Any other function
 * may do anything under any name.
 */
const FUNCTIONS = `select oid, proisstrict as strict,
    case when oid < 10000 and pronamespace = 'pg_catalog'::pg_catalog.regnamespace
      then proname || '(' || pg_catalog.oidvectortypes(proargtypes) || ')' end as signature
  from pg_catalog.pg_proc where oid = any ($1)`;

const REFUSING = `with recursive domains as (
    select oid as top, typbasetype, typnotnull from pg_catalog.pg_type where oid = any ($1)
    union select top, t.typbasetype, t.typnotnull from domains d join pg_catalog.pg_type t on t.oid = d.typbasetype
  )
  select distinct top as oid from domains where typnotnull`;
