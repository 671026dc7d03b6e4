// A pool over a primary and its standby, with several hosts and target_session_attrs. The primary dies in the middle of
// writes, or stays up and refuses writes, and the standby is promoted, as Patroni does it.
import { afterEach, expect, test } from "vitest";
import { logFile } from "../servers/index.mjs";
import { startReplicated, type ReplicatedServers } from "../servers/replica.mjs";
import { pause, until } from "../support/until.mjs";
import { driver } from "./pooled.ts";

let pair: ReplicatedServers | undefined;
afterEach(() => pair?.stop());

function poolOver({ primary, standby }: ReplicatedServers, max: number) {
  const { database, user, password } = primary;
  return driver.createPool({
    host: `${standby.host},${primary.host}`,
    port: `${standby.port},${primary.port}`,
    database,
    user,
    password,
    sslmode: "disable",
    targetSessionAttrs: "read-write",
    connectTimeout: 2_000,
    timeout: 5_000,
    max,
  });
}

// COMMIT is synchronous, so every acknowledged write is on the standby.
test("after a failover each acknowledged write of a pool is stored exactly once", async () => {
  pair = await startReplicated({ log: logFile("failover") });
  const pool = poolOver(pair, 5);
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
  await until(() => back > 0);
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

test("a pool leaves a primary that has stopped taking writes", async () => {
  pair = await startReplicated({ log: logFile("switchover"), settings: { synchronous_commit: "local" } });
  const pool = poolOver(pair, 3);
  await pool.exec("create table ledger (id int8 not null)");
  const pids = async () => {
    const slow = () => pool.query<{ pid: number }>("select pg_backend_pid() as pid, pg_sleep(0.1)");
    return (await Promise.all([slow(), slow(), slow()])).map(({ rows }) => rows[0]!.pid);
  };
  const before = await pids();
  await using held = await pool.acquire();
  await pair.retire();
  await until(async () => (await settingOf(held)) === "on");
  await expect(pool.exec("insert into ledger values (1)")).rejects.toMatchObject({ code: "25006" });
  await until(() => pool.stats().idle === 0);
  // No server takes writes now, so a new call waits.
  const waiting = pool.exec("insert into ledger values (2)");
  await pause(300);
  expect(pool.stats()).toMatchObject({ waiting: 1, idle: 0, acquired: 1 });
  await pair.promote();
  await waiting;
  // A lease that began earlier continues, and its connection ends when it is released.
  expect(await settingOf(held)).toBe("on");
  await held.release();
  const now = await pids();
  expect(now.filter((pid) => before.includes(pid))).toEqual([]);
  const { rows } = await pool.query("select id, pg_is_in_recovery() as r from ledger");
  expect(rows).toEqual([{ id: "2", r: false }]);
  // A transaction with `readOnly` asked for the refusal itself, so it ends no connection.
  await expect(
    pool.transaction((tx) => tx.exec("insert into ledger values (3)"), { readOnly: true }),
  ).rejects.toMatchObject({ code: "25006" });
  const { connects } = pool.stats();
  await pids();
  expect(pool.stats()).toMatchObject({ connects, total: 3 });
  await pool.close();
});

async function settingOf(calls: Pick<InstanceType<typeof driver.Pool>, "query">): Promise<string> {
  const { rows } = await calls.query<{ on: string }>("select current_setting('default_transaction_read_only') as on");
  return rows[0]!.on;
}
