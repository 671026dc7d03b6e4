// What a call or a lease of a pool may leave in its session, and that the next borrower finds nothing of it.
import type { Lease, Pool, PoolOptions } from "../../../js/index.ts";
import type { Cases } from "../context.ts";
import { inTime, pause } from "../../support/until.mjs";
import { pidOf, series, unique } from "./helpers.ts";

/** Statements that read what a borrower may have left, and what they must say. */
const ZONE = ["show timezone", "UTC"] as const;
const ROLE = ["select current_user = 'pg_monitor'", "f"] as const;
const TENANT = ["select coalesce(current_setting('app.tenant', true), '')", ""] as const;
const TABLE = ["select to_regclass('left_over') is null", "t"] as const;
const LISTENS = ["select count(*) from pg_listening_channels()", "0"] as const;

/** What a borrower leaves in the session, and how the next borrower would see it. */
const LEFT: [how: string, seen: string, clean: string][] = [
  ["set timezone = 'Asia/Tokyo'", ...ZONE],
  ["set search_path = pg_temp", "select current_setting('search_path') = 'pg_temp'", "f"],
  ["select set_config('app.tenant', '7', false)", ...TENANT],
  ["set role pg_monitor", ...ROLE],
  ["create temporary table left_over (n int)", ...TABLE],
  ["select 1 as n into temporary left_over", ...TABLE],
  ["select pg_advisory_lock(271)", "select count(*) from pg_locks where locktype = 'advisory' and objid = 271", "0"],
  ["listen left_over", ...LISTENS],
  // The same inside or after comments, semicolons in comments, escapes and other statements.
  ["/* report; for ops */ set role pg_monitor", ...ROLE],
  ["-- a; b\nset app.tenant = '7'", ...TENANT],
  ["/* /* */ select */ set app.tenant = '7'", ...TENANT],
  ["/*;*/listen left_over", ...LISTENS],
  ["select U&\"set\\005fconfig\"('timezone', 'Asia/Tokyo', false)", ...ZONE],
  ["update pg_settings set setting = 'Asia/Tokyo' where name = 'TimeZone'", ...ZONE],
  ["explain analyze create temp table left_over as select 1", ...TABLE],
  ["select 1 as n into pg_temp.left_over", ...TABLE],
  ["select 1 as n into/**/temp left_over", ...TABLE],
  [
    "declare left_over cursor with/**/hold for select 1",
    "select count(*) from pg_cursors where name = 'left_over'",
    "0",
  ],
  ["prepare left_over as select 1", "select count(*) from pg_prepared_statements where name = 'left_over'", "0"],
  ["do $$ begin perform set_config('app.tenant', '8', false); end $$", ...TENANT],
];

