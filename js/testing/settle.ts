// Checks the constraints that are deferred to the end of the transaction, as COMMIT does and RELEASE SAVEPOINT does
// not.
//
// Knows one statement of PL/pgSQL. Must not know which code runs it.

/**
 * Checks what COMMIT would check, and then defers the constraints again, as in the next transaction. SET CONSTRAINTS …
 * IMMEDIATE holds until the test ends, so the INITIALLY DEFERRED constraints are deferred by name. A name there means
 * all constraints of that name in its schema, and each of them must be deferrable. SET CONSTRAINTS refuses a schema in
 * which the user may not look up names.
 *
 * Another session, such as a test file that runs at the same time, may drop a constraint meanwhile. Then the
 * constraints are deferred one by one, and missing ones are left out. Reading the catalog again would not help: the
 * snapshot of REPEATABLE READ shows them until the test ends.
 */
export const SETTLE = `do $pgz$
declare
  deferred pg_catalog.text[];
  name pg_catalog.text;
begin
  if not exists (select from pg_catalog.pg_constraint where condeferrable) then return; end if;
  set constraints all immediate;
  select pg_catalog.array_agg(pg_catalog.format('%I.%I', nspname, conname)) into deferred from (
    select nspname, conname from pg_catalog.pg_constraint c
      join pg_catalog.pg_namespace n on n.oid operator(pg_catalog.=) c.connamespace
    where (n.oid operator(pg_catalog.=) pg_catalog.pg_my_temp_schema()
        or not pg_catalog.starts_with(nspname, 'pg_temp_'))
      and pg_catalog.has_schema_privilege(n.oid, 'usage')
    group by nspname, conname having pg_catalog.bool_and(condeferred)) as names;
  if deferred is null then return; end if;
  begin
    execute pg_catalog.concat('set constraints ', pg_catalog.array_to_string(deferred, ', '), ' deferred');
  exception when undefined_object or invalid_schema_name or wrong_object_type then
    foreach name in array deferred loop
      begin
        execute pg_catalog.concat('set constraints ', name, ' deferred');
      exception when undefined_object or invalid_schema_name or wrong_object_type then null;
      end;
    end loop;
  end;
end $pgz$`;

/** The code with which a statement fails if its transaction has already failed. */
export const FAILED_TRANSACTION = "25P02";
