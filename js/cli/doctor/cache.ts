// Says whether the database is ready for pgz-edge/cache: event triggers, WAL, a role, the publication and its tables.
//
// Knows what docs/cache.md asks of a database. Must not know the invalidator: its own look at the event triggers is in
// js/cache/run.ts, and tests/cli/doctor-cache.test.ts compares the two. A database without the schema of cache.sql gets
// no finding, unless the user asks with --cache.
import type { Client } from "../../index.ts";
import { releaseWithoutLoss } from "../../util/lossy-releases.ts";
import { EQ, NE } from "../../util/operators.ts";
import { change, good, note, unknown, type Finding } from "./findings.ts";
import type { Patient } from "./patient.ts";
import type { Server } from "./server.ts";

/** The function of cache.sql, whose name has the version of that file. */
const FUNCTION = "definitions_changed_1";
/** Event triggers that cache.sql makes. */
const TRIGGERS = 3;
/** Names of tables, roles or publications that a finding shows. */
const MOST_NAMES = 10;

interface Trigger {
  readonly name: string;
  readonly function: string;
  /** pg_event_trigger.evtenabled */
  readonly enabled: string;
  /** The trigger's owner owns the function too. */
  readonly isOwned: boolean;
  /** The function runs as its owner. */
  readonly isDefiner: boolean;
}

interface Setup {
  /** The schema of cache.sql is there. */
  readonly is_prepared: boolean;
  readonly version: number;
  readonly event_triggers: string;
  readonly triggers: readonly Trigger[];
  readonly wal_level: string;
  readonly is_on_demand: boolean;
  readonly user_name: string;
  readonly replicators: readonly string[];
  readonly publications: readonly string[];
}

/** `is_on_demand`: since PostgreSQL 19, wal_level = replica is enough, because the first logical slot raises it. */
export const CACHE_SETUP = `select
  exists (select from pg_catalog.pg_namespace as n where n.nspname ${EQ} 'pgz_edge_cache') as is_prepared,
  pg_catalog.current_setting('server_version_num')::pg_catalog.int4 as version,
  coalesce(pg_catalog.current_setting('event_triggers', true), 'on') as event_triggers,
  (select coalesce(pg_catalog.json_agg(pg_catalog.json_build_object(
      'name', t.evtname, 'function', p.proname, 'enabled', t.evtenabled::pg_catalog.text,
      'isOwned', p.proowner ${EQ} t.evtowner, 'isDefiner', p.prosecdef) order by t.evtname), '[]')
    from pg_catalog.pg_event_trigger as t
    join pg_catalog.pg_proc as p on p.oid ${EQ} t.evtfoid
    join pg_catalog.pg_namespace as n on n.oid ${EQ} p.pronamespace
    where n.nspname ${EQ} 'pgz_edge_cache') as triggers,
  pg_catalog.current_setting('wal_level') as wal_level,
  pg_catalog.current_setting('effective_wal_level', true) is not null as is_on_demand,
  session_user::pg_catalog.text as user_name,
  array(select r.rolname::pg_catalog.text from pg_catalog.pg_roles as r
    where r.rolreplication and r.rolcanlogin and not r.rolsuper order by 1) as replicators,
  array(select p.pubname::pg_catalog.text from pg_catalog.pg_publication as p order by 1) as publications`;

/** `name`: the publication of --cache. */
export async function cache(
  patient: Patient,
  client: Client,
  server: Server,
  name: string | undefined,
): Promise<Finding[]> {
  const isAsked = name !== undefined;
  if (!server.isPostgres)
    return isAsked ? [unknown("cache", "Cache", `it follows PostgreSQL, and ${server.name} is another server`)] : [];
  const setup = await patient.ask<Setup>(client, CACHE_SETUP);
  if (!setup) return isAsked ? [unknown("cache", "Cache", "the server does not show what is set up for it")] : [];
  if (!setup.is_prepared && !isAsked) return [];
  return [
    ...releaseOf(setup.version),
    triggers(setup),
    wal(setup),
    await role(patient, setup),
    ...(await publication(patient, client, setup.publications, name)),
  ];
}