export const poolLeftovers: Cases = {
  "nothing that a borrower sets reaches the next one": {
    ownServer: true,
    async run(t) {
      const pool = t.pool({ max: 1, startup: { timezone: "UTC" } });
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
  },
  async "a COMMIT behind other statements of a call has committed them, and the call succeeds"(t) {
    const pool = t.pool({ max: 1 });
    const table = unique("committed");
    await pool.exec(`create table ${table} (n int)`);
    t.after(() => t.side(`drop table ${table}`));
    const add = (n: number) => `insert into ${table} values (${n})`;
    for (const _ of ["first run", "known"]) {
      await pool.batch(["begin", add(1), "commit"]);
      await pool.batch([add(2), "commit"]);
      await pool.simple(`${add(3)}; commit`);
    }
    await t.assert.code(pool.exec("commit"), "TRANSACTION_FINISHED");
    const rows = [1, 2, 3].map((n) => ({ n, times: 2 }));
    const count = `select n, count(*)::int4 as times from ${table} group by n order by n`;
    await t.assert.rows(pool.query(count), rows);
  },
  async "a search_path with pg_temp leaves no table, whether a scope, the startup or a hook sets it"(t) {
    const [make, settings] = ["create table left_over as select 1", { search_path: "pg_temp" }];
    const ways: [how: string, leave: (pool: Pool) => Promise<unknown>, options?: PoolOptions][] = [
      ...["pg_temp", "public_no, PG_Temp", '"$user_no", "pg_temp"'].map((path): (typeof ways)[number] => [
        `scope ${path}`,
        (pool) => pool.scope({ settings: { Search_Path: path } }).exec(make),
      ]),
      ["batch of a scope", (pool) => pool.scope({ settings }).batch([make])],
      ["transaction of a scope", (pool) => pool.scope({ settings }).transaction((tx) => tx.exec(make))],
      [
        "scope of a lease",
        async (pool) => {
          await using lease = await pool.acquire();
          await lease.scope({ settings }).exec(make);
        },
      ],
      ["startup", (pool) => pool.exec(make), { startup: settings }],
      ["options", (pool) => pool.exec(make), { options: "-c search_path=pg_temp" }],
      [
        "afterConnect",
        (pool) => pool.exec(make),
        { afterConnect: (lease) => lease.exec("set search_path = 'pg_temp'").catch(() => {}) },
      ],
    ];
    for (const [how, leave, options] of ways) {
      const pool = t.pool({ max: 1, ...options });
      await leave(pool);
      await t.assert.rows(pool.query("select to_regclass('left_over')::text as it"), [{ it: null }], how);
      t.assert.equal(pool.stats().total, 1, how);
    }
  },
  async "a scope on pg_temp shares no connection, so that no other call finds its table"(t) {
    const pool = t.pool({ max: 1, pipelining: 8 });
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
  async "a single call of a pool that leaves a transaction open, or ends none, rejects"(t) {
    const pool = t.pool({ max: 1 });
    const table = unique("left_open");
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
  async "SET in a single call of a pool is reported once, because it is undone; elsewhere it is not"(t) {
    const warnings: string[] = [];
    const observer = {
      onNotice: ({ severity, message }: { severity?: string | undefined; message?: string | undefined }) =>
        void (severity === "WARNING" && warnings.push(message ?? "")),
    };
    const pool = t.pool({ max: 1, observer });
    await using lease = await pool.acquire();
    await lease.exec("set timezone = 'Asia/Tokyo'");
    await lease.release();
    await pool.transaction((tx) => tx.exec("set timezone = 'Asia/Tokyo'"));
    await pool.exec("select set_config('timezone', 'Asia/Tokyo', true)");
    await pool.simple("set timezone = 'Asia/Tokyo'; select 1");
    await pool.batch(["set timezone = 'Asia/Tokyo'", "select 1"]);
    await (await pool.prepare("set timezone = 'Asia/Tokyo'")).close();
    t.assert.deepEqual(warnings, []);
    await pool.exec("set timezone = 'Asia/Tokyo'", { observer: {} }); // nobody hears it, so it is not used up
    for (const zone of ["Asia/Tokyo", "Asia/Seoul"]) await pool.exec(`set timezone = '${zone}'`);
    t.assert.equal(warnings.length, 1);
    t.assert.match(warnings[0]!, /^A SET in a single call of a pool is undone/);
    await t.assert.rows(pool.query("select current_setting('timezone') as zone"), [{ zone: "UTC" }]);
    await t.pool({ max: 1 }).exec("set timezone = 'Asia/Tokyo'", { observer });
    t.assert.equal(warnings.length, 2);
  },
  async "a BEGIN beside calls that share its connection takes none of them along"(t) {
    const pool = t.pool({ max: 1, pipelining: 8 });
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
  "after an open or failed transaction, an abandoned stream or an aborted call, the next borrower is clean": {
    differs: ["streams"],
    async run(t) {
      const pool = t.pool({ max: 1 });
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
        await t.assert.code(lease.query("select 1"), "LEASE_RELEASED");
        t.assert.equal((await pool.query<{ n: number }>("select 1 as n")).rows[0]!.n, 1);
        t.assert.equal((await pool.simple("select pg_current_xact_id_if_assigned() is null as it")).length, 1);
      }
      t.assert.equal(pool.stats().total, 1);
    },
  },
  async "a statement whose keywords show that it leaves nothing costs no reset, whatever its literals say"(t) {
    const pool = t.pool({ max: 1 });
    const pid = await pidOf(pool);
    for (const statement of ["select '…; load the truck'", "select $$; set role x$$", "select 1 -- ; discard all"]) {
      await pool.exec(statement);
      const [[last]] = (await t.side(`select query from pg_stat_activity where pid = ${pid}`)) as [[string]];
      t.assert.equal(last, statement, "the last one that the session ran");
    }
    t.assert.equal(await pidOf(pool), pid, "the session");
  },
  async "calls that share a connection do not see what one of them sets"(t) {
    const pool = t.pool({ max: 1, pipelining: 8 });
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
};
