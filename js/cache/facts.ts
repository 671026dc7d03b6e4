// Asks the catalog about what a tree reads.
//
// Knows pg_class, pg_inherits, pg_publication, pg_proc, pg_type and their kin. Must not know trees, or what the facts
// mean for a cache (reasons.ts).
//
// The questions are sent together, and take one round trip. They return what is named, what is reached from there, and
// nothing else: a table of a thousand healthy partitions is one row.
import type { Transaction } from "../index.ts";
import { EQ, GE, GT, LT, MEMBER, NE } from "../util/operators.ts";
import { rowsOf } from "../util/question.ts";
import type { TreeReads } from "./tree-reads.ts";

export interface Relation {
  /** The relation that the tree names. `oid` is this relation, or a child that differs from a published table. */
  readonly top: number;
  readonly oid: number;
  readonly name: string;
  /** pg_class.relkind and relpersistence */
  readonly kind: string;
  readonly persistence: string;
  /** Its access method is heap. Others need not write what logical decoding reads. */
  readonly isHeap: boolean;
  readonly hasPolicies: boolean;
  readonly isSystem: boolean;
  readonly isPublished: boolean;
  readonly isFiltered: boolean;
}
export interface Publication {
  readonly insert: boolean;
  readonly update: boolean;
  readonly delete: boolean;
  readonly truncate: boolean;
  readonly viaRoot: boolean;
}
export interface Routine {
  readonly oid: number;
  readonly name: string;
  /** pg_proc.provolatile */
  readonly volatility: string;
  readonly isBuiltIn: boolean;
  /** It only turns a type's values into bytes and back, which stable functions do too: they read client_encoding. */
  readonly isWire: boolean;
  /** Of a session, whose end drops it untold. */
  readonly isTemporary: boolean;
  /** The tree of a user's function's default arguments, which a call's own tree does not have. */
  readonly defaults: string | null;
}
export interface Type {
  readonly oid: number;
  readonly name: string;
  /** The type itself, and the types that its values are made of. */
  readonly parts: readonly number[];
  /** One of them is of a session, whose end drops it untold. */
  readonly isTemporary: boolean;
  /** The trees of the CHECK constraints of domains among the parts. */
  readonly checks: readonly string[];
}
export interface Facts {
  readonly relations: readonly Relation[];
  readonly publication: Publication | undefined;
  readonly routines: readonly Routine[];
  readonly types: readonly Type[];
}

/** Asks for all facts. */
export async function factsOf(tx: Transaction, reads: TreeReads, publication: string): Promise<Facts> {
  const types = [...reads.types];
  const [relations, [published], routines, typesRead] = await Promise.all([
    rowsOf<Relation>(tx, RELATIONS, [[...reads.relations], [...reads.withChildren], publication]),
    rowsOf<Publication>(tx, PUBLICATION, [publication]),
    rowsOf<Routine>(tx, ROUTINES, [[...reads.functions], [...reads.operators], types]),
    rowsOf<Type>(tx, TYPES, [types, [...reads.functions]]),
  ]);
  return { relations, publication: published, routines, types: typesRead };
}

/**
 * A leaf is published if it is in the publication itself, or a partitioned table above it is, or one of their schemas.
 * PostgreSQL 19 has tables that are excepted. An older server has no column for that, and a name that is no column
 * would be looked up as a function: the row as JSON has no such member there.
 */