/** Nothing is said of a release that loses nothing. */
export function releaseOf(version: number): Finding[] {
  const release = releaseWithoutLoss(version);
  if (release === undefined) return [];
  const text = "no answer is stored: this release may leave out changes of a table that joins a publication";
  return [change("cache-release", "Cache release", text, { version }, `Update the server to ${release} or newer.`)];
}

// -- event triggers ---------------------------------------------------------------------------------------------------

/** What makes an event trigger useless, with "is" or "are" in front. */
const FAULTS: readonly [text: string, has: (trigger: Trigger) => boolean][] = [
  ["of another version of cache.sql", ({ function: its }) => its !== FUNCTION],
  ["disabled", ({ enabled }) => enabled === "D"],
  ["not ENABLE ALWAYS", ({ enabled }) => enabled === "O" || enabled === "R"],
  ["of another owner than the function", ({ isOwned }) => !isOwned],
  ["of a function that is not SECURITY DEFINER", ({ isDefiner }) => !isDefiner],
];

function triggers({ triggers: all, event_triggers }: Setup): Finding {
  const facts = { triggers: all, eventTriggers: event_triggers };
  const faults = FAULTS.flatMap(([text, has]) => {
    const names = all.filter(has).map(({ name }) => name);
    return names.length ? [`${namesOf(names)} ${names.length > 1 ? "are" : "is"} ${text}`] : [];
  });
  if (all.length !== TRIGGERS)
    faults.unshift(`cache.sql makes ${TRIGGERS} event triggers, and there are ${all.length}`);
  const isOff = event_triggers === "off";
  if (!faults.length && !isOff)
    return good("cache-triggers", "Cache DDL", "the event triggers of cache.sql tell of changes of definitions", facts);
  return change(
    "cache-triggers",
    "Cache DDL",
    `no answer is stored: ${[...faults, ...(isOff ? ["event_triggers is off"] : [])].join("; ")}`,
    facts,
    ...(faults.length
      ? ['As a superuser, run psql "$DATABASE_URL" -f node_modules/pgz-edge/dist/cache.sql (docs/cache.md).']
      : []),
    ...(isOff ? ["Set event_triggers = on, where the server, the database or the role has it off."] : []),
  );
}

// -- the server and the role ------------------------------------------------------------------------------------------

function wal({ wal_level, is_on_demand }: Setup): Finding {
  const facts = { walLevel: wal_level };
  if (wal_level === "logical") return good("cache-wal", "Cache WAL", "wal_level is logical", facts);
  if (wal_level === "replica" && is_on_demand)
    return good(
      "cache-wal",
      "Cache WAL",
      "wal_level is replica, and the server raises it with the first logical slot",
      facts,
    );
  return change(
    "cache-wal",
    "Cache WAL",
    `wal_level is ${wal_level}, so there is no stream of changes`,
    facts,
    "Set wal_level = logical in the server's configuration, and restart it.",
  );
}

const INSUFFICIENT_PRIVILEGE = "42501";

/** Logs in as the invalidator's stream does: some providers allow that to roles without REPLICATION. */
async function role(patient: Patient, { user_name, replicators }: Setup): Promise<Finding> {
  const title = "Cache role";
  const login = await patient.tryLogIn({ replication: "database" });
  const facts = { user: user_name, mayReplicate: !("code" in login), replicators: replicators.slice(0, MOST_NAMES) };
  if (!("code" in login)) return good("cache-role", title, `${user_name} may read the stream of changes`, facts);
  if (login.code !== INSUFFICIENT_PRIVILEGE)
    return unknown("cache-role", title, `whether ${user_name} may read the stream of changes: ${login.message}`);
  if (replicators.length)
    return note(
      "cache-role",
      title,
      `${user_name} has no REPLICATION, which the invalidator's role needs. Others have it: ${namesOf(replicators)}`,
      facts,
      "Let the invalidator log in as such a role.",
    );
  return change(
    "cache-role",
    title,
    `${user_name} has no REPLICATION, which the invalidator's role needs. Only superusers have it`,
    facts,
    "Give it to a role for the invalidator: alter role … replication.",
  );
}

