// Abort, deadline, and leaving early: the call settles at once, the server's query ends within a second, and the
// connection stays usable.
import type { PgzError } from "../../../js/index.ts";
import type { Cases } from "../context.ts";
import { inTime, pause, until } from "../../support/until.mjs";
import {
  asleep,
  canceled,
  codeOf,
  ended,
  gone,
  newMark,
  pidOf,
  readSome,
  series,
  terminate,
  terminateRunning,
} from "./helpers.ts";

export const cancel: Cases = {
  async "aborting a query cancels it on the server, and the client remains usable"(t) {
    const client = await t.client();
    const mark = newMark();
    const controller = new AbortController();
    const call = client.query(`select /* ${mark} */ pg_sleep(60)`, { signal: controller.signal });
    const settled = t.assert.rejects(call, { name: "AbortError", code: "ABORTED", cause: "because" });
    await asleep(t, mark);
    controller.abort("because");
    await settled;
    await canceled(t, client, mark);
    await t.assert.rows(client.query("select 1 as a"), [{ a: 1 }]);
  },
  async "a deadline cancels the query on the server"(t) {
    const client = await t.client();
    const mark = newMark();
    await t.assert.rejects(client.query(`select /* ${mark} */ pg_sleep(60)`, { timeout: 200 }), {
      name: "TimeoutError",
      code: "QUERY_TIMEOUT",
    });
    await canceled(t, client, mark);
    await t.assert.rows(client.query("select 1 as a"), [{ a: 1 }]);
  },
  async "an aborted stream errors its reader and cancels the query on the server"(t) {
    const client = await t.client();
    const mark = newMark();
    const controller = new AbortController();
    const body = await client.stream(`select /* ${mark} */ g, repeat('x', 500) from ${series(500_000_000, "g")}`, {
      signal: controller.signal,
    });
    const { reader } = await readSome(body, 100_000);
    controller.abort();
    await t.assert.code(
      (async () => {
        while (!(await reader.read()).done);
      })(),
      "ABORTED",
    );
    await canceled(t, client, mark);
    await t.assert.rows(client.query("select 1 as a"), [{ a: 1 }]);
  },
  async "leaving a stream cancels the query on the server"(t) {
    const client = await t.client();
    const mark = newMark();
    const { reader } = await readSome(
      await client.stream(`select /* ${mark} */ g, repeat('x', 500) from ${series(500_000_000, "g")}`),
    );
    await reader.cancel("enough");
    await canceled(t, client, mark);
    await t.assert.rows(client.query("select 1 as a"), [{ a: 1 }]);
  },
  async "a signal that is already aborted stops a call before it begins"(t) {
    const client = await t.client();
    await t.assert.rejects(client.query("select 1", { signal: AbortSignal.abort() }), {
      code: "ABORTED",
      hasNoEffect: true,
      retryable: false,
    });
    await t.assert.rows(client.query("select 1 as a"), [{ a: 1 }]);
  },
  async "an aborted call that is still queued never runs"(t) {
    const client = await t.client();
    await client.exec("create temp table runs (n int4)");
    const controller = new AbortController();
    // simple() does not share the wire, so the second call stays in the queue.
    const mark = newMark();
    const first = t.assert.code(client.simple(`select pg_sleep(60) /* ${mark} */`), "57014");
    const second = t.assert.code(client.exec("insert into runs values (1)", { signal: controller.signal }), "ABORTED");
    await asleep(t, mark);
    controller.abort();
    await second;
    await t.side(`select pg_cancel_backend(pid) from pg_stat_activity where query like '%${mark} */'`);
    await first;
    await t.assert.rows(client.query("select count(*)::int4 as n from runs"), [{ n: 0 }]);
  },
  async "a cancel never hits the next statement"(t) {
    const client = await t.client();
    for (let round = 0; round < 25; round++) {
      const controller = new AbortController();
      const call = codeOf(client.query(`select pg_sleep(${(round % 5) / 1000})`, { signal: controller.signal }));
      await pause(round % 4);
      controller.abort();
      const outcome = await call;
      t.assert(outcome === "no error" || outcome === "ABORTED", `outcome ${outcome}`);
      await t.assert.rows(client.query(t.pgz.sql`select ${round}::int4 as n`), [{ n: round }], `round ${round}`);
    }
  },
  async "close ends a running query"(t) {
    const client = await t.pgz.connect({ ...t.options });
    const mark = newMark();
    const settled = t.assert.code(client.query(`select /* ${mark} */ pg_sleep(60)`), "CLIENT_CLOSED");
    await asleep(t, mark);
    await inTime(client.close());
    const error = await settled;
    t.assert(error instanceof t.pgz.PgzError, `a typed error, not ${error}`);
    await gone(t, mark);
  },
  async "a session that is terminated rejects its call, and the next call gets a new session"(t) {
    const client = await t.pgz.connect({ ...t.options });
    const mark = newMark();
    const settled = t.assert.code(client.query(`select /* ${mark} */ pg_sleep(60)`), "57P01");
    await asleep(t, mark);
    await terminateRunning(t, mark);
    await settled;
    await t.assert.rows(client.query("select 1 as one"), [{ one: 1 }]);
    await client.close();
  },
  async "a call whose session the server ended for inactivity runs on a new session"(t) {
    const client = await t.pgz.connect({ ...t.options, startup: { idle_session_timeout: "50" } });
    const pid = await pidOf(client);
    await ended(t, pid);
    await t.assert.rows(client.query("select 2 as two"), [{ two: 2 }]);
    await client.close();
  },
  async "an idle session that is terminated is replaced by the next call of any kind, streams and COPY included"(t) {
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
      const pid = await pidOf(client);
      t.assert(!ended.includes(pid), "a session of its own");
      ended.push(pid);
      await terminate(t, pid);
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
  async "a transaction whose session ended while idle rejects as retryable, or runs on a new session"(t) {
    const client = await t.pgz.connect({ ...t.options });
    const pid = await pidOf(client);
    await terminate(t, pid);
    const run = () => client.transaction(async (tx) => (await tx.query("select 1 as n")).rows);
    // Where an idle socket is not read, the first statement of the transaction finds out.
    const rows = await run().catch((error: PgzError) => {
      t.assert(error.retryable, String(error));
      return run();
    });
    t.assert.deepEqual(rows, [{ n: 1 }]);
    await client.close();
  },
};