export const RELATIONS = `with recursive members as (
    select t.oid as top, t.oid from pg_catalog.unnest($1::pg_catalog.oid[]) as t(oid)
    union
    select m.top, i.inhrelid from members m join pg_catalog.pg_inherits i on i.inhparent ${EQ} m.oid
    where m.top ${EQ} any ($2::pg_catalog.oid[])
  ), published as (
    select m.oid, pg_catalog.bool_or(p.puballtables or r.prrelid is not null or s.pnnspid is not null) as named,
      pg_catalog.bool_or(coalesce((pg_catalog.to_jsonb(r) ${MEMBER} 'prexcept')::boolean, false)) as excepted,
      pg_catalog.bool_or(r.prqual is not null) as filtered
    from (select distinct oid from members) m join pg_catalog.pg_publication p on p.pubname ${EQ} $3::pg_catalog.name
    cross join lateral (
      select m.oid union select a.oid::pg_catalog.oid
      from pg_catalog.pg_partition_ancestors(m.oid::pg_catalog.regclass) as a(oid)) as a
    join pg_catalog.pg_class c on c.oid ${EQ} a.oid
    left join pg_catalog.pg_publication_rel r on r.prpubid ${EQ} p.oid and r.prrelid ${EQ} a.oid
    left join pg_catalog.pg_publication_namespace s on s.pnpubid ${EQ} p.oid and s.pnnspid ${EQ} c.relnamespace
    group by m.oid
  ), described as (
    select m.top, m.oid, pg_catalog.concat(n.nspname, '.', c.relname) as name, c.relkind::pg_catalog.text as kind,
      c.relpersistence::pg_catalog.text as persistence, c.relam ${EQ} 2 as "isHeap", c.relrowsecurity as "hasPolicies",
      c.oid ${LT} 16384 or n.nspname ${EQ} any (array['pg_catalog', 'information_schema']) as "isSystem",
      coalesce(p.named and not p.excepted, false) as "isPublished", coalesce(p.filtered, false) as "isFiltered"
    from members m join pg_catalog.pg_class c on c.oid ${EQ} m.oid
    join pg_catalog.pg_namespace n on n.oid ${EQ} c.relnamespace left join published p on p.oid ${EQ} m.oid
  )
  select d.top, d.oid, d.name, d.kind, d.persistence, d."isHeap", d."hasPolicies", d."isSystem",
    d."isPublished", d."isFiltered"
  from described d where d.oid ${EQ} d.top or d.kind ${NE} 'p' and not (
    d.kind ${EQ} 'r' and d.persistence ${EQ} 'p' and d."isHeap" and d."isPublished" and not d."isFiltered")`;

export const PUBLICATION = `select pubinsert as "insert", pubupdate as "update", pubdelete as "delete",
    pubtruncate as "truncate", pubviaroot as "viaRoot"
  from pg_catalog.pg_publication where pubname ${EQ} $1::pg_catalog.name`;

/**
 * What values of a type are made of: elements of arrays, base types and checks of domains, subtypes of ranges, columns
 * of composites. The columns of a function with OUT parameters are types too, though the tree says only `record`.
 */
const partsOf = (types: string, functions: string): string => `with recursive named as (
    select t.oid from pg_catalog.unnest(${types}::pg_catalog.oid[]) as t(oid)
    union select a.oid from pg_catalog.pg_proc p cross join lateral pg_catalog.unnest(p.proallargtypes) as a(oid)
      where p.oid ${EQ} any (${functions}::pg_catalog.oid[])
  ), parts as (
    select t.oid as top, t.oid from named as t
    union
    select p.top, f.oid from parts p join pg_catalog.pg_type y on y.oid ${EQ} p.oid cross join lateral (
      select y.typelem as oid
      union all select y.typbasetype
      union all select r.rngsubtype from pg_catalog.pg_range r where r.rngtypid ${EQ} y.oid
      union all select r.rngtypid from pg_catalog.pg_range r where r.rngmultitypid ${EQ} y.oid
      union all select a.atttypid from pg_catalog.pg_attribute a
        where a.attrelid ${EQ} y.typrelid and a.attnum ${GT} 0 and not a.attisdropped
      union all select m.found[1]::pg_catalog.oid from pg_catalog.pg_constraint c
        cross join lateral pg_catalog.regexp_matches(
          c.conbin::pg_catalog.text, ':[a-z_]*type(?:Id|id)? ([0-9]+)', 'g') as m(found)
        where c.contypid ${EQ} y.oid
    ) as f where f.oid ${NE} 0
  ), checks as (
    select distinct p.top, c.conbin::pg_catalog.text as tree from parts p
    join pg_catalog.pg_constraint c on c.contypid ${EQ} p.oid where c.contype ${EQ} 'c'
  )`;

export const TYPES = `${partsOf("$1", "$2")}, temporary as (
    select y.oid from pg_catalog.pg_type y join pg_catalog.pg_namespace n on n.oid ${EQ} y.typnamespace
    where pg_catalog.starts_with(n.nspname::pg_catalog.text, 'pg_temp_')
  )
  select p.top as oid, p.top::pg_catalog.regtype::pg_catalog.text as name, pg_catalog.array_agg(p.oid) as parts,
    array(select c.tree from checks c where c.top ${EQ} p.top) as checks,
    pg_catalog.bool_or(p.oid ${EQ} any (array(select t.oid from temporary t))) as "isTemporary"
  from parts p group by p.top`;

/**
 * The functions that the tree names, and those that it does not: of operators, of default arguments, of domains' CHECK
 * constraints, the parts of a user's aggregates (CREATE AGGREGATE marks each aggregate as immutable), and of users'
 * types their input and output, the comparisons that sorting, grouping and comparisons of arrays take, and the cast to
 * json that to_json takes. Only B-tree and hash operator classes compare.
 */
