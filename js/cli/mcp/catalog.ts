// Reads the catalog for a model: the list of tables, and the description of a table. Only what the role may read.
//
// Knows SQL and its parameters. Must not know how it is run or shown. Each name has its schema, because a role's
// search_path may lead elsewhere.
import { EQ, GT, NE } from "../../util/operators.ts";

/** The kinds of relations with rows: tables, partitioned tables, views, materialized views, foreign tables. */
const KINDS = `case when c.relkind ${EQ} 'r' then 'table'
    when c.relkind ${EQ} 'p' then 'partitioned table'
    when c.relkind ${EQ} 'v' then 'view'
    when c.relkind ${EQ} 'm' then 'materialized view'
    when c.relkind ${EQ} 'f' then 'foreign table' end`;

/** reltuples is -1 if the table has never been analyzed. */
const ESTIMATE = `case when c.relkind ${NE} all (array['v', 'f']) and c.reltuples ${GT} '-1'
    then c.reltuples::bigint end`;

const COMMENT = "pg_catalog.obj_description(c.oid, 'pg_class')";

const READABLE = `c.relkind ${EQ} any (array['r', 'p', 'v', 'm', 'f'])
  and pg_catalog.has_schema_privilege(n.oid, 'usage')
  and (pg_catalog.has_table_privilege(c.oid, 'select') or pg_catalog.has_any_column_privilege(c.oid, 'select'))`;

/** Leaves out partitions, because their parent has their rows. */
export const LIST_TABLES = `select n.nspname as schema, c.relname as name, ${KINDS} as kind,
  ${ESTIMATE} as estimated_rows, ${COMMENT} as comment
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid ${EQ} c.relnamespace
where ${READABLE} and not c.relispartition
  and n.nspname operator(pg_catalog.!~) '^pg_toast|^pg_temp'
  and case when $1::pg_catalog.text is not null then n.nspname ${EQ} $1
    else n.nspname ${NE} all (array['pg_catalog', 'information_schema']) end
  and ($2::pg_catalog.text[] is null or n.nspname ${EQ} any ($2))
  and ($3::pg_catalog.text is null or pg_catalog.strpos(
    pg_catalog.lower(pg_catalog.concat_ws(' ', c.relname, ${COMMENT})), pg_catalog.lower($3)) ${GT} 0)
order by n.nspname, c.relname`;

/** The table's OID, or null. The name is read as in SQL: by search_path, and in lower case unless it is quoted. */
export const TABLE_OID = "select pg_catalog.to_regclass($1)::pg_catalog.oid as oid";

/**
 * Comes before DESCRIBE_TABLE, in its transaction: pg_get_viewdef runs a query of its own, whose operators are looked
 * up on search_path. Names of the answer then have their schemas, too.
 */
export const CATALOG_PATH = "select pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true)";

/** Returns one row with `table` for an OID, or no row. */
export const DESCRIBE_TABLE = `select pg_catalog.jsonb_build_object(
  'schema', n.nspname,
  'name', c.relname,
  'kind', ${KINDS},
  'comment', ${COMMENT},
  'estimatedRows', ${ESTIMATE},
  'definition', case when c.relkind ${EQ} any (array['v', 'm'])
    then pg_catalog.pg_get_viewdef(c.oid, true) end,
  'columns', (
    select pg_catalog.jsonb_agg(pg_catalog.jsonb_strip_nulls(pg_catalog.jsonb_build_object(
      'name', a.attname,
      'type', pg_catalog.format_type(a.atttypid, a.atttypmod),
      'nullable', not a.attnotnull,
      'default', pg_catalog.pg_get_expr(d.adbin, d.adrelid),
      'generated', case when a.attidentity ${NE} '' then 'identity'
        when a.attgenerated ${NE} '' then 'computed' end,
      'values', (select pg_catalog.jsonb_agg(e.enumlabel order by e.enumsortorder) from pg_catalog.pg_enum e
        where e.enumtypid ${EQ} a.atttypid),
      'comment', pg_catalog.col_description(c.oid, a.attnum))) order by a.attnum)
    from pg_catalog.pg_attribute a
    left join pg_catalog.pg_attrdef d on d.adrelid ${EQ} a.attrelid and d.adnum ${EQ} a.attnum
    where a.attrelid ${EQ} c.oid and a.attnum ${GT} 0 and not a.attisdropped
      and pg_catalog.has_column_privilege(c.oid, a.attnum, 'select')),
  'constraints', (
    select pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object(
      'name', k.conname, 'definition', pg_catalog.pg_get_constraintdef(k.oid, true)) order by k.contype desc, k.conname)
    from pg_catalog.pg_constraint k
    where k.conrelid ${EQ} c.oid and k.contype ${EQ} any (array['p', 'u', 'f', 'c', 'x'])),
  'referencedBy', (
    select pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object(
      'table', k.conrelid::pg_catalog.regclass::pg_catalog.text,
      'definition', pg_catalog.pg_get_constraintdef(k.oid, true)) order by k.conname)
    from pg_catalog.pg_constraint k
    where k.confrelid ${EQ} c.oid and k.contype ${EQ} 'f' and k.conparentid ${EQ} 0
      and pg_catalog.has_table_privilege(k.conrelid, 'select')),
  'indexes', (
    select pg_catalog.jsonb_agg(pg_catalog.pg_get_indexdef(i.indexrelid) order by i.indexrelid)
    from pg_catalog.pg_index i where i.indrelid ${EQ} c.oid and i.indisvalid)
) as "table"
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid ${EQ} c.relnamespace
where c.oid ${EQ} $1::pg_catalog.oid and ${READABLE}
  and ($2::pg_catalog.text[] is null or n.nspname ${EQ} any ($2))`;
