// What COMMIT does and RELEASE SAVEPOINT does not: it checks the constraints that wait for the end of the transaction.
//
// Knows one statement of PL/pgSQL. Must not know who runs it.

/**
 * Checks what COMMIT would check, and lets the constraints wait again, as in the next transaction. A check that was made
 * immediate stays so until the test ends, so those that are INITIALLY DEFERRED are named: SET CONSTRAINTS takes a name
 * for all constraints of that name in its schema, and each of them must be deferrable.
 */
export const SETTLE = `do $pgz$
declare deferred text;
begin
  if not exists (select from pg_catalog.pg_constraint where condeferrable) then return; end if;
  set constraints all immediate;
  select pg_catalog.string_agg(pg_catalog.format('%I.%I', nspname, conname), ', ') into deferred from (
    select nspname, conname from pg_catalog.pg_constraint c join pg_catalog.pg_namespace n on n.oid = c.connamespace
    where n.oid = pg_catalog.pg_my_temp_schema() or not pg_catalog.starts_with(nspname, 'pg_temp_')
    group by nspname, conname having pg_catalog.bool_and(condeferred)) as names;
  if deferred is not null then execute 'set constraints ' || deferred || ' deferred'; end if;
end $pgz$`;

/** The statement whose transaction has failed says so with this code. */
export const FAILED_TRANSACTION = "25P02";
