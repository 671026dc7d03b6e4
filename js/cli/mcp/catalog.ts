// Reads the catalog for a model: the list of tables, and the description of a table. Only what the role may read.
//
// Knows SQL and its parameters. Must not know how it is run or shown. Each name has its schema, because a role's
// search_path may lead elsewhere.

/** The kinds of relations with rows: tables, partitioned tables, views, materialized views, foreign tables. */
const KINDS = `case c.relkind when 'r' then 'table' when 'p' then 'partitioned table' when 'v' then 'view'
    when 'm' then 'materialized view' when 'f' then 'foreign table' end`;

/** reltuples is -1 if the table has never been analyzed. */
const ESTIMATE = `case when c.relkind in ('v', 'f') or c.reltuples < 0 then null else c.reltuples::pg_catalog.int8 end`;

const COMMENT = "pg_catalog.obj_description(c.oid, 'pg_class')";

const READABLE = `c.relkind in ('r', 'p', 'v', 'm', 'f')
  and pg_catalog.has_schema_privilege(n.oid, 'usage')
  and (pg_catalog.has_table_privilege(c.oid, 'select') or pg_catalog.has_any_column_privilege(c.oid, 'select'))`;

/** Leaves out partitions, because their parent has their rows. */
export const LIST_TABLES = `select n.nspname as schema, c.relname as name, ${KINDS} as kind, ${ESTIMATE} as estimated_rows,
  ${COMMENT} as comment
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where ${READABLE} and not c.relispartition
  and n.nspname !~ '^pg_toast|^pg_temp'
  and case when $1::pg_catalog.text is not null then n.nspname = $1
    else n.nspname not in ('pg_catalog', 'information_schema') end
  and ($2::pg_catalog.text[] is null or n.nspname = any ($2))
  and ($3::pg_catalog.text is null or pg_catalog.strpos(
    pg_catalog.lower(pg_catalog.concat_ws(' ', c.relname, ${COMMENT})), pg_catalog.lower($3)) > 0)
order by n.nspname, c.relname`;

/**
 * Returns one row with `table`, or no row. The name is read as in SQL: by search_path, and in lower case unless it is
 * quoted.
 */
export const DESCRIBE_TABLE = `select pg_catalog.jsonb_build_object(
  'schema', n.nspname,
  'name', c.relname,
  'kind', ${KINDS},
  'comment', ${COMMENT},
  'estimatedRows', ${ESTIMATE},
  'definition', case when c.relkind in ('v', 'm') then pg_catalog.pg_get_viewdef(c.oid, true) end,
  'columns', (
    select pg_catalog.jsonb_agg(pg_catalog.jsonb_strip_nulls(pg_catalog.jsonb_build_object(
      'name', a.attname,
      'type', pg_catalog.format_type(a.atttypid, a.atttypmod),
      'nullable', not a.attnotnull,
      'default', pg_catalog.pg_get_expr(d.adbin, d.adrelid),
      'generated', case when a.attidentity <> '' then 'identity' when a.attgenerated <> '' then 'computed' end,
      'values', (select pg_catalog.jsonb_agg(e.enumlabel order by e.enumsortorder) from pg_catalog.pg_enum e
        where e.enumtypid = a.atttypid),
      'comment', pg_catalog.col_description(c.oid, a.attnum))) order by a.attnum)
    from pg_catalog.pg_attribute a
    left join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
      and pg_catalog.has_column_privilege(c.oid, a.attnum, 'select')),
  'constraints', (
    select pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object(
      'name', k.conname, 'definition', pg_catalog.pg_get_constraintdef(k.oid, true)) order by k.contype desc, k.conname)
    from pg_catalog.pg_constraint k where k.conrelid = c.oid and k.contype in ('p', 'u', 'f', 'c', 'x')),
  'referencedBy', (
    select pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object(
      'table', k.conrelid::pg_catalog.regclass::pg_catalog.text,
      'definition', pg_catalog.pg_get_constraintdef(k.oid, true)) order by k.conname)
    from pg_catalog.pg_constraint k
    where k.confrelid = c.oid and k.contype = 'f' and k.conparentid = 0
      and pg_catalog.has_table_privilege(k.conrelid, 'select')),
  'indexes', (
    select pg_catalog.jsonb_agg(pg_catalog.pg_get_indexdef(i.indexrelid) order by i.indexrelid)
    from pg_catalog.pg_index i where i.indrelid = c.oid and i.indisvalid)
) as "table"
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.oid = pg_catalog.to_regclass($1::pg_catalog.text) and ${READABLE}
  and ($2::pg_catalog.text[] is null or n.nspname = any ($2))`;
