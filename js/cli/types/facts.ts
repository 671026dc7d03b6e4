// Reads what the catalog says about NULL in tables, functions and domains.
//
// Knows pg_attribute, pg_constraint, pg_inherits, pg_proc and pg_type. Must not know trees, or what is made of the
// facts.
import type { Transaction } from "../../index.ts";
import type { Facts, Named } from "./nullability.ts";
import { EQ, GT, LT, NE } from "../../util/operators.ts";

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
export const NOT_NULL = `with recursive tables as (
    select pg_catalog.unnest($1::pg_catalog.oid[]) as top, pg_catalog.unnest($1::pg_catalog.oid[]) as oid
    union select top, inhrelid from tables join pg_catalog.pg_inherits on inhparent ${EQ} oid
  ), columns as (
    select t.top, t.oid, c.relkind, a.attname, a.attnum,
      a.attnotnull and c.relkind ${EQ} any (array['r', 'p']) and a.attgenerated ${NE} 'v' and not exists (
        select from pg_catalog.pg_constraint n
        where n.conrelid ${EQ} t.oid and n.contype ${EQ} 'n' and not n.convalidated and n.conkey ${EQ} array[a.attnum]) as refuses
    from tables t join pg_catalog.pg_class c on c.oid ${EQ} t.oid
    join pg_catalog.pg_attribute a on a.attrelid ${EQ} t.oid
    where a.attnum ${GT} 0 and not a.attisdropped
  )
  select p.oid as "table", p.attnum as number, p.refuses and (p.relkind ${EQ} 'r' or a.holds) as own,
    p.refuses and a.holds as "all"
  from columns p cross join lateral (select not exists (
    select from columns c where c.top ${EQ} p.oid and c.attname ${EQ} p.attname and not c.refuses) as holds) as a
  where p.oid ${EQ} p.top`;

/**
 * Only pg_catalog's functions get a signature. PostgreSQL's source fixes their OIDs, below 10,000. Any other function
 * may do anything under any name.
 */
export const FUNCTIONS = `select oid, proisstrict as strict,
    case when oid ${LT} 10000 and pronamespace ${EQ} 'pg_catalog'::pg_catalog.regnamespace
      then pg_catalog.concat(proname, '(', pg_catalog.oidvectortypes(proargtypes), ')') end as signature
  from pg_catalog.pg_proc where oid ${EQ} any ($1)`;

export const REFUSING = `with recursive domains as (
    select oid as top, typbasetype, typnotnull from pg_catalog.pg_type where oid ${EQ} any ($1)
    union select top, t.typbasetype, t.typnotnull from domains d join pg_catalog.pg_type t on t.oid ${EQ} d.typbasetype
  )
  select distinct top as oid from domains where typnotnull`;
