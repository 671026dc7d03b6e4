// PgBouncer is reloaded, paused, killed and restarted while a pool runs load through it. Every call settles. What was
// acknowledged is stored once, and what is reported as safe to retry is not stored. After each event everything works
// as before. Where the pooler itself loses nothing (RELOAD, PAUSE, RECONNECT, server connections that live a second),
// no call fails.
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { logFile, type ServerDescriptor } from "../servers/index.mjs";
import { startPgBouncer } from "../servers/pgbouncer.mjs";
import { pause } from "../support/until.mjs";
import { direct, driver, plain } from "./pooled.ts";

type Pooler = Awaited<ReturnType<typeof startPgBouncer>>;
const LANES = 12;

describe.each([
  ["1.18", false],
  ["1.24", true],
])("PgBouncer %s", (version, newer) => {
  const ledger = `ledger_${version.replace(".", "_")}`;
  let pooler: Pooler;
  const start = (port?: number) =>
    startPgBouncer({
      server: direct as ServerDescriptor,
      log: logFile(`pgbouncer-restarts-${version}`),
      ...(port !== undefined && { port }),
      newer,
      // After KILL, PgBouncer makes every client wait for server_login_retry, 15 s by default.
      settings: [
        "server_lifetime = 1",
        "server_login_retry = 1",
        `admin_users = ${new URL(direct.superuserUrl).username}`,
      ].join("\n"),
    });
  let side: pg.Client;

  beforeAll(async () => {
    side = new pg.Client({ connectionString: direct.superuserUrl });
    await side.connect();
    await side.query(
      `drop table if exists ${ledger}; create table ${ledger} (id int); grant all on ${ledger} to public`,
    );
    pooler = await start();
  });
  afterAll(async () => {
    await pooler?.stop();
    await side.query(`drop table ${ledger}`);
    await side.end();
  });

  /** Runs commands on the pooler's own console. */
  async function command(...commands: string[]) {
    const url = new URL(pooler.descriptor.superuserUrl);
    url.pathname = "/pgbouncer";
    const admin = new pg.Client({ connectionString: url.href });
    admin.on("error", () => {}); // KILL ends this connection too
    await admin.connect();
    for (const text of commands) await (/^\d+$/.test(text) ? pause(Number(text)) : admin.query(text));
    await admin.end();
  }

  let next = 0;

  /** Runs load for some time with `event` in the middle. Returns what was acknowledged, and how calls failed. */
  async function underLoad(event: () => Promise<void>) {
    const { createPool, sql, PgzError } = driver;
    const pool = createPool({ ...plain(pooler.descriptor), max: 8, min: 2, acquireTimeout: 10_000 });
    const insert = (id: number) => sql`insert into ${sql.identifier(ledger)} values (${id})`;
    const acts = [
      (id: number) => pool.exec(insert(id)),
      (id: number) => pool.transaction((tx) => tx.exec(insert(id))),
      async (id: number) => {
        const [, echo] = await pool.batch<[object, { n: number }]>([insert(id), sql`select ${id}::int4 as n`]);
        expect(echo!.rows).toEqual([{ n: id }]);
      },
      async (id: number) => {
        const { rows } = await pool.query<{ n: number }>(sql`select ${id}::int4 as n, 'restarts' as t`);
        expect(rows[0]!.n).toBe(id);
        await pool.exec(insert(id));
      },
    ];
    const stored: number[] = [];
    const unstored: number[] = [];
    const codes: Record<string, number> = {};
    const messages = new Set<string>();
    let longest = 0;
    let isOver = false;
    const lane = async () => {
      while (!isOver) {
        const id = next++;
        const from = performance.now();
        try {
          await acts[id % acts.length]!(id);
          stored.push(id);
        } catch (error) {
          if (!(error instanceof PgzError)) throw error;
          codes[error.code] = (codes[error.code] ?? 0) + 1;
          messages.add(error.message);
          if (error.retryable) unstored.push(id);
        }
        longest = Math.max(longest, performance.now() - from);
      }
    };
    const lanes = Promise.all(Array.from({ length: LANES }, lane));
    await pause(400);
    await event();
    await pause(1_200);
    isOver = true;
    await lanes;
    for (let n = 0; n < 20; n++) await pool.query(sql`select ${n}::int4 as n`);
    await pool.waitIdle();
    expect(pool.stats()).toMatchObject({ acquired: 0, waiting: 0, connecting: 0 });
    await pool.close();

    const { rows } = await side.query<{ id: number; count: string }>(
      `select id, count(*) from ${ledger} group by id order by id`,
    );
    const counts = new Map(rows.map(({ id, count }) => [id, Number(count)]));
    expect(
      stored.filter((id) => counts.get(id) !== 1),
      "acknowledged, and not stored once",
    ).toEqual([]);
    expect(
      unstored.filter((id) => counts.has(id)),
      "safe to run again, and stored",
    ).toEqual([]);
    expect(
      [...counts].filter(([, count]) => count > 1),
      "stored twice",
    ).toEqual([]);
    const failed = Object.values(codes).reduce((sum, count) => sum + count, 0);
    console.log(
      `[poolers] ${version}: ${stored.length} acknowledged, ${failed} failed ${JSON.stringify(codes)} (${[...messages].join("; ")}); ` +
        `longest ${Math.round(longest)} ms`,
    );
    expect(stored.length).toBeGreaterThan(LANES);
    return { codes, messages };
  }

  test("RELOAD, RECONNECT, PAUSE and RESUME fail no call that has a connection", async () => {
    const { messages } = await underLoad(() => command("RELOAD", "200", "RECONNECT", "200", "PAUSE", "500", "RESUME"));
    // When PgBouncer itself ends a server connection during that connection's login, it counts a failed login, and lets
    // no other client in for server_login_retry. Calls that wait for a connection of the pool get this error.
    const why = newer ? "cached error: connect string changed" : "try again later";
    const known = `server login has been failing, ${why} (server_login_retry)`;
    expect([...messages].filter((message) => message !== known)).toEqual([]);
  });

  test("KILL and RESUME lose the running calls, and the other calls wait", async () => {
    const { codes } = await underLoad(() => command("KILL app", "500", "RESUME app"));
    expect(Object.keys(codes).filter((code) => !/^(CONNECTION_LOST|08P01|57P0[1-3])$/.test(code))).toEqual([]);
  });

  test("a restart loses the running calls, and the other calls wait until the pooler is back", async () => {
    const { codes } = await underLoad(async () => {
      // SHUTDOWN is immediate. SIGTERM waits for the clients, from 1.23 on.
      await command("SHUTDOWN").catch(() => {});
      await pooler.stop();
      await pause(500);
      pooler = await start(pooler.descriptor.port);
    });
    expect(Object.keys(codes).filter((code) => !/^(CONNECTION_LOST|08P01|57P0[1-3])$/.test(code))).toEqual([]);
  });
});
