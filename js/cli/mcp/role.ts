// Finds out what the session's role could do that a read-only transaction does not stop.
//
// Knows PostgreSQL's roles. Must not know what follows from it (mcp.ts).
import type { Pool } from "../../index.ts";
import { EQ, NE } from "../../util/operators.ts";

export interface RoleFacts {
  readonly role: string;
  /** Why its read-only transactions protect nothing: it is a superuser, or may become one. */
  readonly superuser: string | undefined;
  /** One sentence each. */
  readonly warnings: readonly string[];
}

interface Found {
  readonly role: string;
  readonly isSuper: boolean;
  readonly supers: readonly string[];
  readonly memberships: readonly string[];
  readonly attributes: readonly string[];
  readonly owned: string;
  readonly writable: string;
  readonly dblink: boolean;
}

/** Roles whose rights a read-only transaction does not stop, or that it is the only thing to stop. */
const DANGEROUS = [
  "pg_execute_server_program",
  "pg_write_server_files",
  "pg_read_server_files",
  "pg_signal_backend",
  "pg_write_all_data",
  "pg_maintain",
  "pg_checkpoint",
  "pg_create_subscription",
];

// Checks the session's role, not the current one: set_config('role', …) is a function that any select may call.
export const ROLE = `select r.rolname as role, r.rolsuper as "isSuper",
  array(select s.rolname::pg_catalog.text from pg_catalog.pg_roles s where s.rolsuper and s.oid ${NE} r.oid
    and pg_catalog.pg_has_role(r.oid, s.oid, 'member') order by 1) as supers,
  array(select m.rolname::pg_catalog.text from pg_catalog.pg_roles m where m.rolname ${EQ} any ($1)
    and pg_catalog.pg_has_role(r.oid, m.oid, 'member') order by 1) as memberships,
  pg_catalog.array_remove(array[
    case when r.rolcreaterole then 'CREATEROLE' end, case when r.rolcreatedb then 'CREATEDB' end,
    case when r.rolreplication then 'REPLICATION' end, case when r.rolbypassrls then 'BYPASSRLS' end
  ], null) as attributes,
  (select pg_catalog.count(*) from pg_catalog.pg_class c where c.relkind ${EQ} any (array['r', 'p', 'v', 'm', 'f', 'S'])
    and pg_catalog.pg_has_role(r.oid, c.relowner, 'member')) as owned,
  (select pg_catalog.count(*) from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid ${EQ} c.relnamespace
    where c.relkind ${EQ} any (array['r', 'p', 'f']) and n.nspname ${NE} all (array['pg_catalog', 'information_schema'])
    and pg_catalog.has_table_privilege(r.oid, c.oid, 'insert, update, delete, truncate')) as writable,
  exists (select from pg_catalog.pg_proc p where p.proname ${EQ} any (array['dblink', 'dblink_exec', 'dblink_connect'])
    and pg_catalog.has_function_privilege(r.oid, p.oid, 'execute')) as dblink
from pg_catalog.pg_roles r where r.rolname ${EQ} session_user`;

export async function roleFacts(pool: Pool, signal: AbortSignal): Promise<RoleFacts> {
  const { rows } = await pool.query<Found>({ text: ROLE, values: [DANGEROUS] }, { signal });
  const found = rows[0]!;
  return { role: found.role, superuser: superuserOf(found), warnings: warningsOf(found) };
}

function superuserOf({ role, isSuper, supers }: Found): string | undefined {
  if (isSuper) return `Role "${role}" is a superuser`;
  return supers.length ? `Role "${role}" may become the superuser ${supers.join(", ")}` : undefined;
}

function warningsOf({ role, isSuper, memberships, attributes, owned, writable, dblink }: Found): string[] {
  const its = (what: string) => `Role "${role}" ${what}.`;
  if (isSuper) return [its("is a superuser: functions that write files or run programs are not stopped")];
  return [
    ...(memberships.length ? [its(`is a member of ${memberships.join(", ")}`)] : []),
    ...(attributes.length ? [its(`has ${attributes.join(", ")}`)] : []),
    ...(owned !== "0"
      ? [its(`owns tables, views or sequences (${owned}), so policies of its tables do not hold for it`)]
      : []),
    ...(writable !== "0"
      ? [its(`may write to tables (${writable}); only the read-only transaction keeps it from that`)]
      : []),
    ...(dblink ? [its("may call dblink, which writes through a connection of its own")] : []),
  ];
}
