// A pool over a primary and its standby, with several hosts and target_session_attrs: the primary dies in the middle of
// writes and the standby is promoted, as Patroni does it. The commits are synchronous, so that what was acknowledged is
// on the standby.
import { afterAll, beforeAll, expect, test } from "vitest";
import { logFile } from "../servers/index.mjs";
import { startReplicated, type ReplicatedServers } from "../servers/replica.mjs";
import { driver } from "./pooled.ts";

let pair: ReplicatedServers;
beforeAll(async () => {
  pair = await startReplicated({ log: logFile("failover") });
}, 60_000);
afterAll(() => pair?.stop());

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

test("writes of a pool survive a failover: what was acknowledged is there once", { timeout: 60_000 }, async () => {
  const { primary, standby } = pair;
  const { database, user, password } = primary;
  const pool = driver.createPool({
    host: `${standby.host},${primary.host}`,
    port: `${standby.port},${primary.port}`,
    database,
    user,
    password,
    sslmode: "disable",
    targetSessionAttrs: "read-write",
    connectTimeout: 2_000,
    timeout: 5_000,
    max: 5,
  });
  await pool.exec("create table ledger (id int8 not null)");
  const acknowledged: number[] = [];
  const unknown: number[] = [];
  const codes = new Map<string, number>();
  let isOver = false;
  let promoted = 0;
  let back = 0;
  const writer = async (first: number) => {
    for (let id = first; !isOver; id += 8) {
      try {
        await pool.exec(driver.sql`insert into ledger values (${id})`);
        acknowledged.push(id);
        if (promoted) back ||= performance.now();
      } catch (error) {
        expect(error).toBeInstanceOf(driver.PgzError);
        const { code } = error as InstanceType<typeof driver.PgzError>;
        codes.set(code, (codes.get(code) ?? 0) + 1);
        unknown.push(id);
      }
    }
  };
  const writers = Array.from({ length: 8 }, (_, first) => writer(first));
  await pause(500);
  const before = acknowledged.length;
  await pair.crash();
  await pair.promote();
  promoted = performance.now();
  for (let waited = 0; !back && waited < 20_000; waited += 50) await pause(50);
  await pause(500);
  isOver = true;
  await Promise.all(writers);
  const { rows } = await pool.query<{ id: string; n: number }>(
    "select id, count(*)::int4 as n from ledger group by id",
  );
  const stored = new Map(rows.map(({ id, n }) => [Number(id), n]));
  console.log(
    `[failover] ${acknowledged.length} writes acknowledged, ${before} of them before; ${unknown.length} rejected ` +
      `(${[...codes].map(([code, count]) => `${count} ${code}`).join(", ")}); the first write ` +
      `${Math.round(back - promoted)} ms behind the promotion`,
  );
  expect(before).toBeGreaterThan(0);
  expect(acknowledged.length).toBeGreaterThan(before);
  expect(acknowledged.filter((id) => stored.get(id) !== 1)).toEqual([]);
  expect(unknown.filter((id) => (stored.get(id) ?? 0) > 1)).toEqual([]);
  expect(pool.stats()).toMatchObject({ waiting: 0 });
  await pool.close();
});
