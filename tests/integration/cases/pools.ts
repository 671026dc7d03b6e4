// Pools: which caller gets which connection, what the next borrower finds, and how waiting callers end.
import type { Lease, Pool, PoolOptions, PgzError } from "../../../js/index.ts";
import type { Case, Context } from "../context.ts";
import { inTime, pause, until } from "../../support/until.mjs";
import { gone, newMark, series, started, terminate, text, withSchema } from "./helpers.ts";

async function withPool<T>(t: Context, work: (pool: Pool) => Promise<T>, options: PoolOptions = {}): Promise<T> {
  const pool = t.pgz.createPool({ ...t.options, ...options });
  try {
    return await work(pool);
  } finally {
    await pool.close({ timeout: 0 });
    t.assert.equal(pool.stats().total, 0, "connections behind close()");
  }
}

const pidOf = async (calls: Pick<Pool, "query">) =>
  (await calls.query<{ pid: number }>("select pg_backend_pid() as pid")).rows[0]!.pid;

/** Returns how many sessions of the pool the server has, or those of them of which `also` holds. */
const sessions = async (t: Context, name: string, also = "true") =>
  Number((await t.side(`select count(*) from pg_stat_activity where application_name = '${name}' and ${also}`))[0]![0]);

/** What a borrower leaves in the session, and how the next borrower would see it. */
const LEFT: [how: string, seen: string, clean: string][] = [
  ["set timezone = 'Asia/Tokyo'", "show timezone", "UTC"],
  ["set search_path = pg_temp", "select current_setting('search_path') = 'pg_temp'", "f"],
  ["select set_config('app.tenant', '7', false)", "select coalesce(current_setting('app.tenant', true), '')", ""],
  ["set role pg_monitor", "select current_user = 'pg_monitor'", "f"],
  ["create temporary table left_over (n int)", "select to_regclass('left_over') is null", "t"],
  ["select 1 as n into temporary left_over", "select to_regclass('left_over') is null", "t"],
  ["select pg_advisory_lock(271)", "select count(*) from pg_locks where locktype = 'advisory' and objid = 271", "0"],
  ["listen left_over", "select count(*) from pg_listening_channels()", "0"],
  // The same inside or after comments, semicolons in comments, escapes and other statements.
  ["/* report; for ops */ set role pg_monitor", "select current_user = 'pg_monitor'", "f"],
  ["-- a; b\nset app.tenant = '7'", "select coalesce(current_setting('app.tenant', true), '')", ""],
  ["/* /* */ select */ set app.tenant = '7'", "select coalesce(current_setting('app.tenant', true), '')", ""],
  ["/*;*/listen left_over", "select count(*) from pg_listening_channels()", "0"],
  ["select U&\"set\\005fconfig\"('timezone', 'Asia/Tokyo', false)", "show timezone", "UTC"],
  ["update pg_settings set setting = 'Asia/Tokyo' where name = 'TimeZone'", "show timezone", "UTC"],
  ["explain analyze create temp table left_over as select 1", "select to_regclass('left_over') is null", "t"],
  ["select 1 as n into pg_temp.left_over", "select to_regclass('left_over') is null", "t"],
  ["select 1 as n into/**/temp left_over", "select to_regclass('left_over') is null", "t"],
  [
    "declare left_over cursor with/**/hold for select 1",
    "select count(*) from pg_cursors where name = 'left_over'",
    "0",
  ],
  ["prepare left_over as select 1", "select count(*) from pg_prepared_statements where name = 'left_over'", "0"],
  [
    "do $$ begin perform set_config('app.tenant', '8', false); end $$",
    "select current_setting('app.tenant', true)",
    "",
  ],
];

async function inTurn<T>(items: readonly T[], work: (item: T) => Promise<unknown>): Promise<void> {
  for (const item of items) await work(item);
}

