/**
 * The demo's data, in its own database. It is created afresh and dropped at the end, so nothing stale is read and your
 * own server (DATABASE_URL) is left as it was. `events` has a column of each kind that looks different in JSON; `users`
 * is the README's table.
 *
 * The Worker connects as a role that may only select from these two tables.
 */
import { randomBytes } from "node:crypto";
import pg from "pg";

export const eventRows = 200_000;

// Every value depends on the row number only, so two runs give the same bytes.
const tables = `
create table users (id int4 primary key, name text not null, meta jsonb not null);

insert into users
select n, 'User ' || n, jsonb_build_object('plan', (array['free', 'team', 'business'])[1 + n % 3], 'seats', n % 50)
from generate_series(1, 1000) n;

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
`;

/**
 * A database on the server of `adminUrl`, whose role may create databases and roles. `load()` creates it with the
 * reader's role. `drop()` removes both, also if `load()` failed halfway.
 */
export function sampleDatabase(adminUrl, name = `pgz_edge_demo_${randomBytes(4).toString("hex")}`) {
  const role = `${name}_reader`;
  const password = randomBytes(12).toString("hex");
  const database = new URL(adminUrl);
  database.pathname = `/${name}`;
  const reader = new URL(database);
  reader.username = role;
  reader.password = password;

  const drop = () =>
    run(adminUrl, [`drop database if exists ${name} with (force)`, `drop role if exists ${role}`]).catch((error) => {
      if (error.code !== "42501") throw error; // a role that may not drop them could not create them either
    });
  const load = async () => {
    await run(adminUrl, [
      `create database ${name} encoding 'UTF8' template template0`,
      // A second line of defence, behind the Worker's read-only transaction and its timeout.
      `create role ${role} login password '${password}' connection limit 20`,
      `alter role ${role} set default_transaction_read_only = on`,
      `alter role ${role} set statement_timeout = '90s'`,
      // Otherwise a scan would start where another visitor's scan is.
      `alter role ${role} set synchronize_seqscans = off`,
    ]);
    await run(database.href, [tables, `grant select on users, events to ${role}`, "analyze"]);
  };
  return { load, drop, role, adminUrl: database.href, readerUrl: reader.href };
}

/** Runs statements as the role of `url`, one round trip each. */
async function run(url, statements) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    for (const statement of statements) await client.query(statement);
  } finally {
    await client.end();
  }
}