export const ROUTINES = `${partsOf("$3", "$1")}, own as (
    select y.oid, y.typinput, y.typoutput, y.typsubscript, y.typreceive, y.typsend
    from (select distinct p.oid from parts p where p.oid ${GE} 16384) as p
    join pg_catalog.pg_type y on y.oid ${EQ} p.oid
  ), trees as (
    select c.tree from checks c
    union all select p.proargdefaults::pg_catalog.text from pg_catalog.unnest($1::pg_catalog.oid[]) as t(oid)
      join pg_catalog.pg_proc p on p.oid ${EQ} t.oid where p.oid ${GE} 16384
  ), operators as (
    select t.oid from pg_catalog.unnest($2::pg_catalog.oid[]) as t(oid)
  ), families as (
    select o.opcfamily as oid from (select distinct p.oid from parts p) as p
      join pg_catalog.pg_opclass o on o.opcintype ${EQ} p.oid
      where o.oid ${GE} 16384 and o.opcmethod ${EQ} any (array[403, 405]::pg_catalog.oid[])
    union select o.opcfamily from own y join pg_catalog.pg_range r on r.rngtypid ${EQ} y.oid
      join pg_catalog.pg_opclass o on o.oid ${EQ} r.rngsubopc
    union select a.amopfamily from operators o join pg_catalog.pg_amop a on a.amopopr ${EQ} o.oid
      where o.oid ${GE} 16384 and a.amopmethod ${EQ} any (array[403, 405]::pg_catalog.oid[])
  ), called as (
    select t.oid, false as wire from pg_catalog.unnest($1::pg_catalog.oid[]) as t(oid)
    union all select p.oprcode::pg_catalog.oid, false from operators o
      join pg_catalog.pg_operator p on p.oid ${EQ} o.oid
    union all select m.found[1]::pg_catalog.oid, false from trees t
      cross join lateral pg_catalog.regexp_matches(t.tree, ':(?:op)?funcid ([0-9]+)', 'g') as m(found)
    union all select f.oid, false from pg_catalog.unnest($1::pg_catalog.oid[]) as t(oid)
      join pg_catalog.pg_aggregate a on a.aggfnoid::pg_catalog.oid ${EQ} t.oid
      cross join lateral pg_catalog.unnest(array[a.aggtransfn, a.aggfinalfn, a.aggcombinefn, a.aggserialfn,
        a.aggdeserialfn, a.aggmtransfn, a.aggminvtransfn, a.aggmfinalfn]::pg_catalog.oid[]) as f(oid)
      where t.oid ${GE} 16384
    union all select p.amproc::pg_catalog.oid, false from families f
      join pg_catalog.pg_amproc p on p.amprocfamily ${EQ} f.oid
    union all select p.oprcode::pg_catalog.oid, false from families f
      join pg_catalog.pg_amop a on a.amopfamily ${EQ} f.oid join pg_catalog.pg_operator p on p.oid ${EQ} a.amopopr
    union all select f.oid, f.wire from own y cross join lateral (
        select t.oid, false as wire from pg_catalog.unnest(
          array[y.typinput, y.typoutput, y.typsubscript]::pg_catalog.oid[]) as t(oid)
        union all select t.oid, true from pg_catalog.unnest(
          array[y.typreceive, y.typsend]::pg_catalog.oid[]) as t(oid)
        union all select r.rngcanonical::pg_catalog.oid, false from pg_catalog.pg_range r where r.rngtypid ${EQ} y.oid
        union all select k.castfunc, false from pg_catalog.pg_cast k
          where k.castsource ${EQ} y.oid and k.casttarget ${EQ} 114) as f
      where f.oid ${GE} 16384
  )
  select p.oid, p.oid::pg_catalog.regprocedure::pg_catalog.text as name, p.provolatile::pg_catalog.text as volatility,
    p.oid ${LT} 16384 and p.pronamespace ${EQ} 'pg_catalog'::pg_catalog.regnamespace as "isBuiltIn",
    c.wire as "isWire", pg_catalog.starts_with(n.nspname::pg_catalog.text, 'pg_temp_') as "isTemporary",
    case when p.oid ${GE} 16384 then p.proargdefaults::pg_catalog.text end as defaults
  from (select k.oid, pg_catalog.bool_and(k.wire) as wire from called k group by k.oid) as c
  join pg_catalog.pg_proc p on p.oid ${EQ} c.oid join pg_catalog.pg_namespace n on n.oid ${EQ} p.pronamespace`;
