// Transactions that do not reach their normal end: abort, timeout, a lost connection, close().
import type { PgzError, Transaction } from "../../../js/index.ts";
import type { Cases } from "../context.ts";
import { inTime, until } from "../../support/until.mjs";
import { abortedAt, asleep, codeOf, gone, newMark, newSchema, pidOf, terminate } from "./helpers.ts";
import { count, newNumbers } from "./tables.ts";

export const transactionEnds: Cases = {
  async "tx.last sends COMMIT with the last statement, with the effect of an ordinary COMMIT"(t) {
    const [client, s] = await newSchema(t);
    const { sql } = t.pgz;
    const table = sql.identifier(s, "t");
    await client.exec(sql`create table ${table} (n int4 primary key deferrable initially deferred)`);
    const add = (n: number | string) => sql`insert into ${table} values (${n}) returning n`;
    const stored = async () =>
      (await client.query(sql`select n from ${table} order by n`, { rowMode: "array" })).rows.flat();
    await client.query(add(0));
    const { flights } = client.stats();
    const rows = await client.transaction(async (tx) => {
      await tx.query(add(1));
      await tx.query(add(2));
      return (await tx.last(add(3))).rows;
    });
    t.assert.equal(client.stats().flights - flights, 3);
    t.assert.deepEqual(rows, [{ n: 3 }]);
    await client.transaction((tx) => tx.last(add(4)));
    // Its COMMIT waits for the calls beside it.
    await client.transaction((tx) => Promise.all([tx.query(add(5)), tx.query(add(6)), tx.last(add(7))]));
    t.assert.deepEqual(await stored(), [0, 1, 2, 3, 4, 5, 6, 7]);
    const rejects = async (
      facts: Record<string, unknown>,
      last: (tx: Transaction) => Promise<unknown>,
      wanted: number[] = [],
    ) => {
      const before = await stored();
      const transaction = client.transaction(async (tx) => {
        await tx.query(add(90 + before.length));
        return last(tx);
      });
      await t.assert.rejects(transaction, facts);
      t.assert.deepEqual(await stored(), [...before, ...wanted]);
    };
    const byZero = sql`select 1 / ${0}::int4`;
    await rejects({ code: "22012", transaction: "rolled back" }, (tx) => tx.last(byZero));
    await rejects({ code: "TRANSACTION_ROLLED_BACK", transaction: "rolled back" }, (tx) =>
      tx.last(byZero).catch(() => {}),
    );
    await rejects({ code: "23505", transaction: "rolled back" }, (tx) => tx.last(add(1)));
    await rejects({ code: "INVALID_PARAMETER" }, (tx) => tx.last(add("x")));
    await rejects({ code: "TRANSACTION_OPEN" }, (tx) => tx.transaction((inner) => inner.last(add(8))));
    const many = "select n from generate_series(1, 100) n";
    const cap = { code: "RESPONSE_TOO_LARGE", transaction: "committed", retryable: false };
    await rejects(cap, (tx) => tx.last(many, { maxRows: 2 }), [98]);
    const late = { code: "TRANSACTION_FINISHED", transaction: "committed" };
    await rejects(late, (tx) => tx.last(many).then(() => tx.query(many)), [99]);
    // SQL has ended the transaction, and the COMMIT behind it finds none.
    const gone = { code: "TRANSACTION_FINISHED", transaction: "rolled back" };
    for (const end of ["rollback", "abort"]) await rejects(gone, (tx) => tx.last(end));
    await rejects({ ...gone, transaction: "unknown" }, (tx) => tx.last("commit"), [100]);
  },
  "an abort during the last statement reports the outcome of the transaction": {
    differs: ["timers"],
    async run(t) {
      const [client, s] = await newSchema(t);
      await client.exec(`create table ${s}.t (n int4)`);
      const mark = newMark();
      const transaction = client.transaction(async (tx) => {
        await tx.exec(`insert into ${s}.t values (1)`);
        await tx.last(`select pg_sleep(60) /* ${mark} */`, { signal: abortedAt(t, mark) });
      });
      await t.assert.rejects(transaction, { code: "ABORTED", transaction: "rolled back", hasNoEffect: false });
      await t.assert.rows(client.query(`select count(*)::int4 as n from ${s}.t`), [{ n: 0 }]);
    },
  },
  "a signal or the timeout ends a transaction at once: its query is cancelled, it is rolled back, and the client works on":
    {
      differs: ["timers"],
      async run(t) {
        const [client, table] = await newNumbers(t);
        for (const how of ["signal", "timeout", "between"] as const) {
          const mark = newMark();
          const giveUp = new AbortController();
          const insert = async (tx: { exec(sql: string): Promise<unknown> }) => {
            await tx.exec(`insert into ${table} values (1)`);
            if (how === "between") {
              giveUp.abort();
              await new Promise(() => {});
            }
            await tx.exec(`select pg_sleep(60) /* ${mark} */`);
          };
          const run = client.transaction(insert, how === "timeout" ? { timeout: 200 } : { signal: giveUp.signal });
          if (how === "signal") void asleep(t, mark).finally(() => giveUp.abort());
          await t.assert.rejects(run, how === "timeout" ? { code: "QUERY_TIMEOUT" } : { name: "AbortError" });
          await gone(t, mark);
          await until(() =>
            client.query("select 1").then(
              () => true,
              () => false,
            ),
          );
          t.assert.equal(await count(client, table), 0);
        }
      },
    },
  "a lost connection ends its transaction": {
    differs: ["sockets"],
    ownServer: true,
    async run(t) {
      const [, table] = await newNumbers(t);
      const client = await t.client();
      const lost = client.transaction(async (tx) => {
        await tx.exec(`insert into ${table} values (1)`);
        await t.side(`select pg_terminate_backend(${await pidOf(tx)})`);
        await tx.transaction((inner) => inner.query("select 1"));
      });
      t.assert.match(await codeOf(lost), /^(57P01|CONNECTION_LOST)$/);
      t.assert.deepEqual((await client.transaction((tx) => tx.query("select 1 as n"))).rows, [{ n: 1 }]);
    },
  },
  async "a connection that is lost during COMMIT: the transaction's error is its own, and says that nothing is known"(
    t,
  ) {
    let ofConnection: unknown;
    const client = await t.client({ observer: { onDisconnect: ({ error }) => void (ofConnection = error) } });
    for (const call of ["exec", "last"] as const) {
      await client.simple(`create temp table cut (n int4);
        create function pg_temp.cut() returns trigger language plpgsql as
          'begin perform pg_terminate_backend(pg_backend_pid()), pg_sleep(60); return null; end';
        create constraint trigger cut after insert on cut deferrable initially deferred
          for each row execute function pg_temp.cut()`);
      const run = client.transaction((tx) => tx[call]("insert into cut values (1)"));
      const error = await t.assert.rejects(run, { code: "57P01", retryable: false });
      t.assert.equal(error.transaction, "unknown");
      t.assert(ofConnection !== error, "the connection's error is not the transaction's");
      t.assert.equal((ofConnection as PgzError).transaction, undefined);
    }
  },
  "a transaction that was lost or never began rejects, even if its callback saw no error": {
    differs: ["sockets"],
    ownServer: true,
    async run(t) {
      const lost = (await t.client()).transaction(
        async (tx) => void (await tx.query("select pg_terminate_backend(pg_backend_pid())").catch(() => {})),
      );
      t.assert.match(await codeOf(lost), /^(57P01|CONNECTION_LOST)$/);
      const [client, table] = await newNumbers(t);
      // The session has begun a transaction with a BEGIN of its own.
      await client.exec("begin");
      await client.exec(`insert into ${table} values (1)`);
      t.assert.equal(
        await codeOf(client.transaction((tx) => tx.exec(`insert into ${table} values (2)`))),
        "TRANSACTION_OPEN",
      );
      await client.exec("commit");
      t.assert.equal(await count(client, table), 1);
      // Invalid options: the transaction must leave nothing.
      for (const options of [{ signal: new AbortController() }, { timeout: 2 ** 31 }, { timeout: "1" }])
        t.assert.equal(await codeOf(client.transaction(() => 1, options as never)), "INVALID_OPTION");
      // It was aborted before its turn.
      await t.assert.rejects(
        client.transaction(() => 1, { signal: AbortSignal.abort() }),
        { name: "AbortError", hasNoEffect: true, retryable: false },
      );
      await t.assert.rejects(
        client.transaction((tx) => tx.query("select pg_sleep(30)"), { timeout: 100 }),
        { code: "QUERY_TIMEOUT", retryable: false },
      );
      await client.transaction((tx) => tx.exec(`insert into ${table} values (3)`));
      t.assert.equal(await count(client, table), 2);
    },
  },
  "close() and a lost connection end a transaction whose callback waits for something else": {
    differs: ["sockets"],
    ownServer: true,
    async run(t) {
      for (const how of ["close", "lost"]) {
        const client = await t.client();
        const pid = await pidOf(client);
        const mark = newMark();
        const stuck = client.transaction(async (tx) => {
          await tx.query("select 1");
          for await (const batch of tx.cursor("select 1 as a", 1)) t.assert.equal(batch.length, 1);
          const more = tx.query(`select pg_sleep(60) /* ${mark} */`).catch(() => {});
          await (how === "lost" ? more : undefined);
          await new Promise(() => {});
        });
        const settled = codeOf(stuck);
        await asleep(t, mark);
        if (how === "close") await client.close();
        else await terminate(t, pid);
        t.assert.match(await inTime(settled), /^(CLIENT_CLOSED|57P01|CONNECTION_LOST)$/, how);
      }
    },
  },
};
