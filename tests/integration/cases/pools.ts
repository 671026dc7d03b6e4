// Pools: which caller gets which connection, and how waiting callers end. pool-leftovers.ts has what the next borrower
// finds.
import type { PgzError, Pool } from "../../../js/index.ts";
import type { Cases, Context } from "../context.ts";
import { inTime, until } from "../../support/until.mjs";
import { asleep, codeOf, gone, newMark, newSchema, pidOf, series, terminate, text, unique } from "./helpers.ts";

/** Returns how many sessions of the pool the server has, or those of them of which `also` holds. */
const sessions = async (t: Context, name: string, also = "true") =>
  Number((await t.side(`select count(*) from pg_stat_activity where application_name = '${name}' and ${also}`))[0]![0]);

export const pools: Cases = {
  "calls of a pool run in parallel, on at most max connections": {
    differs: ["sockets"],
    async run(t) {
      const pool = t.pool({ max: 3 });
      const name = unique("pool");
      const many = t.pgz.createPool({ ...t.options, max: 3, applicationName: name });
      // No call ends before three run, however long the third login takes.
      const key = Math.floor(Math.random() * 2 ** 31);
      const gate = await pool.acquire();
      await gate.query(t.pgz.sql`select pg_advisory_lock(${key})`);
      const calls = Array.from({ length: 60 }, async (_, n) => {
        const { rows } = await many.query<{ n: number; pid: number }>(
          t.pgz.sql`select ${n}::int4 as n, pg_backend_pid() as pid, pg_advisory_xact_lock_shared(${key})`,
        );
        return rows[0]!;
      });
      await until(async () => (await sessions(t, name, "wait_event_type = 'Lock'")) === 3);
      await gate.query(t.pgz.sql`select pg_advisory_unlock(${key})`);
      await gate.release();
      const results = await Promise.all(calls);
      results.forEach(({ n }, at) => t.assert.equal(n, at));
      t.assert.equal(new Set(results.map(({ pid }) => pid)).size, 3);
      t.assert.equal(await sessions(t, name), 3);
      const { max, total, acquires, waiting } = many.stats();
      t.assert.deepEqual({ max, total, acquires, waiting }, { max: 3, total: 3, acquires: 60, waiting: 0 });
      await many.close();
      await until(async () => (await sessions(t, name)) === 0);
      // One call opens one connection, and the next call reuses it.
      t.assert.equal(await pidOf(pool), await pidOf(pool));
      t.assert.equal(pool.stats().total, 1);
    },
  },
  "a caller that calls again after a response finds the connection free and does not wait": {
    differs: ["sockets"],
    async run(t) {
      const pool = t.pool();
      const both = (work: () => Promise<unknown>) => Promise.all([work(), work()]);
      await both(() => pool.query("select pg_sleep(0.3)"));
      const before = pool.stats();
      await both(async () => {
        for (let n = 0; n < 20; n++) {
          await pool.query(t.pgz.sql`select ${n}::int4 as n`);
          await pool.exec("select 1");
          await pool.json("select 1 as n");
        }
      });
      const { acquires, emptyAcquires } = pool.stats();
      t.assert.equal(acquires - before.acquires, 120);
      t.assert.equal(emptyAcquires - before.emptyAcquires, 0, "acquires that had to wait");
    },
  },
  async "every call of a client works on a pool too, and gives its connection back"(t) {
    const pool = t.pool({ max: 1 });
    const { sql } = t.pgz;
    const three = `select i from ${series(3, "i")}`;
    await t.assert.rows(pool.query(sql`select ${1}::int4 as n`), [{ n: 1 }]);
    t.assert.equal((await pool.exec(three)).rowCount, 3);
    t.assert.equal(await text(await pool.stream(three)), '{"i":1}\n{"i":2}\n{"i":3}\n');
    t.assert.equal(await (await pool.respond(three, { format: "json" })).text(), '[{"i":1},{"i":2},{"i":3}]');
    t.assert.equal(new TextDecoder().decode(await pool.json("select 1 as n")), '[{"n":1}]');
    t.assert.equal((await pool.batch([three, three])).length, 2);
    t.assert.equal((await pool.simple("select 1; select 2")).length, 2);
    t.assert.equal((await pool.describe(three)).fields.length, 1);
    const seen: unknown[] = [];
    for await (const row of pool.rows(three)) seen.push(row);
    for await (const rows of pool.cursor(three, 2)) seen.push(...rows);
    for await (const row of pool.copyToRows(three)) seen.push(row);
    t.assert.equal(seen.length, 9);
    t.assert.equal(await text(await pool.copyTo(`copy (${three}) to stdout`)), "1\n2\n3\n");
    const byId = await pool.prepare("select $1::int4 as n");
    await t.assert.rows(byId.query([4]), [{ n: 4 }]);
    const scope = pool.scope({ settings: { "app.tenant": 7 } });
    const tenant = "select current_setting('app.tenant', true) as it";
    await t.assert.rows(scope.query(tenant), [{ it: "7" }]);
    t.assert.deepEqual(await scope.transaction(async (tx) => (await tx.query(tenant)).rows), [{ it: "7" }]);
    t.assert.equal((await pool.query<{ it: string }>(tenant)).rows[0]!.it || "", "");
    await pool.transaction(async (tx) => {
      await tx.exec("create temporary table loaded (n int4) on commit drop");
      t.assert.equal((await tx.copyFrom("copy loaded from stdin", "1\n2\n")).rowCount, 2);
      t.assert.equal((await tx.copyFromRows("loaded", ["n"], [[3]])).rowCount, 1);
    });
    await pool.waitIdle();
    const { acquired, waiting, errors } = pool.stats();
    t.assert.deepEqual({ acquired, waiting, errors }, { acquired: 0, waiting: 0, errors: 0 });
  },
  "a call that waits too long reports the state of the pool, and a call that gives up loses nothing": {
    differs: ["timers"],
    async run(t) {
      const pool = t.pool({ max: 1, acquireTimeout: 1_000 });
      const lease = await pool.acquire();
      const error = await t.assert.rejects(pool.query("select 1"), { code: "ACQUIRE_TIMEOUT", retryable: true });
      t.assert.match(error.message, /1 of 1 in use/);
      await t.assert.code(pool.acquire({ signal: AbortSignal.timeout(20) }), "ABORTED");
      await t.assert.rejects(pool.query("select 1", { timeout: 20 }), { code: "QUERY_TIMEOUT", retryable: true });
      t.assert.equal(await codeOf(pool.transaction((tx) => tx.query("select 1"), { timeout: 20 })), "QUERY_TIMEOUT");
      const order: number[] = [];
      const calls = [1, 2, 3].map((n) => pool.exec("select 1").then(() => order.push(n)));
      await lease.release();
      await Promise.all(calls);
      t.assert.deepEqual(order, [1, 2, 3]);
      // An aborted signal also rejects when a connection is free.
      await t.assert.rejects(pool.acquire({ signal: AbortSignal.abort() }), {
        code: "ABORTED",
        hasNoEffect: true,
        retryable: false,
      });
      const { canceledAcquires, acquireTimeouts, waiting, total } = pool.stats();
      const wanted = { canceledAcquires: 4, acquireTimeouts: 1, waiting: 0, total: 1 };
      t.assert.deepEqual({ canceledAcquires, acquireTimeouts, waiting, total }, wanted);
    },
  },
  "an SQL error keeps its connection, and a session that ends is replaced": {
    differs: ["sockets"],
    ownServer: true,
    async run(t) {
      const pool = t.pool({ max: 1 });
      const pid = await pidOf(pool);
      await t.assert.code(pool.query("select 1 / 0"), "22012");
      t.assert.equal(await codeOf(pool.transaction((tx) => tx.query("select nothing"))), "42703");
      t.assert.equal(await pidOf(pool), pid);
      // The session ends once while idle and once while leased.
      await terminate(t, pid);
      const second = await pidOf(pool);
      t.assert(second !== pid, "another session");
      const lease = await pool.acquire();
      await terminate(t, second);
      const error = (await t.assert.rejects(lease.query("select 1"))) as unknown as PgzError;
      t.assert(error.retryable, String(error));
      await lease.release();
      t.assert((await pidOf(pool)) !== second, "another session");
      t.assert.equal(pool.stats().total, 1);
    },
  },
  "a call works after a restart that has ended more idle connections than one call tries": {
    differs: ["sockets"],
    async run(t) {
      const pool = t.pool({ max: 5 });
      const leases = await Promise.all(Array.from({ length: 5 }, () => pool.acquire()));
      const pids = await Promise.all(leases.map(pidOf));
      for (const lease of leases) await lease.release();
      t.assert.equal(pool.stats().idle, 5);
      await t.side(`select pg_terminate_backend(pid, 5000) from unnest('{${pids}}'::int4[]) pid`);
      for (let n = 0; n < 3; n++) t.assert.equal(pids.includes(await pidOf(pool)), false);
    },
  },
  async "the settings of hooks stay, a connection that a hook refuses is replaced, and a hook that throws leaks nothing"(
    t,
  ) {
    const calls: string[] = [];
    let refuses = 0;
    let fails = 1;
    const pool = t.pool({
      max: 1,
      beforeConnect: () => {
        calls.push("beforeConnect");
        return { applicationName: "hooked" };
      },
      afterConnect: async (lease) => {
        calls.push("afterConnect");
        await lease.exec("set app.it = 'set'");
        if (fails-- > 0) throw new Error("not today");
      },
      beforeAcquire: async (lease) => {
        calls.push("beforeAcquire");
        await t.assert.rows(lease.query("show application_name"), [{ application_name: "hooked" }]);
        return refuses-- <= 0;
      },
      afterRelease: () => void calls.push("afterRelease"),
      beforeClose: () => {
        calls.push("beforeClose");
        throw new Error("nobody hears of it");
      },
    });
    await t.assert.rejects(pool.query("select 1"), { message: "not today" });
    t.assert.equal(pool.stats().total, 0);
    const isSet = () => t.assert.rows(pool.query("select current_setting('app.it') as it"), [{ it: "set" }]);
    await isSet();
    await pool.exec("set app.it = 'changed'");
    await isSet();
    const pid = await pidOf(pool);
    refuses = 2;
    t.assert((await pidOf(pool)) !== pid, "another session");
    t.assert.equal(pool.stats().total, 1);
    const all = ["beforeConnect", "afterConnect", "beforeAcquire", "afterRelease", "beforeClose"];
    t.assert.deepEqual([...new Set(calls)], all);
  },
  "lifetime, resize, reset, drain and close end connections, but never calls in flight": {
    differs: ["timers"],
    ownServer: true,
    async run(t) {
      const aging = t.pgz.createPool({ ...t.options, max: 1, maxLifetime: 300 });
      const lease = await aging.acquire();
      const pid = await pidOf(lease);
      await lease.query("select pg_sleep(0.5)");
      t.assert.equal(await pidOf(lease), pid);
      await lease.release();
      t.assert((await pidOf(aging)) !== pid, "another session");
      t.assert(aging.stats().lifetimeCloses >= 1, "counted");
      await aging.close();

      const pool = t.pgz.createPool({ ...t.options, max: 4 });
      await pidOf(pool);
      pool.reset();
      const all = () => Promise.all(Array.from({ length: 12 }, () => pool.exec("select pg_sleep(0.01)")));
      await all();
      t.assert.equal(pool.stats().total, 4);
      pool.resize(2);
      await all();
      await until(() => pool.stats().total === 2);
      const running = pool.query<{ n: number }>("select 1 as n, pg_sleep(0.1)");
      const waiting = Array.from({ length: 5 }, () => pool.exec("select 1"));
      const drained = pool.drain();
      await t.assert.code(pool.query("select 1"), "POOL_CLOSED");
      await Promise.all([running, ...waiting]);
      await drained;
      await pool.close();
      t.assert.equal(pool.stats().state, "closed");
      t.assert.equal(pool.stats().total, 0);
    },
  },
  "close() gives running calls their time, then ends them on the server too": {
    differs: ["timers", "sockets"],
    async run(t) {
      const pool = t.pgz.createPool({ ...t.options, max: 2 });
      const mark = newMark();
      const endless = t.assert.code(pool.query(`select /* ${mark} */ pg_sleep(60)`), "POOL_CLOSED");
      const lease = await pool.acquire();
      const waiting = t.assert.code(pool.query("select 1"), "POOL_CLOSED");
      await asleep(t, mark);
      await inTime(pool.close({ timeout: 100 }));
      await Promise.all([endless, waiting]);
      await t.assert.rejects(lease.query("select 1"));
      await lease.release();
      await gone(t, mark);
    },
  },
  "close() ends calls beside a stream that is being read, and still gives queued streams a connection": {
    differs: ["streams"],
    async run(t) {
      const pool = t.pgz.createPool({ ...t.options, max: 1 });
      const wide = "select repeat('x', 100000) as x from generate_series(1, 200)";
      const first = await pool.stream(wide);
      const second = pool.stream("select 'second' as a");
      const refused = t.assert.code(pool.query("select 1"), "POOL_CLOSED");
      await inTime(pool.close()); // it does not wait for readers
      await refused;
      t.assert.equal(pool.stats().total, 1);
      await t.assert.code(pool.stream("select 1"), "POOL_CLOSED");
      t.assert.equal((await new Response(first).text()).length, 200 * 100_009);
      t.assert.equal(await new Response(await second).text(), '{"a":"second"}\n');
      await until(() => pool.stats().total === 0);

      const both = t.pgz.createPool({ ...t.options, max: 2 });
      const mark = newMark();
      const kept = await both.stream(wide);
      const endless = t.assert.code(both.query(`select /* ${mark} */ pg_sleep(60)`), "POOL_CLOSED");
      await asleep(t, mark);
      await both.close({ timeout: 100 });
      await endless;
      t.assert.equal((await new Response(kept).text()).length, 200 * 100_009);
    },
  },
  "a lease's stream continues after release(), and ends with destroy or `until`": {
    differs: ["streams"],
    async run(t) {
      await using pool = t.pgz.createPool({ ...t.options, max: 1 });
      const wide = "select repeat('x', 100000) as x from generate_series(1, 200)";
      const lease = await pool.acquire();
      const stream = await lease.stream(wide);
      await lease.release();
      await t.assert.code(lease.query("select 1"), "LEASE_RELEASED");
      const next = pool.query<{ a: number }>("select 1 as a");
      t.assert.equal((await new Response(stream).text()).length, 200 * 100_009);
      await t.assert.rows(next, [{ a: 1 }]);
      t.assert.equal(pool.stats().connects, 1);

      const doomed = await pool.acquire();
      const broken = await doomed.stream(wide);
      await doomed.release({ destroy: true });
      await t.assert.code(new Response(broken).text(), "LEASE_RELEASED");

      const abort = new AbortController();
      const bound = await pool.acquire({ until: abort.signal });
      const left = await bound.stream(wide);
      await bound.release();
      abort.abort();
      await t.assert.code(new Response(left).text(), "LEASE_RELEASED");
      await t.assert.rows(pool.query("select 1 as a"), [{ a: 1 }]);
    },
  },
  "a pool retries a server without free connections, with pauses, until acquireTimeout": {
    differs: ["timers"],
    ownServer: true,
    async run(t) {
      const role = unique("crowded");
      await t.side(`create role ${role} login password 'crowd' connection limit 1`);
      const attempts: (string | undefined)[] = [];
      const pool = t.pgz.createPool({
        ...t.options,
        user: role,
        password: "crowd",
        max: 4,
        acquireTimeout: 0,
        observer: { onConnect: ({ error }) => void attempts.push(error?.code) },
      });
      // One connection is enough for all calls, one after the other.
      const all = await Promise.all(Array.from({ length: 40 }, () => pool.exec("select pg_sleep(0.01)")));
      t.assert.equal(all.length, 40);
      t.assert.equal(attempts.filter((code) => code === undefined).length, 1);
      t.assert(attempts.length < 20, `${attempts.length} connects in half a second`);
      await pool.close();
      await t.side(`drop role ${role}`);
    },
  },
  "no statement opens a connection beyond max, whatever its rows are made of": {
    ownServer: true,
    async run(t) {
      const [client, s] = await newSchema(t);
      const role = unique("counted");
      await t.side(`create role ${role} login password 'counted'; create extension if not exists citext schema public`);
      // The rows are half a megabyte on the wire: composites and citext.
      await client.simple(`create table ${s}.wide (id int4, name text);
          insert into ${s}.wide select n, repeat('x', 100) from generate_series(1, 4000) n;
          create table ${s}.log (id int8 generated always as identity);
          grant usage on schema ${s} to ${role}; grant select, insert on all tables in schema ${s} to ${role}`);
      const run = async (max: number, calls: (pool: Pool) => Promise<unknown>[]) => {
        await t.side(`alter role ${role} connection limit ${max}`);
        const own = { user: role, password: "counted", max, applicationName: role, acquireTimeout: 0 };
        const pool = t.pgz.createPool({ ...t.options, ...own });
        let most = 0;
        let isOver = false;
        const watched = (async () => {
          while (!isOver) most = Math.max(most, await sessions(t, role), pool.stats().total);
        })();
        try {
          await Promise.all(calls(pool));
        } finally {
          isOver = true;
          await watched;
          await pool.close();
        }
        t.assert(most > 0 && most <= max, `${most} connections of ${max}`);
        await until(async () => (await sessions(t, role)) === 0);
      };
      const wide = () => `select wide as w, name::public.citext as n from ${s}.wide /* ${newMark()} */`;
      const ways = (calls: Pool): (() => Promise<unknown>)[] => [
        async () => t.assert.equal((await calls.query(wide())).rows.length, 4_000),
        async () => t.assert((await text(await calls.stream(wide()))).length > 400_000),
        async () => t.assert((await (await calls.respond(wide())).text()).length > 400_000),
        async () => t.assert((await calls.json(wide())).length > 400_000),
        async () => {
          for await (const rows of calls.rows(wide()).batches(1_000)) t.assert.equal(rows.length, 1_000);
        },
        async () => {
          for await (const rows of calls.cursor(wide(), 2_000)) t.assert.equal(rows.length, 2_000);
        },
        async () => t.assert.equal((await calls.batch([wide(), wide()]))[1]!.rows!.length, 4_000),
        async () => calls.transaction(async (tx) => void (await tx.query(wide()), await tx.query(wide()))),
        async () => calls.scope({ settings: { "app.tenant": 7 } }).query(wide()),
        async () => calls.query(`with l as (insert into ${s}.log default values) ${wide()}`),
      ];
      const all = (count: number) => (pool: Pool) => Array.from({ length: count }, (_, at) => ways(pool)[at % 10]!());
      try {
        await run(4, all(200));
        await run(1, all(50));
        await t.assert.rows(client.query(`select count(*)::int4 as n from ${s}.log`), [{ n: 25 }]);
      } finally {
        await client.simple(
          `revoke all on all tables in schema ${s} from ${role}; revoke all on schema ${s} from ${role}`,
        );
        await t.side(`drop role ${role}`);
      }
    },
  },
};
