// listen() and notify(), and prepared statements as objects.
import type { Notification } from "../../../js/index.ts";
import type { Cases } from "../context.ts";
import { until } from "../../support/until.mjs";
import { codeOf, namesOf, rowsOf, unique } from "./helpers.ts";

/** Channels belong to the whole database, so their names are unique. */
const newChannel = () => unique('Channel "x"');

export const listen: Cases = {
  "notifications arrive in order with channel, payload and process, until the loop is left": {
    differs: ["sockets"],
    async run(t) {
      const client = await t.client();
      const channel = newChannel();
      const listener = await client.listen(channel);
      await client.notify(channel, "one");
      await client.notify(`${channel} of others`, "not mine");
      await client.transaction(async (tx) => {
        await tx.notify(channel, "two ü");
        await tx.notify(channel);
      });
      await client
        .transaction(async (tx) => {
          await tx.notify(channel, "never");
          throw new Error("no");
        })
        .catch(() => {});
      await client.notify(channel, "last");
      const seen: Notification[] = [];
      for await (const notification of listener) {
        seen.push(notification);
        if (notification.payload === "last") break;
      }
      t.assert.deepEqual(
        seen.map(({ payload }) => payload),
        ["one", "two ü", "", "last"],
      );
      t.assert(seen.every((notification) => notification.channel === channel && notification.processId > 0));
      await until(
        async () =>
          (
            await t.side(
              `select 1 from pg_stat_activity
         where query like '%${channel.replaceAll('"', '""')}%' and query like 'LISTEN%'`,
            )
          ).length === 0,
      );
      await t.assert.code(client.notify(channel, "x".repeat(8_000)), "22023");
    },
  },
  "a listener whose connection is lost opens another and reports it": {
    differs: ["sockets"],
    ownServer: true,
    async run(t) {
      const client = await t.client();
      const channel = newChannel();
      const lost: string[] = [];
      const listener = await client.listen(channel, { onReconnect: ({ code }) => void lost.push(code) });
      const killed = `select pg_terminate_backend(pid) from pg_stat_activity
          where query like 'LISTEN%${channel.replaceAll('"', '""')}%'`;
      const iterator = listener[Symbol.asyncIterator]();
      for (let time = 1; time <= 2; time++) {
        t.assert.equal((await t.side(killed)).length, 1);
        await until(() => lost.length === time);
        await client.notify(channel, `after ${time}`);
        t.assert.equal((await iterator.next()).value?.payload, `after ${time}`);
      }
      t.assert.deepEqual(lost, ["57P01", "57P01"]);
      const waiting = [iterator.next(), iterator.next()];
      await listener.close();
      for (const one of waiting) t.assert.deepEqual(await one, { done: true, value: undefined });
    },
  },
  "an abort ends a listener, a wrong password rejects at once, and close may be called twice": {
    differs: ["sockets", "timers"],
    async run(t) {
      const client = await t.client();
      const leaving = new AbortController();
      const listener = await client.listen(newChannel(), { signal: leaving.signal });
      const next = listener[Symbol.asyncIterator]().next();
      await client.query("select 1"); // by now it waits for the socket
      leaving.abort("enough");
      await t.assert.rejects(next, { code: "ABORTED", cause: "enough" });
      await listener.close();
      await listener.close();
      await t.assert.code(client.listen(""), "INVALID_QUERY");
      await t.assert.rejects(client.listen("x", { signal: leaving.signal }), { code: "ABORTED", cause: "enough" });
      const early = new AbortController();
      const connecting = t.pgz.createClient({ ...t.options, observer: { onConnect: () => early.abort("enough") } });
      await t.assert.rejects(connecting.listen("x", { signal: early.signal }), { code: "ABORTED", cause: "enough" });
      const other = t.pgz.createClient({ ...t.options, password: "wrong" });
      await t.assert.code(other.listen("x"), "28P01");
      await other.close();
    },
  },
  async "a prepared statement knows its types, runs with other values each time, and is gone after close"(t) {
    const client = await t.client();
    const prepared = () =>
      client
        .query<{ n: number }>(
          "select count(*)::int4 as n from pg_prepared_statements " +
            "where statement like '%prepared by hand%' and statement not like '%pg_prepared_statements%'",
        )
        .then(({ rows }) => rows[0]?.n);
    const statement = await client.prepare<{ n: number }>("select $1::int4 + $2 as n /* prepared by hand */");
    t.assert.deepEqual(statement.parameterTypes, [23, 23]);
    t.assert.deepEqual(namesOf(statement.fields), ["n"]);
    t.assert.equal(await prepared(), 1);
    for (const n of [1, 2, 3]) await t.assert.rows(statement.query([n, 1]), [{ n: n + 1 }]);
    t.assert.deepEqual(await statement.exec([1, 2]), { command: "SELECT", rowCount: 1 });
    t.assert.deepEqual(await client.batch([statement.bind(1, 2), statement.bind(3, 4)]).then((all) => rowsOf(all)), [
      [{ n: 3 }],
      [{ n: 7 }],
    ]);
    t.assert.equal(await prepared(), 1);
    const again = await client.prepare("select $1::int4 + $2 as n /* prepared by hand */");
    t.assert.equal(await prepared(), 1);
    again.close();
    statement.close();
    statement.close();
    t.assert.equal(await prepared(), 0);
    t.assert.equal(await codeOf(Promise.resolve().then(() => statement.query([1, 2]))), "INVALID_QUERY");
    await t.assert.code(client.prepare("selec"), "42601");
    await t.assert.code(client.prepare(t.pgz.sql`select ${1}::int4`), "INVALID_QUERY");
    await client.transaction(async (tx) => {
      const inside = await tx.prepare("select $1::text as t");
      await t.assert.rows(inside.query(["x"]), [{ t: "x" }]);
    });
  },
};