export const pools: Case[] = [
  {
    name: "calls of a pool run in parallel, on at most max connections",
    differs: ["sockets"],
    run: (t) =>
      withPool(
        t,
        async (pool) => {
          const name = `pool_${t.runtime}_${Math.random().toString(36).slice(2)}`;
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
        { max: 3 },
      ),
  },
  {
    name: "a caller that calls again after a response finds the connection free and does not wait",
    run: (t) =>
      withPool(t, async (pool) => {
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
      }),
  },
  {
    name: "every call of a client works on a pool too, and gives its connection back",
    run: (t) =>
      withPool(
        t,
        async (pool) => {
          const { sql } = t.pgz;
          const three = `select i from ${series(3, "i")}`;
          t.assert.deepEqual((await pool.query(sql`select ${1}::int4 as n`)).rows, [{ n: 1 }]);
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
          t.assert.deepEqual((await byId.query([4])).rows, [{ n: 4 }]);
          const scope = pool.scope({ settings: { "app.tenant": 7 } });
          const tenant = "select current_setting('app.tenant', true) as it";
          t.assert.deepEqual((await scope.query(tenant)).rows, [{ it: "7" }]);
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
        { max: 1, acquireTimeout: 2_000 },
      ),
  },
  {
    name: "nothing that a borrower sets reaches the next one",
    ownServer: true,
    run: (t) =>
      withPool(
        t,
        async (pool) => {
          await t.side(`grant pg_monitor to ${t.options.user}`);
          for (const [how, seen, clean] of LEFT) {
            const ways: ((text: string) => Promise<unknown>)[] = [
              (text) => pool.exec(text),
              (text) => pool.batch(["select 1", text]),
              (text) => pool.transaction((tx) => tx.exec(text)),
              (text) => pool.simple(`select 1; ${text}`),
              async (text) => {
                const lease = await pool.acquire();
                await lease.exec(text);
                await lease.release();
              },
            ];
            for (const way of ways) {
              await way(how);
              const [row] = (await pool.query<[unknown]>(seen, { rowMode: "array" })).rows;
              const value = row![0];
              t.assert.equal(value === true ? "t" : value === false ? "f" : String(value ?? ""), clean, how);
            }
          }
        },
        { max: 1, startup: { timezone: "UTC" } },
      ),
  },
  {
    name: "a search_path with pg_temp leaves no table, whether a scope, the startup or a hook sets it",
    run: (t) => {
      const paths = ["pg_temp", "public_no, PG_Temp", '"$user_no", "pg_temp"'];
      const made = async (calls: Pick<Pool, "exec">) => void (await calls.exec("create table left_over as select 1"));
      const ways: [how: string, options: PoolOptions, leave: (pool: Pool) => Promise<void>][] = [
        ...paths.map((path): [string, PoolOptions, (pool: Pool) => Promise<void>] => [
          `scope ${path}`,
          {},
          (pool) => made(pool.scope({ settings: { Search_Path: path } })),
        ]),
        [
          "batch of a scope",
          {},
          async (pool) =>
            void (await pool.scope({ settings: { search_path: "pg_temp" } }).batch(["create table left_over ()"])),
        ],
        [
          "transaction of a scope",
          {},
          (pool) => pool.scope({ settings: { search_path: "pg_temp" } }).transaction((tx) => made(tx)),
        ],
        [
          "scope of a lease",
          {},
          async (pool) => {
            await using lease = await pool.acquire();
            await made(lease.scope({ settings: { search_path: "pg_temp" } }));
          },
        ],
        ["startup", { startup: { search_path: "pg_temp" } }, made],
        ["options", { options: "-c search_path=pg_temp" }, made],
        [
          "afterConnect",
          { afterConnect: (lease: Lease) => lease.exec("set search_path = 'pg_temp'").catch(() => {}) },
          made,
        ],
      ];
      return inTurn(ways, ([how, options, leave]) =>
        withPool(
          t,
          async (pool) => {
            await leave(pool);
            const seen = await pool.query("select to_regclass('left_over')::text as it");
            t.assert.deepEqual(seen.rows, [{ it: null }], how);
            t.assert.equal(pool.stats().total, 1, how);
          },
          { max: 1, ...options },
        ),
      );
    },
  },
  {
    name: "a scope on pg_temp shares no connection, so that no other call finds its table",
    run: (t) =>
      withPool(
        t,
        async (pool) => {
          const scope = pool.scope({ settings: { search_path: "pg_temp" } });
          const table = () => pool.query("select to_regclass('left_over')::text as it");
          const [, , ...others] = await Promise.all([
            pool.query("select 1 from pg_sleep(0.1)"),
            scope.exec("create table left_over ()"),
            ...[1, 2, 3].map(table),
          ]);
          t.assert.deepEqual(
            others.map(({ rows }) => rows[0]!["it"]),
            [null, null, null],
          );
        },
        { max: 1, pipelining: 8 },
      ),
  },
  {
    name: "a single call of a pool that leaves a transaction open, or ends none, rejects",
    run: (t) =>
      withPool(
        t,
        async (pool) => {
          const table = `left_open_${t.runtime}_${Math.random().toString(36).slice(2)}`;
          await pool.exec(`create table ${table} (n int4)`);
          try {
            const insert = `insert into ${table} values (1)`;
            const open = { code: "TRANSACTION_OPEN", retryable: false };
            const leaves = [
              () => pool.query("begin"),
              () => pool.exec("start transaction read only"),
              () => pool.simple(`begin; ${insert}`),
              () => pool.simple(`begin; ${insert}; commit and chain`),
            ];
            for (const leave of leaves) await t.assert.rejects(leave(), open);
            const none = { code: "TRANSACTION_FINISHED", retryable: false };
            for (const end of ["commit", "rollback"]) await t.assert.rejects(pool.exec(end), none);
            await pool.simple(`begin; ${insert}; commit`);
            await pool.transaction((tx) => tx.exec(insert));
            for await (const rows of pool.cursor(`select n from ${table}`, 1)) t.assert.equal(rows.length, 1);
            const { rows } = await pool.query<{ n: number }>(`select count(*)::int4 as n from ${table}`);
            t.assert.deepEqual(rows, [{ n: 3 }]);
          } finally {
            await pool.exec(`drop table ${table}`);
          }
        },
        { max: 1 },
      ),
  },
  {
    name: "a BEGIN beside calls that share its connection takes none of them along",
    run: (t) =>
      withPool(
        t,
        async (pool) => {
          await pool.query("select 1 as n");
          const [first, begin, last] = await Promise.allSettled([
            pool.query("select 2 as n"),
            pool.query("begin"),
            pool.query("select 3 as n"),
          ]);
          const rejected = begin as PromiseRejectedResult;
          t.assert.deepEqual([first.status, last.status], ["fulfilled", "fulfilled"]);
          t.assert.equal((rejected.reason as { code: string }).code, "TRANSACTION_OPEN");
        },
        { max: 1, pipelining: 8 },
      ),
  },
  {
    name: "after an open or failed transaction, an abandoned stream or an aborted call, the next borrower is clean",
    run: (t) =>
      withPool(
        t,
        async (pool) => {
          const left: ((lease: Lease) => Promise<unknown>)[] = [
            (lease) => lease.exec("begin"),
            (lease) => lease.simple("begin; select 1 / 0").catch(() => {}),
            async (lease) => void (await lease.stream(`select repeat('x', 1000) from ${series(1e6, "i")}`)).cancel(),
            async (lease) => void lease.query("select pg_sleep(60)").catch(() => {}),
            async (lease) => void lease.transaction(() => new Promise(() => {})).catch(() => {}),
            async (lease) =>
              void lease
                .cursor(`select i from ${series(1e6, "i")}`, 10)
                .next()
                .catch(() => {}),
          ];
          for (const leave of left) {
            const lease = await pool.acquire();
            await leave(lease);
            await pause(20);
            await inTime(lease.release());
            await t.assert.rejects(lease.query("select 1"), { code: "LEASE_RELEASED" });
            t.assert.equal((await pool.query<{ n: number }>("select 1 as n")).rows[0]!.n, 1);
            t.assert.equal((await pool.simple("select pg_current_xact_id_if_assigned() is null as it")).length, 1);
          }
          t.assert.equal(pool.stats().total, 1);
        },
        { max: 1 },
      ),
  },
  {
    name: "a statement whose keywords show that it leaves nothing costs no reset, whatever its literals say",
    run: (t) =>
      withPool(
        t,
        async (pool) => {
          const pid = await pidOf(pool);
          for (const statement of [
            "select '…; load the truck'",
            "select $$; set role x$$",
            "select 1 -- ; discard all",
          ]) {
            await pool.exec(statement);
            const [[last]] = (await t.side(`select query from pg_stat_activity where pid = ${pid}`)) as [[string]];
            t.assert.equal(last, statement, "the last one that the session ran");
          }
          t.assert.equal(await pidOf(pool), pid, "the session");
        },
        { max: 1 },
      ),
  },
  {
    name: "calls that share a connection do not see what one of them sets",
    run: (t) =>
      withPool(
        t,
        async (pool) => {
          const tenant = () => pool.query("select coalesce(current_setting('app.tenant', true), '') as tenant");
          const tenants = async (change: string) => {
            const [, , ...others] = await Promise.all([
              pool.query("select 1 from pg_sleep(0.1)"),
              pool.exec(change),
              ...[1, 2, 3, 4].map(tenant),
            ]);
            return others.map(({ rows }) => rows[0]!["tenant"]);
          };
          for (const change of ["select set_config('app.tenant', 'a', false)", "set app.tenant = 'a'"])
            t.assert.deepEqual(await tenants(change), ["", "", "", ""], change);
        },
        { max: 1, pipelining: 8 },
      ),
  },
  {
    name: "a call that waits too long reports the state of the pool, and a call that gives up loses nothing",
    differs: ["timers"],
    run: (t) =>
      withPool(
        t,
        async (pool) => {
          const lease = await pool.acquire();
          const error = await t.assert.rejects(pool.query("select 1"), { code: "ACQUIRE_TIMEOUT", retryable: true });
          t.assert.match(error.message, /1 of 1 in use/);
          await t.assert.rejects(pool.acquire({ signal: AbortSignal.timeout(20) }), { code: "ABORTED" });
          await t.assert.rejects(pool.query("select 1", { timeout: 20 }), { code: "QUERY_TIMEOUT", retryable: true });
          await t.assert.rejects(
            pool.transaction((tx) => tx.query("select 1"), { timeout: 20 }),
            {
              code: "QUERY_TIMEOUT",
            },
          );
          const order: number[] = [];
          const calls = [1, 2, 3].map((n) => pool.exec("select 1").then(() => order.push(n)));
          await lease.release();
          await Promise.all(calls);
          t.assert.deepEqual(order, [1, 2, 3]);
          // An aborted signal also rejects when a connection is free.
          await t.assert.rejects(pool.acquire({ signal: AbortSignal.abort() }), { code: "ABORTED", retryable: true });
          const { canceledAcquires, acquireTimeouts, waiting, total } = pool.stats();
          const wanted = { canceledAcquires: 4, acquireTimeouts: 1, waiting: 0, total: 1 };
          t.assert.deepEqual({ canceledAcquires, acquireTimeouts, waiting, total }, wanted);
        },
        { max: 1, acquireTimeout: 1_000 },
      ),
  },
  {
    name: "an SQL error keeps its connection, and a session that ends is replaced",
    differs: ["sockets"],
    ownServer: true,
    run: (t) =>
      withPool(
        t,
        async (pool) => {
          const pid = await pidOf(pool);
          await t.assert.rejects(pool.query("select 1 / 0"), { code: "22012" });
          await t.assert.rejects(
            pool.transaction((tx) => tx.query("select nothing")),
            { code: "42703" },
          );
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
        { max: 1 },
      ),
  },
  {
    name: "a call works after a restart that has ended more idle connections than one call tries",
    differs: ["sockets"],
    run: (t) =>
      withPool(
        t,
        async (pool) => {
          const leases = await Promise.all(Array.from({ length: 5 }, () => pool.acquire()));
          const pids = await Promise.all(leases.map(pidOf));
          for (const lease of leases) await lease.release();
          t.assert.equal(pool.stats().idle, 5);
          await t.side(`select pg_terminate_backend(pid, 5000) from unnest('{${pids}}'::int4[]) pid`);
          for (let n = 0; n < 3; n++) t.assert.equal(pids.includes(await pidOf(pool)), false);
        },
        { max: 5 },
      ),
  },
  {
    name: "the settings of hooks stay, a connection that a hook refuses is replaced, and a hook that throws leaks nothing",
    run: (t) => {
      const calls: string[] = [];
      let refuses = 0;
      let fails = 1;
      return withPool(
        t,
        async (pool) => {
          await t.assert.rejects(pool.query("select 1"), { message: "not today" });
          t.assert.equal(pool.stats().total, 0);
          const show = async () => (await pool.query<{ it: string }>("select current_setting('app.it') as it")).rows;
          t.assert.deepEqual(await show(), [{ it: "set" }]);
          await pool.exec("set app.it = 'changed'");
          t.assert.deepEqual(await show(), [{ it: "set" }]);
          const pid = await pidOf(pool);
          refuses = 2;
          t.assert((await pidOf(pool)) !== pid, "another session");
          t.assert.equal(pool.stats().total, 1);
          t.assert.deepEqual(
            [...new Set(calls)],
            ["beforeConnect", "afterConnect", "beforeAcquire", "afterRelease", "beforeClose"],
          );
        },
        {
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
            t.assert.deepEqual((await lease.query("show application_name")).rows, [{ application_name: "hooked" }]);
            return refuses-- <= 0;
          },
          afterRelease: () => void calls.push("afterRelease"),
          beforeClose: () => {
            calls.push("beforeClose");
            throw new Error("nobody hears of it");
          },
        },
      );
    },
  },
  {
    name: "lifetime, resize, reset, drain and close end connections, but never calls in flight",
    differs: ["timers"],
    ownServer: true,
    run: async (t) => {
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
      await t.assert.rejects(pool.query("select 1"), { code: "POOL_CLOSED" });
      await Promise.all([running, ...waiting]);
      await drained;
      await pool.close();
      t.assert.equal(pool.stats().state, "closed");
      t.assert.equal(pool.stats().total, 0);
    },
  },
  {
    name: "close() gives running calls their time, then ends them on the server too",
    differs: ["timers", "sockets"],
    async run(t) {
      const pool = t.pgz.createPool({ ...t.options, max: 2 });
      const mark = newMark(t);
      const endless = t.assert.rejects(pool.query(`select /* ${mark} */ pg_sleep(60)`), { code: "POOL_CLOSED" });
      const lease = await pool.acquire();
      const waiting = t.assert.rejects(pool.query("select 1"), { code: "POOL_CLOSED" });
      await started(t, mark);
      await inTime(pool.close({ timeout: 100 }));
      await Promise.all([endless, waiting]);
      await t.assert.rejects(lease.query("select 1"));
      await lease.release();
      await gone(t, mark);
    },
  },
  {
    name: "close() ends calls beside a stream that is being read, and still gives queued streams a connection",
    differs: ["streams"],
    async run(t) {
      const pool = t.pgz.createPool({ ...t.options, max: 1 });
      const wide = "select repeat('x', 100000) as x from generate_series(1, 200)";
      const first = await pool.stream(wide);
      const second = pool.stream("select 'second' as a");
      const refused = t.assert.rejects(pool.query("select 1"), { code: "POOL_CLOSED" });
      await inTime(pool.close()); // it does not wait for readers
      await refused;
      t.assert.equal(pool.stats().total, 1);
      await t.assert.rejects(pool.stream("select 1"), { code: "POOL_CLOSED" });
      t.assert.equal((await new Response(first).text()).length, 200 * 100_009);
      t.assert.equal(await new Response(await second).text(), '{"a":"second"}\n');
      await until(() => pool.stats().total === 0);

      const both = t.pgz.createPool({ ...t.options, max: 2 });
      const mark = newMark(t);
      const kept = await both.stream(wide);
      const endless = t.assert.rejects(both.query(`select /* ${mark} */ pg_sleep(60)`), { code: "POOL_CLOSED" });
      await started(t, mark);
      await both.close({ timeout: 100 });
      await endless;
      t.assert.equal((await new Response(kept).text()).length, 200 * 100_009);
    },
  },
  {
    name: "a lease's stream continues after release(), and ends with destroy or `until`",
    differs: ["streams"],
    async run(t) {
      await using pool = t.pgz.createPool({ ...t.options, max: 1 });
      const wide = "select repeat('x', 100000) as x from generate_series(1, 200)";
      const lease = await pool.acquire();
      const stream = await lease.stream(wide);
      await lease.release();
      await t.assert.rejects(lease.query("select 1"), { code: "LEASE_RELEASED" });
      const next = pool.query<{ a: number }>("select 1 as a");
      t.assert.equal((await new Response(stream).text()).length, 200 * 100_009);
      t.assert.deepEqual((await next).rows, [{ a: 1 }]);
      t.assert.equal(pool.stats().connects, 1);

      const doomed = await pool.acquire();
      const broken = await doomed.stream(wide);
      await doomed.release({ destroy: true });
      await t.assert.rejects(new Response(broken).text(), { code: "LEASE_RELEASED" });

      const abort = new AbortController();
      const bound = await pool.acquire({ until: abort.signal });
      const left = await bound.stream(wide);
      await bound.release();
      abort.abort();
      await t.assert.rejects(new Response(left).text(), { code: "LEASE_RELEASED" });
      t.assert.deepEqual((await pool.query("select 1 as a")).rows, [{ a: 1 }]);
    },
  },
  {
    name: "a pool retries a server without free connections, with pauses, until acquireTimeout",
    differs: ["timers"],
    ownServer: true,
    async run(t) {
      const role = `crowded_${t.runtime}_${Math.random().toString(36).slice(2)}`;
      await t.side(`create role ${role} login password 'crowd' connection limit 1`);
      const attempts: (string | undefined)[] = [];
      const pool = t.pgz.createPool({
        ...t.options,
        user: role,
        password: "crowd",
        max: 4,
        acquireTimeout: 4_000,
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
  {
    name: "no statement opens a connection beyond max, whatever its rows are made of",
    ownServer: true,
    run: (t) =>
      withSchema(t, async (client, s) => {
        const role = `counted_${t.runtime}_${Math.random().toString(36).slice(2)}`;
        await t.side(
          `create role ${role} login password 'counted'; create extension if not exists citext schema public`,
        );
        // The rows are half a megabyte on the wire: composites and citext.
        await client.simple(`create table ${s}.wide (id int4, name text);
          insert into ${s}.wide select n, repeat('x', 100) from generate_series(1, 4000) n;
          create table ${s}.log (id int8 generated always as identity);
          grant usage on schema ${s} to ${role}; grant select, insert on all tables in schema ${s} to ${role}`);
        const run = async (max: number, calls: (pool: Pool) => Promise<unknown>[]) => {
          await t.side(`alter role ${role} connection limit ${max}`);
          const pool = t.pgz.createPool({ ...t.options, user: role, password: "counted", max, applicationName: role });
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
        const wide = () => `select wide as w, name::public.citext as n from ${s}.wide /* ${newMark(t)} */`;
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
          t.assert.deepEqual((await client.query(`select count(*)::int4 as n from ${s}.log`)).rows, [{ n: 25 }]);
        } finally {
          await client.simple(
            `revoke all on all tables in schema ${s} from ${role}; revoke all on schema ${s} from ${role}`,
          );
          await t.side(`drop role ${role}`);
        }
      }),
  },
];