// -- the publication --------------------------------------------------------------------------------------------------

const OPERATIONS = ["insert", "update", "delete", "truncate"] as const;

interface Publication extends Readonly<Record<(typeof OPERATIONS)[number], boolean>> {
  readonly via_root: boolean;
  readonly tables: number;
  readonly filtered: readonly string[];
  /** Tables whose UPDATE and DELETE fail, because they have no replica identity. */
  readonly without_identity: readonly string[];
  /** Tables whose UPDATE and DELETE fail, because the column list lacks columns of the replica identity. */
  readonly uncovered: readonly string[];
}

/**
 * `leaves`: the tables that have rows, also where their root is published. Their index counts as replica identity if
 * RelationGetIndexList (relcache.c) takes it; a column list is compared with it as in pub_contains_invalid_column
 * (publicationcmds.c).
 */
export const CACHE_PUBLICATION = `with named as (
    select c.oid from pg_catalog.pg_publication_tables as t
    join pg_catalog.pg_namespace as n on n.nspname ${EQ} t.schemaname
    join pg_catalog.pg_class as c on c.relnamespace ${EQ} n.oid and c.relname ${EQ} t.tablename
    where t.pubname ${EQ} $1::pg_catalog.name
  ), leaves as (
    select t.oid from named as t
    union select l.relid::pg_catalog.oid from named as t
      cross join lateral pg_catalog.pg_partition_tree(t.oid::pg_catalog.regclass) as l where l.isleaf
  ), described as (
    select pg_catalog.concat(n.nspname, '.', c.relname) as name,
      c.relreplident ${EQ} 'f' or i.indexrelid is not null as has_identity,
      r.prattrs is not null and (c.relreplident ${EQ} 'f' or exists (
        select from pg_catalog.unnest(i.indkey::pg_catalog.int2[]) as k(attnum)
        where k.attnum ${NE} all (r.prattrs::pg_catalog.int2[]))) as is_uncovered
    from leaves as t
    join pg_catalog.pg_class as c on c.oid ${EQ} t.oid and c.relkind ${EQ} 'r' and c.relpersistence ${EQ} 'p'
    join pg_catalog.pg_namespace as n on n.oid ${EQ} c.relnamespace
    left join pg_catalog.pg_index as i on i.indrelid ${EQ} c.oid and i.indisvalid and i.indimmediate and (
      (c.relreplident ${EQ} 'd' and i.indisprimary) or (c.relreplident ${EQ} 'i' and i.indisreplident))
    left join pg_catalog.pg_publication_rel as r on r.prrelid ${EQ} c.oid
      and r.prpubid ${EQ} (select p.oid from pg_catalog.pg_publication as p where p.pubname ${EQ} $1::pg_catalog.name)
  )
  select p.pubinsert as "insert", p.pubupdate as "update", p.pubdelete as "delete", p.pubtruncate as "truncate",
    p.pubviaroot as via_root, (select pg_catalog.count(*)::int from described) as tables,
    array(select pg_catalog.concat(n.nspname, '.', c.relname) from pg_catalog.pg_publication_rel as r
      join pg_catalog.pg_class as c on c.oid ${EQ} r.prrelid
      join pg_catalog.pg_namespace as n on n.oid ${EQ} c.relnamespace
      where r.prpubid ${EQ} p.oid and r.prqual is not null order by 1) as filtered,
    array(select d.name from described as d where not d.has_identity order by 1) as without_identity,
    array(select d.name from described as d where d.is_uncovered order by 1) as uncovered
  from pg_catalog.pg_publication as p where p.pubname ${EQ} $1::pg_catalog.name`;

const ID = "cache-publication";
const TITLE = "Publication";

