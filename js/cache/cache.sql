-- What a database needs for pgz-edge/cache. Run it as a superuser, once; again after an update of pgz-edge.
--
-- Logical replication has no DDL. These triggers put a message into the stream, in its place among the commits, so that
-- the invalidator hears of each change of definitions. The message is the command, such as ALTER TABLE.
--
-- The function below runs as its owner, also for what a superuser does. So nothing of that name is taken over that
-- another role has made: it could put its own function there.
do $$
begin
  if not exists (
    select from pg_catalog.pg_namespace as n where n.nspname operator(pg_catalog.=) 'pgz_edge_cache'
  ) then
    create schema pgz_edge_cache;
  end if;
  if exists (
    select from pg_catalog.pg_namespace as n
    left join pg_catalog.pg_proc as p on p.pronamespace operator(pg_catalog.=) n.oid
    join pg_catalog.pg_roles as r on r.oid operator(pg_catalog.=) any (array[n.nspowner, p.proowner])
    where n.nspname operator(pg_catalog.=) 'pgz_edge_cache' and not r.rolsuper
      and r.rolname operator(pg_catalog.<>) current_user
  ) then
    raise exception 'schema pgz_edge_cache, or a function in it, belongs to another role'
      using hint = 'See what it is. Then drop it, and run cache.sql again.';
  end if;
  revoke all on schema pgz_edge_cache from public;
end $$;

-- Runs with the rights of its owner, so that no DDL fails because its role may not write a message. It takes nothing
-- from that role but the command's name. Its search_path is its own, so that no schema of that role's can put another
-- function or operator in the place of one of these.
-- The number is this file's version, which the invalidator looks for.
create or replace function pgz_edge_cache.definitions_changed_1() returns event_trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if tg_event operator(pg_catalog.=) 'sql_drop' then
    if not exists (
      select from pg_catalog.pg_event_trigger_dropped_objects() as o
      where not o.is_temporary and o.object_type operator(pg_catalog.<>) 'index'
    ) then
      return;
    end if;
  end if;
  if tg_event operator(pg_catalog.=) 'ddl_command_end' then
    if tg_tag operator(pg_catalog.~~) 'DROP %' and tg_tag operator(pg_catalog.<>) 'DROP OWNED' then
      return; -- sql_drop says what is gone; DROP OWNED also takes a role out of policies
    end if;
    -- Not ALTER INDEX: it renames tables too.
    if tg_tag operator(pg_catalog.=) any (array[
      'COMMENT', 'CREATE INDEX', 'REINDEX', 'CREATE STATISTICS', 'ALTER STATISTICS',
      'REFRESH MATERIALIZED VIEW' -- no answer that reads one is stored
    ]) then
      return;
    end if;
    if (select pg_catalog.count(*) operator(pg_catalog.>) 0
          and pg_catalog.bool_and(o.schema_name is not null and o.schema_name operator(pg_catalog.=) 'pg_temp')
        from pg_catalog.pg_event_trigger_ddl_commands() as o) then
      return; -- a temporary table concerns its own session only, and no answer that reads one is stored
    end if;
  end if;
  perform pg_catalog.pg_logical_emit_message(true, 'pgz-edge/cache', tg_tag);
end $$;

-- In one statement: no DDL may come between that a trigger misses.
do $$
begin
  drop event trigger if exists pgz_edge_cache_start;
  drop event trigger if exists pgz_edge_cache_end;
  drop event trigger if exists pgz_edge_cache_drop;
  -- DETACH PARTITION CONCURRENTLY changes answers at the first of its two commits, and only its start comes before that.
  -- Nothing says at the start which ALTER TABLE it is.
  create event trigger pgz_edge_cache_start on ddl_command_start when tag in ('ALTER TABLE')
    execute function pgz_edge_cache.definitions_changed_1();
  create event trigger pgz_edge_cache_end on ddl_command_end execute function pgz_edge_cache.definitions_changed_1();
  create event trigger pgz_edge_cache_drop on sql_drop execute function pgz_edge_cache.definitions_changed_1();
  -- Also in a session with session_replication_role = replica.
  alter event trigger pgz_edge_cache_start enable always;
  alter event trigger pgz_edge_cache_end enable always;
  alter event trigger pgz_edge_cache_drop enable always;
end $$;
