// cursor(): batches of rows through a portal, in the cursor's own transaction or the caller's.
import type { Client } from "../../../js/index.ts";
import type { Cases, Context } from "../context.ts";
import { pause, until } from "../../support/until.mjs";
import { gone, newMark, newSchema, pidOf, unseen } from "./helpers.ts";

/** Returns the state of a session as the server reports it to another session: "idle", "idle in transaction" … */
async function sessionState(t: Context, client: Client): Promise<() => Promise<string | null | undefined>> {
  const pid = await pidOf(client);
  return async () => (await t.side(`select state from pg_stat_activity where pid = ${pid}`))[0]?.[0];
}

const portals = async (client: Client) =>
  (await client.query("select count(*)::int4 as n from pg_cursors where name <> ''")).rows;
const numbers = (count: number) => `select n from generate_series(1, ${count}) n`;

export const cursor: Cases = {
  async "a cursor gives batches of n rows, the last one shorter"(t) {
    const client = await t.client();
    const { sql } = t.pgz;
    const sizes = async (count: number, size: number) => {
      const found: number[] = [];
      let next = 1;
      for await (const batch of client.cursor<{ n: number }>(
        sql`select n from generate_series(1, ${count}::int4) n`,
        size,
      )) {
        for (const { n } of batch) t.assert.equal(n, next++);
        found.push(batch.length);
      }
      return found;
    };
    t.assert.deepEqual(await sizes(10, 4), [4, 4, 2]);
    t.assert.deepEqual(await sizes(8, 4), [4, 4]);
    t.assert.deepEqual(await sizes(3, 4), [3]);
    t.assert.deepEqual(await sizes(0, 4), []);
    t.assert.deepEqual(await sizes(3, 1), [1, 1, 1]);
    t.assert.deepEqual(await sizes(100_000, 30_000), [30_000, 30_000, 30_000, 10_000]);
    t.assert.equal(client.stats().transactionStatus, "I");
    const arrays: unknown[] = [];
    for await (const batch of client.cursor("select n, n::int8 as n from generate_series(1, 2) n", 1, {
      rowMode: "array",
    }))
      arrays.push(...batch);
    t.assert.deepEqual(arrays, [
      [1, "1"],
      [2, "2"],
    ]);
    t.assert.equal(client.stats().rows, 10 + 8 + 3 + 3 + 100_000 + 2);
  },
  async "leaving a cursor early ends its own transaction and the portal, and the client still works"(t) {
    const client = await t.client();
    const state = await sessionState(t, client);
    for await (const batch of client.cursor(numbers(1000), 10)) {
      t.assert.equal(batch.length, 10);
      t.assert.equal(await state(), "idle in transaction");
      break;
    }
    t.assert.equal(await state(), "idle");
    t.assert.deepEqual(await portals(client), [{ n: 0 }]);
    const thrown = await t.assert.rejects(
      (async () => {
        for await (const batch of client.cursor(numbers(1000), 10)) throw new RangeError(`${batch.length} rows`);
      })(),
    );
    t.assert.equal(thrown.message, "10 rows");
    t.assert.equal(await state(), "idle");
    const unused = client.cursor(numbers(10), 1);
    await unused.return();
    await t.assert.rows(client.query("select 1 as a"), [{ a: 1 }]);
  },
  async "inside a transaction a cursor uses that transaction, and leaving early closes only the portal"(t) {
    const client = await t.client();
    await client.exec("begin");
    await client.exec("create temp table inside (n int4) on commit drop");
    await client.exec("insert into inside select generate_series(1, 100)");
    for await (const batch of client.cursor("select n from inside", 30)) {
      t.assert.equal(batch.length, 30);
      break;
    }
    t.assert.equal(client.stats().transactionStatus, "T");
    t.assert.deepEqual(await portals(client), [{ n: 0 }]);
    let count = 0;
    for await (const batch of client.cursor("select n from inside", 30)) count += batch.length;
    t.assert.equal(count, 100);
    t.assert.equal(client.stats().transactionStatus, "T");
    await client.exec("rollback");
    await client.exec("begin");
    await t.assert.rejects(client.query("select 1/0"));
    await t.assert.code(client.cursor(numbers(3), 1).next(), "25P02");
    await client.exec("rollback");
  },
  async "a cursor commits its statement's changes at its end, or when its loop is left"(t) {
    const client = await t.client();
    await client.exec("create temp table changed (n int4 unique deferrable initially deferred)");
    const insert = (to: number) => client.cursor(`insert into changed select generate_series(1, ${to}) returning n`, 2);
    for await (const batch of insert(2)) {
      t.assert.equal(batch.length, 2);
      break;
    }
    t.assert.equal((await client.query("table changed")).rowCount, 2);
    await client.exec("delete from changed");
    let rows = 0;
    for await (const batch of insert(5)) rows += batch.length;
    t.assert.equal(rows, 5);
    t.assert.equal((await client.query("table changed")).rowCount, 5);
    // A deferred constraint fails at COMMIT.
    await t.assert.code(
      (async () => {
        for await (const batch of insert(3)) void batch;
      })(),
      "23505",
    );
    await t.assert.code(
      (async () => {
        for await (const batch of insert(3)) if (batch.length) break;
      })(),
      "23505",
    );
    t.assert.equal((await client.query("table changed")).rowCount, 5);
    t.assert.equal((await client.cursor("create temp table made (n int4)", 2).next()).done, true);
    await t.assert.rows(client.query("table made"), []);
  },
  async "leaving a cursor says that nothing is stored, if its call failed while the body of the loop ran"(t) {
    const [client, schema] = await newSchema(t);
    await client.exec(`create table ${schema}.kept (n int4)`);
    const insert = `insert into ${schema}.kept select generate_series(1, 9) returning n`;
    const leaving = new AbortController();
    const state = await sessionState(t, client);
    const left = async () => {
      for await (const batch of client.cursor(insert, 2, { signal: leaving.signal })) {
        t.assert.equal(batch.length, 2);
        leaving.abort();
        // The transaction is rolled back, and the call is over, before the loop is left.
        await until(async () => (await state()) === "idle", "the transaction has ended");
        break;
      }
    };
    await t.assert.rejects(left(), { code: "ABORTED", committed: true, retryable: false });
    await t.assert.rows(client.query(`select n from ${schema}.kept`), []);
  },
  async "an error between the batches of a cursor reaches its reader, and the transaction is gone"(t) {
    const client = await t.client();
    const seen: number[] = [];
    const reading = (async () => {
      for await (const batch of client.cursor<{ x: number }>(
        "select 10 / (5 - n) as x from generate_series(1, 9) n",
        2,
      ))
        seen.push(...batch.map(({ x }) => x));
    })();
    await t.assert.rejects(reading, { code: "22012", committed: true });
    t.assert.deepEqual(seen, [2, 3, 5, 10]);
    await t.assert.rows(client.query("select 1 as a"), [{ a: 1 }]);
    t.assert.equal(client.stats().transactionStatus, "I");
    await t.assert.code(client.cursor("select * from no_such_table", 2).next(), "42P01");
    await t.assert.code(client.cursor("copy (select 1) to stdout", 2).next(), "COPY_NEEDS_COPY_CALL");
    await t.assert.rows(client.query("select 1 as a"), [{ a: 1 }]);
    t.assert.equal(client.stats().transactionStatus, "I");
  },
  async "a cursor's error says whether rows were delivered, and allows a retry only when none were"(t) {
    const client = await t.client();
    await client.exec(`create function pg_temp.conflict_at(n int4, at int4) returns int4 language plpgsql as
          $$ begin if n = at then raise exception 'a conflict' using errcode = '40001'; end if; return n; end $$`);
    const read = async (at: number, options: Parameters<Client["cursor"]>[2] = {}) => {
      for await (const batch of client.cursor(
        `select pg_temp.conflict_at(n, ${at}) as n from generate_series(1, 20) n`,
        5,
        options,
      ))
        t.assert.equal(batch.length, 5);
    };
    await t.assert.rejects(read(3), { code: "40001", committed: false, retryable: true });
    await t.assert.rejects(read(11), { code: "40001", committed: true, retryable: false });
    await t.assert.rejects(read(0, { maxRows: 3 }), { code: "RESPONSE_TOO_LARGE", committed: false });
    await t.assert.rejects(read(0, { maxRows: 12 }), { code: "RESPONSE_TOO_LARGE", committed: true });
    const controller = new AbortController();
    const aborted = client.cursor(numbers(20), 5, { signal: controller.signal });
    await aborted.next();
    controller.abort();
    await t.assert.rejects(aborted.next(), { code: "ABORTED", committed: true, hasNoEffect: false });
    // The last batch is held back until COMMIT succeeds: when COMMIT fails, only the earlier batches were
    // delivered.
    await client.exec("create temp table later (n int4 unique deferrable initially deferred)");
    const insert = (size: number) => client.cursor("insert into later values (1), (1), (2) returning n", size);
    await t.assert.rejects(insert(5).next(), { code: "23505", committed: false });
    const halves = insert(2);
    await halves.next();
    await t.assert.rejects(halves.next(), { code: "23505", committed: true });
  },
  async "a cursor over a table that has changed describes it anew"(t) {
    const client = await t.client();
    await client.exec("create temp table shifting (a int4)");
    await client.exec("insert into shifting values (1)");
    const first = async () => (await client.cursor("select * from shifting", 2).next()).value;
    for (let run = 0; run < 3; run++) t.assert.deepEqual(await first(), [{ a: 1 }]);
    await unseen(client, "alter table shifting add column b text default 'x'");
    for (let run = 0; run < 3; run++) t.assert.deepEqual(await first(), [{ a: 1, b: "x" }]);
    await unseen(client, "deallocate all");
    t.assert.deepEqual(await first(), [{ a: 1, b: "x" }]);
    t.assert.equal(client.stats().transactionStatus, "I");
  },
  "limits count over the whole cursor, and deadline and signal end it, even between batches": {
    differs: ["timers"],
    async run(t) {
      const client = await t.client();
      const read = async (options: Parameters<Client["cursor"]>[2], wait = 0) => {
        let rows = 0;
        for await (const batch of client.cursor(numbers(100), 10, options)) {
          rows += batch.length;
          if (wait) await pause(wait);
        }
        return rows;
      };
      const state = await sessionState(t, client);
      t.assert.equal(await read({ maxRows: 100 }), 100);
      await t.assert.rejects(read({ maxRows: 55 }), {
        code: "RESPONSE_TOO_LARGE",
        limit: "rows",
        value: 55,
        observed: 56,
      });
      await t.assert.rejects(read({ maxBytes: 100 }), { code: "RESPONSE_TOO_LARGE", limit: "bytes" });
      await t.assert.code(read({ timeout: 300 }, 200), "QUERY_TIMEOUT");
      const controller = new AbortController();
      const iterator = client.cursor(numbers(100), 10, { signal: controller.signal });
      await iterator.next();
      controller.abort();
      await until(async () => (await state()) === "idle");
      await t.assert.rows(client.query("select 1 as a"), [{ a: 1 }]);
      await t.assert.code(iterator.next(), "ABORTED");
      t.assert.equal((await iterator.next()).done, true);
      const mark = newMark();
      await t.assert.code(
        client.cursor(`select pg_sleep(30) /* ${mark} */`, 1, { timeout: 200 }).next(),
        "QUERY_TIMEOUT",
      );
      await gone(t, mark);
      await t.assert.rows(client.query("select 1 as a"), [{ a: 1 }]);
      t.assert.equal(client.stats().transactionStatus, "I");
    },
  },
  async "a deadline also stops a cursor's COMMIT"(t) {
    const client = await t.client();
    const notices: unknown[] = [];
    await client.simple(`create temp table lazy (n int4);
          create function pg_temp.sleepy() returns trigger language plpgsql
            as $$ begin perform pg_sleep(30); return null; end $$;
          create constraint trigger sleeps after insert on lazy deferrable initially deferred
            for each row execute function pg_temp.sleepy()`);
    const insert = client.cursor("insert into lazy values (1) returning n", 10, {
      timeout: 300,
      observer: { onNotice: (notice) => void notices.push(notice) },
    });
    await t.assert.code(insert.next(), "QUERY_TIMEOUT");
    await t.assert.rows(client.query("table lazy"), []);
    t.assert.equal(client.stats().transactionStatus, "I");
    t.assert.deepEqual(notices, []);
  },
  async "other calls reject while a cursor is open, and close() ends the cursor"(t) {
    const ends: (string | undefined)[] = [];
    const client = await t.pgz.connect({
      ...t.options,
      observer: { onQueryEnd: ({ error }) => void ends.push(error?.code) },
    });
    const iterator = client.cursor(numbers(100), 10);
    await iterator.next();
    await t.assert.code(client.query("select 1"), "STREAM_OPEN");
    await client.close();
    await t.assert.code(iterator.next(), "CLIENT_CLOSED");
    t.assert.deepEqual(ends, ["CLIENT_CLOSED"]);
    await t.assert.code((async () => client.cursor(numbers(1), 0))(), "INVALID_OPTION");
  },
};
