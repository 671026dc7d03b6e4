// Abort, deadline, and leaving early: the call settles at once, the server's query ends within a second, and the
// connection stays usable.
import type { PgzError } from "../../../js/index.ts";
import type { Case } from "../context.ts";
import { pause, until } from "../../support/until.mjs";
import {
  asleep,
  canceled,
  gone,
  newMark,
  readSome,
  series,
  started,
  terminate,
  terminateRunning,
  withClient,
} from "./helpers.ts";

export const cancel: Case[] = [
  {
    name: "aborting a query cancels it on the server, and the client remains usable",
    run: (t) =>
      withClient(t, async (client) => {
        const mark = newMark(t);
        const controller = new AbortController();
        const call = client.query(`select /* ${mark} */ pg_sleep(60)`, { signal: controller.signal });
        const settled = t.assert.rejects(call, { name: "AbortError", code: "ABORTED", cause: "because" });
        await started(t, mark);
        controller.abort("because");
        await settled;
        await canceled(t, client, mark);
        t.assert.deepEqual((await client.query("select 1 as a")).rows, [{ a: 1 }]);
      }),
  },
  {
    name: "a deadline cancels the query on the server",
    run: (t) =>
      withClient(t, async (client) => {
        const mark = newMark(t);
        await t.assert.rejects(client.query(`select /* ${mark} */ pg_sleep(60)`, { timeout: 200 }), {
          name: "TimeoutError",
          code: "QUERY_TIMEOUT",
        });
        await canceled(t, client, mark);
        t.assert.deepEqual((await client.query("select 1 as a")).rows, [{ a: 1 }]);
      }),
  },
  {
    name: "an aborted stream errors its reader and cancels the query on the server",
    run: (t) =>
      withClient(t, async (client) => {
        const mark = newMark(t);
        const controller = new AbortController();
        const body = await client.stream(`select /* ${mark} */ g, repeat('x', 500) from ${series(500_000_000, "g")}`, {
          signal: controller.signal,
        });
        const { reader } = await readSome(body, 100_000);
        controller.abort();
        await t.assert.rejects(
          (async () => {
            while (!(await reader.read()).done);
          })(),
          { code: "ABORTED" },
        );
        await canceled(t, client, mark);
        t.assert.deepEqual((await client.query("select 1 as a")).rows, [{ a: 1 }]);
      }),
  },
  {
    name: "leaving a stream cancels the query on the server",
    run: (t) =>
      withClient(t, async (client) => {
        const mark = newMark(t);
        const { reader } = await readSome(
          await client.stream(`select /* ${mark} */ g, repeat('x', 500) from ${series(500_000_000, "g")}`),
        );
        await reader.cancel("enough");
        await canceled(t, client, mark);
        t.assert.deepEqual((await client.query("select 1 as a")).rows, [{ a: 1 }]);
      }),
  },
  {
    name: "a signal that is already aborted stops a call before it begins",
    run: (t) =>
      withClient(t, async (client) => {
        await t.assert.rejects(client.query("select 1", { signal: AbortSignal.abort() }), {
          code: "ABORTED",
          retryable: true,
        });
        t.assert.deepEqual((await client.query("select 1 as a")).rows, [{ a: 1 }]);
      }),
  },
  {
    name: "an aborted call that is still queued never runs",
    run: (t) =>
      withClient(t, async (client) => {
        await client.exec("create temp table runs (n int4)");
        const controller = new AbortController();
        // simple() does not share the wire, so the second call stays in the queue.
        const mark = newMark(t);
        const first = t.assert.rejects(client.simple(`select pg_sleep(60) /* ${mark} */`), { code: "57014" });
        const second = t.assert.rejects(client.exec("insert into runs values (1)", { signal: controller.signal }), {
          code: "ABORTED",
        });
        await started(t, mark);
        controller.abort();
        await second;
        await t.side(`select pg_cancel_backend(pid) from pg_stat_activity where query like '%${mark} */'`);
        await first;
        t.assert.deepEqual((await client.query("select count(*)::int4 as n from runs")).rows, [{ n: 0 }]);
      }),
  },
  {
    name: "a cancel never hits the next statement",
    run: (t) =>
      withClient(t, async (client) => {
        for (let round = 0; round < 25; round++) {
          const controller = new AbortController();
          const call = client.query(`select pg_sleep(${(round % 5) / 1000})`, { signal: controller.signal }).then(
            () => "done",
            (error: { code: string }) => error.code,
          );
          await pause(round % 4);
          controller.abort();
          const outcome = await call;
          t.assert(outcome === "done" || outcome === "ABORTED", `outcome ${outcome}`);
          t.assert.deepEqual(
            (await client.query(t.pgz.sql`select ${round}::int4 as n`)).rows,
            [{ n: round }],
            `round ${round}`,
          );
        }
      }),
  },
  {
    name: "close ends a running query",
    async run(t) {
      const client = await t.pgz.connect({ ...t.options });
      const mark = newMark(t);
      const settled = t.assert.rejects(client.query(`select /* ${mark} */ pg_sleep(60)`));
      await started(t, mark);
      await client.close();
      const error = await settled;
      t.assert(error instanceof t.pgz.PgzError, `a typed error, not ${error}`);
      await gone(t, mark);
    },
  },
  {
    name: "a session that is terminated rejects its call, and the next call gets a new session",
    async run(t) {
      const client = await t.pgz.connect({ ...t.options });
      const mark = newMark(t);
      const settled = t.assert.rejects(client.query(`select /* ${mark} */ pg_sleep(60)`), { code: "57P01" });
      await asleep(t, mark);
      await terminateRunning(t, mark);
      await settled;
      t.assert.deepEqual((await client.query("select 1 as one")).rows, [{ one: 1 }]);
      await client.close();
    },
  },
  {
    name: "a call whose session the server ended for inactivity runs on a new session",
    async run(t) {
      const client = await t.pgz.connect({ ...t.options, startup: { idle_session_timeout: "50" } });
      const [row] = (await client.query("select pg_backend_pid() as pid")).rows as { pid: number }[];
      await until(async () => (await t.side(`select 1 from pg_stat_activity where pid = ${row?.pid}`)).length === 0);
      t.assert.deepEqual((await client.query("select 2 as two")).rows, [{ two: 2 }]);
      await client.close();
    },
  },
  {
    name: "an idle session that is terminated is replaced by the next call of any kind, streams and COPY included",
    async run(t) {
      const lost: string[] = [];
      const observer = { onDisconnect: ({ error }: { error: PgzError }) => void lost.push(error.code) };
      const client = await t.pgz.connect({ ...t.options, observer });
      const calls: (() => Promise<unknown>)[] = [
        async () => (await client.query("select 1 as n")).rows,
        async () => (await client.query("select 1 as n")).rows,
        async () => JSON.parse(new TextDecoder().decode(await client.json("select 1 as n"))) as unknown,
        async () => [JSON.parse(await new Response(await client.stream("select 1 as n")).text()) as unknown],
        async () => [await (await client.respond("select 1 as n")).json()],
        async () => (await client.batch(["select 1 as n"]))[0]!.rows,
        async () => Promise.all([1, 2, 3].map(() => client.query("select 1 as n"))).then((all) => all[2]!.rows),
      ];
      const ended: number[] = [];
      for (const call of calls) {
        const [row] = (await client.query("select pg_backend_pid() as pid")).rows as { pid: number }[];
        t.assert(!ended.includes(row!.pid), "a session of its own");
        ended.push(row!.pid);
        await terminate(t, row!.pid);
        // A Worker does not read an idle socket.
        if (t.runtime !== "workerd") await until(() => lost.length === ended.length);
        t.assert.deepEqual(await call(), [{ n: 1 }]);
      }
      t.assert.deepEqual(
        lost,
        calls.map(() => "57P01"),
      );
      t.assert.equal(client.stats().state, "idle");
      t.assert.equal(client.stats().errors, 0);
      await client.close();
    },
  },
  {
    name: "a transaction whose session ended while idle rejects as retryable, or runs on a new session",
    async run(t) {
      const client = await t.pgz.connect({ ...t.options });
      const [row] = (await client.query("select pg_backend_pid() as pid")).rows as { pid: number }[];
      await terminate(t, row?.pid);
      const run = () => client.transaction(async (tx) => (await tx.query("select 1 as n")).rows);
      // Where an idle socket is not read, the first statement of the transaction finds out.
      const rows = await run().catch((error: PgzError) => {
        t.assert(error.retryable, String(error));
        return run();
      });
      t.assert.deepEqual(rows, [{ n: 1 }]);
      await client.close();
    },
  },
];
