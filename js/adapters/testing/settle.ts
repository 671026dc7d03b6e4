// What COMMIT does and RELEASE SAVEPOINT does not: it checks the constraints that wait for the end of the transaction.
//
// Knows one statement of PL/pgSQL. Must not know who runs it.

/**
 * Checks what COMMIT would check, and lets the constraints wait again, as in the next transaction. A check that was made
 * immediate stays so until the test ends, so those that are INITIALLY DEFERRED are named: SET CONSTRAINTS takes a name
 * for all constraints of that name in its schema, and each of them must be deferrable. It refuses a schema whose names
 * the user may not look up.
 *
 * Another session may drop a constraint while it is named here, such as a test file that runs at the same time. Then
 * they are set one by one, and those that are gone are left out. Looking again would not help: the snapshot of
 * REPEATABLE READ shows them until the test ends.
 */
export const SETTLE = `do $pgz$
declare
  deferred text[];
  name text;
begin
  if not exists (select from pg_catalog.pg_constraint where condeferrable) then return; end if;
  set constraints all immediate;
  select pg_catalog.array_agg(pg_catalog.format('%I.%I', nspname, conname)) into deferred from (
    select nspname, conname from pg_catalog.pg_constraint c join pg_catalog.pg_namespace n on n.oid = c.connamespace
    where (n.oid = pg_catalog.pg_my_temp_schema() or not pg_catalog.starts_with(nspname, 'pg_temp_'))
      and pg_catalog.has_schema_privilege(n.oid, 'usage')
    group by nspname, conname having pg_catalog.bool_and(condeferred)) as names;
  if deferred is null then return; end if;
  begin
    execute 'set constraints ' || pg_catalog.array_to_string(deferred, ', ') || ' deferred';
  exception when undefined_object or invalid_schema_name or wrong_object_type then
    foreach name in array deferred loop
      begin
        execute 'set constraints ' || name || ' deferred';
      exception when undefined_object or invalid_schema_name or wrong_object_type then null;
      end;
    end loop;
  end;
end $pgz$`;

/** The statement whose transaction has failed says so with this code. */
export const FAILED_TRANSACTION = "25P02";
