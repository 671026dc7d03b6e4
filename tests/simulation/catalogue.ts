// Statements of the server model's catalogue that the programs of the comparison (conformance.ts) do not draw: those of
// calls/, with values. They run in this order, on one connection.
//
// Knows texts and values. Must not know their results: a real server gives them.
import type { Plan } from "../random/plan.ts";

type Entry = readonly [text: string, ...values: readonly unknown[]];

const rows: readonly Entry[] = [
  ["select $1::int4 as n, pg_sleep(0.001) as slept", 7],
  ["select row($1::text, 7::int4) as r", "x, y"],
  ["select current_setting('TimeZone') as zone, nullif(current_setting('app.tenant', true), '') as tenant"],
  ["select set_config($1::text, $2::text, true) as v", "app.tenant", "x"],
  ["select 'x'::int4"],
  ["select $1::text::int4 as n", "x"],
  ["select 10 / $1::int4 as n", 0],
  ["select 10 / (3 - n) as n from generate_series(1, 5) n"],
  ["select n, repeat('x', $1::int4) as pad\n            from generate_series($2::int4, $3::int4) n", 3, 1, 4],
  ['insert into "ledger" ("n") values ($1), ($2) returning "n"', 1, 2],
  ["insert into ledger select unnest($1::int4[]) from pg_sleep($2::float8) returning n", [3, 4], 0.001],
  ["insert into ledger values ($1::int4)\n            returning current_setting('TimeZone') as zone", 5],
  ["select n from ledger where n = any($1::int4[]) order by n", [4, 1, 9]],
  ['select "n" from "ledger" where "ledger"."n" in ($1, $2) order by "ledger"."n"', 3, 2],
  ['select "n" from "ledger" where "ledger"."n" = $1', 3],
  ["select count(*) as n from ledger where n = $1", 3],
  ["select n, current_setting('TimeZone') as zone from ledger"],
  ["update ledger set n = n + 10 where n > 3"],
  ["update ledger set n = $1 where n = $2", 20, 1],
  ["delete from ledger where n = 2"],
  ["select n, $1::text as t from ledger", "x"],
];

/** What a lease may leave behind. */
const left: readonly string[] = [
  "set app.rest = 'left'",
  "set time zone 'Asia/Tokyo'",
  "create temporary table left_1 (n int4)",
  "select pg_advisory_lock(7)",
  "listen rest",
  "declare rest cursor with hold for select 1 as n",
  "prepare rest as select 1 as n",
  "do $$ begin raise notice 'of call 1'; end $$",
];

const counts: readonly string[] = [
  "select count(*)::int4 as v from pg_class where relpersistence = 't'",
  "select count(*)::int4 as v from pg_listening_channels()",
  "select count(*)::int4 as v from pg_cursors where is_holdable",
  "select count(*)::int4 as v from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()",
  "select current_setting('app.rest', true) as v",
];

const cleaned = `set session authorization default; reset role; reset all; close all; unlisten *;
  select pg_catalog.pg_advisory_unlock_all(); discard temp; discard sequences`;

const asked = ([text, ...values]: Entry): Plan => ({
  says: text,
  run: async (caller) => {
    for (let times = 0; times < 2; times++) await caller.query(text, values as never);
  },
});
const simple = (text: string): Plan => ({ says: text, run: async (caller) => void (await caller.simple(text)) });
const copied = (text: string): Plan => ({
  says: text,
  run: async (caller) => void (await new Response((await caller.copyTo(text)) as unknown as BodyInit).text()),
});

/** Each runs as the driver sends it, then in the simple protocol if it has no parameters. */
export const catalogue: readonly Plan[] = [
  ...rows.map(asked),
  ...rows.flatMap(([text, ...values]) => (values.length ? [] : [simple(text)])),
  copied("copy ledger to stdout"),
  copied(
    "copy (select row_to_json(t) from (select n, repeat('x', 3) as pad from generate_series(1, 3) n) t) to stdout",
  ),
  ...left.map(simple),
  ...counts.map((text) => asked([text])),
  simple(cleaned),
  ...counts.map((text) => asked([text])),
];
