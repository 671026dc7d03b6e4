// No event of an observer and no message of a tracing channel has a password, a URL or a parameter, not even in errors.
// otel.test.ts checks spans and measurements. The server's own message may quote data.
import { tracingChannel } from "node:diagnostics_channel";
import { inspect } from "node:util";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Observer } from "../../js/index.ts";
import { testServers } from "../integration/servers.ts";

const pgz = (await import("../../dist/node.js" as string)) as typeof import("../../js/index.ts");
const { sql } = pgz;
const { host, port, database, user, password } = testServers().servers[0]!;
const url = (secret: string, options = "") =>
  `postgres://${user}:${secret}@${host}:${port}/${database}?sslmode=disable${options}`;
const WRONG = "Zq7wrongpassword";
const SECRET = "Zq7secretvalue";

const METHODS = [
  ...["onConnectStart", "onConnect", "onDisconnect", "onAcquireStart", "onAcquire", "onRelease", "onLeaseLeak"],
  ...["onQueryStart", "onQueryEnd", "onSlowQuery", "onNotice", "onParameterChange", "onRetry"],
];
const KINDS = ["query", "batch", "copy", "connect", "acquire"];
const seen: [name: string, event: unknown][] = [];
const note = (name: string) => (event: unknown) => void seen.push([name, event]);
const observer: Observer = Object.fromEntries(METHODS.map((name) => [name, note(name)]));
const parts = (kind: string) =>
  Object.fromEntries(
    ["start", "end", "asyncStart", "asyncEnd", "error"].map((part) => [part, note(`${kind}:${part}`)]),
  );
const subscribed = KINDS.map((kind) => [tracingChannel(`pgz-edge:${kind}`), parts(kind)] as const);

beforeEach(() => subscribed.forEach(([channel, listeners]) => channel.subscribe(listeners as never)));
afterEach(() => subscribed.forEach(([channel, listeners]) => channel.unsubscribe(listeners as never)));

test("events and messages hold no secret", async () => {
  const pool = pgz.createPool(url(password), { observer, slowQueryThreshold: 1, max: 1, acquireTimeout: 4_000 });
  await pool.query(sql`select ${SECRET}::text as t, pg_sleep(0.01)`);
  await pool.batch([sql`select ${SECRET}::text as t`, "select 2"]);
  await pool.exec("do $$ begin raise notice 'one'; end $$");
  await pool.exec("create temporary table secrets (t text, n int4)");
  const lease = await pool.acquire();
  await lease.copyFromRows("pg_temp.secrets", ["t"], [[SECRET]]).catch(() => {});
  await lease.exec("set application_name to 'other'");
  const failures = [
    pool.query("select 1"),
    lease.query(sql`select ${SECRET}::text, 1 / 0`),
    lease.query(sql`select ${1}::int4 as known`).then(() => lease.query(sql`select ${SECRET}::int4 as known`)),
    lease.query(sql`select ${SECRET}::text`, { signal: AbortSignal.abort() }),
    lease.transaction((tx) => tx.query(sql`select ${SECRET}::text, 1 / 0`)),
  ];
  const settled = await Promise.allSettled(failures);
  expect(settled.map(({ status }) => status)).toEqual(failures.map(() => "rejected"));
  await lease.query("select pg_terminate_backend(pg_backend_pid())").catch(() => {});
  await lease.release();
  await pool.close();
  await expect(pgz.connect(url(WRONG, "&application_name=x"), { observer, user: "app_md5" })).rejects.toThrow();
  await expect(pgz.connect(url(WRONG).replace(`:${port}`, ":1"), { observer })).rejects.toThrow();

  const told = new Set(seen.map(([name]) => name));
  for (const name of METHODS.filter((name) => !["onLeaseLeak", "onRetry"].includes(name))) expect(told).toContain(name);
  for (const kind of KINDS) expect(told).toContain(`${kind}:asyncEnd`);
  const all = inspect(seen, { depth: 12, showHidden: true, maxArrayLength: null, maxStringLength: null });
  for (const secret of [SECRET, WRONG, password, "postgres://"]) expect(all).not.toContain(secret);
});
