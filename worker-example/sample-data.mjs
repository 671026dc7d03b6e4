/**
 * The demo's data, in a database of its own. The database is created anew and dropped at the end, so no stale data is
 * read and your own server (DATABASE_URL) ends up unchanged. schema.sql and changes.sql make the Worker's tables and
 * roles, and cache.sql of the driver makes the cache's event triggers. This file makes `events`, which has a column of
 * each kind that looks different in JSON, and the rows.
 */
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import pg from "pg";

export const eventRows = 200_000;

/** Tenant -> how many orders it has. */
export const orderRows = { acme: 20_000, globex: 300 };

const schema = readFileSync(new URL("schema.sql", import.meta.url), "utf8");
const ofChanges = readFileSync(new URL("changes.sql", import.meta.url), "utf8");
const ofCache = () => readFileSync(new URL("../dist/cache.sql", import.meta.url), "utf8");

/**
 * Whether changes.sql and cache.sql can run. `drop` below waits for a backend to end, which servers before 14 cannot
 * do.
 */
const HAS_CHANGES = `select current_setting('wal_level') = 'logical' and rolsuper
  and current_setting('server_version_num')::int4 >= 140000 as has from pg_roles where rolname = current_user`;

// Every value depends only on the row number, so two runs give the same bytes.
const rows = `
insert into users
select n, 'User ' || n, jsonb_build_object('plan', (array['free', 'team', 'business'])[1 + n % 3], 'seats', n % 50)
from generate_series(1, 1000) n;

alter table orders disable trigger user; -- no session listens yet
insert into orders (tenant, reference, customer, status, total, placed)
select
  tenant,
  upper(left(tenant, 1)) || '-' || lpad(n::text, 6, '0'),
  (array['Ada Lovelace', 'Grace Hopper', 'Zoë Größe', '日本 太郎', 'O''Brien, "Pat"'])[1 + n % 5],
  (array['open', 'paid', 'shipped'])[1 + n % 3],
  (n * 37 % 100003)::numeric / 100,
  timestamptz '2026-01-01 00:00:00+00' + n * interval '73.5 seconds'
from (values ${Object.entries(orderRows)
  .map(([tenant, count]) => `('${tenant}', ${count})`)
  .join(", ")}) t (tenant, most), generate_series(1, most) n;
alter table orders enable trigger user;

create table events (
  id       int8 not null,
  user_id  int4 not null,
  kind     text not null,
  at       timestamptz not null,
  day      date not null,
  amount   numeric(12, 2),
  ratio    float8 not null,
  active   bool not null,
  session  uuid not null,
  scores   int4[] not null,
  payload  jsonb not null,
  note     text
);

insert into events
select
  9000000000 + n,
  1 + n % 1000,
  (array['view', 'click', 'search', 'purchase', 'sign "in"', 'größe', '日本語'])[1 + n % 7],
  timestamptz '2026-01-01 00:00:00.000123+00' + n * interval '73.5 seconds',
  date '2026-01-01' + n / 1000,
  case when n % 10 > 0 then (n * 37 % 1000003)::numeric / 100 end,
  sqrt(n),
  n % 3 = 0,
  md5(n::text)::uuid,
  array[n % 10, n % 100, case when n % 4 > 0 then n % 1000 end],
  jsonb_build_object('path', '/item/' || n % 5000, 'ms', n % 997, 'tags', jsonb_build_array('a' || n % 9, n % 2 = 0)),
  case when n % 5 = 0 then E'line one\\nline\\ttwo, \\\\ and "quotes"' end
from generate_series(1, ${eventRows}) n;
grant select on events to :"reader";
`;

/**
 * A database on the server of `adminUrl`, whose role must be allowed to create databases and roles. `load()` creates
 * the database and the Worker's roles. `drop()` removes them all, even if `load()` failed halfway. `tokens` has one
 * token for each tenant.
 */
export function sampleDatabase(adminUrl, name = `pgz_edge_demo_${randomBytes(4).toString("hex")}`) {
  const roles = { reader: `${name}_reader`, app: `${name}_app`, object: `${name}_object`, feed: `${name}_feed` };
  const password = randomBytes(12).toString("hex");
  const tokens = Object.fromEntries(Object.keys(orderRows).map((tenant) => [tenant, randomBytes(32).toString("hex")]));
  const database = new URL(adminUrl);
  database.pathname = `/${name}`;
  const urlOf = (role) => {
    const url = new URL(database);
    [url.username, url.password] = [role, password];
    return url.href;
  };
  /** Replaces variables as psql does. */
  const filled = (sql) => sql.replaceAll(/:"(\w+)"/g, (_, variable) => `"${{ ...roles, DBNAME: name }[variable]}"`);

  const drop = () =>
    run(adminUrl, [
      // A database cannot be dropped while its slot is being read. An inactive slot is dropped with it.
      ...(sample.feedUrl
        ? [
            `select pg_terminate_backend(active_pid, 5000) from pg_replication_slots
        where database = '${name}' and active`,
          ]
        : []),
      `drop database if exists ${name} with (force)`,
      ...Object.values(roles).map((role) => `drop role if exists ${role}`),
    ]).catch((error) => {
      if (error.code !== "42501") throw error; // a role that may not drop these could not create them
    });
  const load = async () => {
    await run(adminUrl, [`create database ${name} encoding 'UTF8' template template0`]);
    const [{ has }] = await run(adminUrl, [HAS_CHANGES]);
    if (has) sample.feedUrl = urlOf(roles.feed);
    await run(database.href, [
      filled(schema),
      ...(has ? [filled(ofChanges), ofCache()] : []),
      ...Object.values(roles)
        .filter((role) => has || role !== roles.feed)
        .map((role) => `alter role ${role} password '${password}'`),
      // Otherwise a scan may start where another session's scan currently is.
      `alter role ${roles.reader} set synchronize_seqscans = off`,
      filled(rows),
      "analyze",
    ]);
  };
  const sample = {
    load,
    drop,
    tokens,
    role: roles.reader,
    appRole: roles.app,
    objectRole: roles.object,
    adminUrl: database.href,
    readerUrl: urlOf(roles.reader),
    appUrl: urlOf(roles.app),
    objectUrl: urlOf(roles.object),
    /** The URL of the feed's role. Set by `load()`, because not every server supports the feed. */
    feedUrl: undefined,
    /** The feed's replication slot. */
    feedSlot: roles.feed,
  };
  return sample;
}

/** Runs statements as the role of `url`, one round trip each. Returns the last statement's rows. */
async function run(url, statements) {
  const client = new pg.Client({ connectionString: url });
  // Ctrl-C may end the server between two statements. The next one rejects, so this event must not end the process.
  client.on("error", () => {});
  await client.connect();
  try {
    let last;
    for (const statement of statements) last = await client.query(statement);
    return last.rows;
  } finally {
    await client.end();
  }
}