async function publication(
  patient: Patient,
  client: Client,
  all: readonly string[],
  asked: string | undefined,
): Promise<Finding[]> {
  const facts = { publications: all.slice(0, MOST_NAMES) };
  if (asked === undefined && all.length > 1)
    return [
      note(ID, TITLE, `there are several: ${namesOf(all)}`, facts, "pgz-edge doctor --cache PUBLICATION examines it."),
    ];
  const name = asked ?? all[0];
  if (name === undefined || !all.includes(name)) {
    const text = name === undefined ? "there is no publication" : `there is no publication "${name}"`;
    return [change(ID, TITLE, text, facts, MAKE_ONE)];
  }
  const found = await patient.ask<Publication>(client, CACHE_PUBLICATION, [name]);
  if (!found) return [unknown(ID, TITLE, `the server does not show the tables of "${name}"`)];
  const needsIdentity = found.tables > 0 && (found.update || found.delete);
  return [published(name, found), ...(needsIdentity ? [identity(found)] : [])];
}

const MAKE_ONE =
  "Make one, of the tables whose answers are stored: create publication cache for table … (docs/cache.md).";

const OF_FILTERS =
  "Publish these tables without WHERE, if their answers should be stored. UPDATE and DELETE fail (42P10) where WHERE " +
  "reads a column that is not in the replica identity.";

function published(name: string, found: Publication): Finding {
  const missing = OPERATIONS.filter((operation) => !found[operation]);
  const publishes = Object.fromEntries(OPERATIONS.map((operation) => [operation, found[operation]]));
  const { via_root, tables, filtered } = found;
  const facts = { name, publishes, viaPartitionRoot: via_root, tables, rowFilters: some(filtered) };
  const wrongs: readonly [isWrong: boolean, text: string, advice: string][] = [
    [
      missing.length > 0,
      `"${name}" does not publish ${missing.join(", ")}`,
      "Publish all: alter publication … set (publish = 'insert, update, delete, truncate').",
    ],
    [
      via_root,
      `"${name}" has publish_via_partition_root, which hides a TRUNCATE of a partition`,
      "Turn it off: alter publication … set (publish_via_partition_root = false).",
    ],
    [!tables, `"${name}" has no table`, "Add the tables whose answers are stored: alter publication … add table …."],
  ];
  const faults = wrongs.filter(([isWrong]) => isWrong);
  const advice = [...faults.map(([, , one]) => one), ...(filtered.length ? [OF_FILTERS] : [])];
  if (faults.length)
    return change(ID, TITLE, `no answer is stored: ${faults.map(([, text]) => text).join("; ")}`, facts, ...advice);
  const text = `"${name}" publishes all changes of ${tables} ${tables === 1 ? "table" : "tables"}`;
  if (!filtered.length) return good(ID, TITLE, text, facts);
  return note(
    ID,
    TITLE,
    `${text}, but answers from those with a row filter are not stored: ${namesOf(filtered)}`,
    facts,
    ...advice,
  );
}

function identity({ without_identity, uncovered }: Publication): Finding {
  const facts = { withoutIdentity: some(without_identity), uncoveredByColumnList: some(uncovered) };
  if (!without_identity.length && !uncovered.length)
    return good("cache-identity", "Identity", "each published table has a replica identity", facts);
  const tables = [
    ...(without_identity.length ? [`on tables without a replica identity (55000): ${namesOf(without_identity)}`] : []),
    ...(uncovered.length ? [`on tables whose column list lacks part of it (42P10): ${namesOf(uncovered)}`] : []),
  ];
  return change(
    "cache-identity",
    "Identity",
    `each UPDATE and DELETE fails ${tables.join("; ")}`,
    facts,
    ...(without_identity.length
      ? ["Give each table a primary key that is not deferrable, or alter table … replica identity full."]
      : []),
    ...(uncovered.length
      ? ["Let the list have all columns of the replica identity. A table whose replica identity is full takes no list."]
      : []),
  );
}

const some = (names: readonly string[]) => ({ count: names.length, names: names.slice(0, MOST_NAMES) });

/** The first names, and how many more there are. */
function namesOf(names: readonly string[]): string {
  const more = names.length - MOST_NAMES;
  return [...names.slice(0, MOST_NAMES), ...(more > 0 ? [`${more} more`] : [])].join(", ");
}
