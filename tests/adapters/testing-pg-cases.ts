// Cases of `pgz-edge/testing` for code that uses pg: its pool and its clients, by `pgz-edge/pg`.
import { assert } from "../integration/assert.ts";
import { until } from "../support/until.mjs";
import { code, equal, INSERT, type Case, type Item, type Place } from "./testing-world.ts";

const pgNames = async (db: { query(text: string): Promise<{ rows: Item[] }> }) =>
  (await db.query("select name from item order by id")).rows.map(({ name }) => name);

/** Runs the case over a pool of the facade. */
const overPg =
  (run: (db: ReturnType<Place["pgPool"]>, place: Place) => Promise<void>): Case =>
  async (place) => {
    await place.modules.testing.withRollback(place.pgPool(), (db) => run(db, place));
    equal(await place.stored(), []);
  };

export const pgCases: Record<string, Case> = {
  "pg: BEGIN, COMMIT and ROLLBACK are savepoints": overPg(async (db) => {
    const client = await db.connect();
    const commands: unknown[] = [];
    const run = async (text: string, values?: unknown[]) =>
      void commands.push((await client.query(text, values)).command);
    await run("BEGIN ISOLATION LEVEL SERIALIZABLE");
    await run(INSERT, ["a"]);
    equal(client.getTransactionStatus(), "T");
    await run("COMMIT");
    equal(client.getTransactionStatus(), "I");
    await run("start transaction");
    await run(INSERT, ["b"]);
    await run("savepoint s");
    equal(await code(client.query(INSERT, ["a"])), "23505");
    equal(await code(client.query("select 1")), "25P02");
    equal(client.getTransactionStatus(), "E");
    await run("rollback to savepoint s");
    await run("rollback");
    await run("begin");
    equal(await code(client.query(INSERT, ["a"])), "23505");
    await run("commit");
    await run("begin read only");
    equal(await code(client.query(INSERT, ["c"])), "25006");
    await run("rollback");
    await run("begin");
    await run("set transaction isolation level serializable");
    await run(INSERT, ["d"]);
    await run("commit and chain");
    await run(INSERT, ["e"]);
    await run("abort");
    await run("commit");
    equal(
      commands,
      (
        "BEGIN INSERT COMMIT BEGIN INSERT SAVEPOINT ROLLBACK ROLLBACK BEGIN ROLLBACK BEGIN ROLLBACK " +
        "BEGIN SET INSERT COMMIT INSERT ROLLBACK COMMIT"
      ).split(" "),
    );
    client.release();
    equal(await pgNames(db), ["a", "d"]);
  }),

  "pg: a statement that fails keeps earlier ones, with a pool and with a client": overPg(async (db) => {
    await db.query(INSERT, ["a"]);
    equal(await code(db.query(INSERT, ["a"])), "23505");
    const client = await db.connect();
    equal(await code(client.query({ text: INSERT, values: ["a"] })), "23505");
    await client.query({ name: "named", text: INSERT, values: ["b"] });
    equal(await code(client.query("select 1; select 1 / 0")), "22012");
    client.release();
    equal(await pgNames(db), ["a", "b"]);
  }),

  "pg: callbacks work, and transactions of several clients at the same time": overPg(async (db) => {
    const rows = await new Promise((resolve, reject) =>
      db.query("select $1::int4 as a", [1], (error, result) => (error ? reject(error) : resolve(result.rows))),
    );
    equal(rows, [{ a: 1 }]);
    const error = await new Promise((resolve) => db.query("select 1 / 0", (failed) => resolve(failed)));
    equal((error as { code: string }).code, "22012");
    const seen = await new Promise((resolve, reject) =>
      db.connect((failed, client, release) => {
        if (failed) return reject(failed);
        client.query({
          text: "select 2 as a",
          callback: (wrong, result) => (release(), wrong ? reject(wrong) : resolve(result.rows)),
        });
      }),
    );
    equal(seen, [{ a: 2 }]);
    const transaction = async (name: string, ends: string) => {
      const client = await db.connect();
      await client.query("begin");
      await client.query(INSERT, [name]);
      await client.query("select pg_sleep(0.01)");
      await client.query(ends);
      client.release();
    };
    await Promise.all([
      transaction("a", "commit"),
      transaction("b", "rollback"),
      transaction("c", "commit"),
      db.query(INSERT, ["d"]),
    ]);
    equal((await pgNames(db)).sort(), ["a", "c", "d"]);
  }),

  "pg: a text may have BEGIN and COMMIT in it": overPg(async (db) => {
    const results = (await db.query(
      "begin; insert into item (name) values ('a;'); commit; select name from item",
    )) as unknown as { command: string; rows: unknown[] }[];
    equal(
      results.map(({ command }) => command),
      ["BEGIN", "INSERT", "COMMIT", "SELECT"],
    );
    equal(results[3]!.rows, [{ name: "a;" }]);
    equal(await code(db.query("prepare transaction 'x'")), "TRANSACTION_OPEN");
  }),

  "pg: a deferred constraint is checked at COMMIT": overPg(async (db) => {
    const client = await db.connect();
    await client.query("begin");
    await client.query("insert into part values (7)");
    equal(await code(client.query("commit")), "23503");
    equal(client.getTransactionStatus(), "I");
    client.release();
    equal((await db.query("select from part")).rowCount, 0);
  }),

  "pg: a client that is released in its transaction rolls it back": overPg(async (db) => {
    const client = await db.connect();
    client.on("notice", () => {});
    await client.query("begin");
    await client.query(INSERT, ["a"]);
    client.release();
    equal(await pgNames(db), []);
    assert.match((await assert.rejects((async () => client.release())())).message, /already been released/);
    await db.end();
    equal(await pgNames(db), [], "end() of the code under test leaves the pool open");
  }),

  "pg: a query object such as a cursor works": overPg(async (db, { modules }) => {
    const client = await db.connect();
    const rows: unknown[] = [];
    const query = new modules.pg.Query("select i from generate_series(1, 3) i");
    query.on("row", (row) => rows.push(row));
    const ended = new Promise((resolve) => query.on("end", resolve));
    client.query(query);
    await ended;
    const failing = new modules.pg.Query("select 1 / 0");
    const failed = new Promise((resolve) => failing.on("error", resolve));
    client.query(failing);
    equal(((await failed) as { code: string }).code, "22012");
    equal(rows.length, 3);
    await client.query(INSERT, ["a"]);
    client.release();
    equal(await pgNames(db), ["a"]);
  }),

  "pg: a client is one connection": async (place) => {
    await place.modules.testing.withRollback(await place.pgClient(), async (client) => {
      await client.connect();
      await client.query("begin");
      await client.query(INSERT, ["a"]);
      await client.query("commit");
      await client.end();
      equal(await pgNames(client), ["a"]);
    });
    equal(await place.stored(), []);
  },

  "pg: a query that outlives its test is cancelled, and the client goes on": async (place) => {
    const client = await place.pgClient();
    let running!: Promise<unknown>;
    await place.modules.testing.withRollback(client, async (db) => {
      await db.query(INSERT, ["a"]);
      running = code(db.query(`select pg_sleep(60) as ${place.schema}`));
      const sleeps = "select from pg_stat_activity where wait_event = 'PgSleep' and position($1 in query) > 0";
      await until(async () => (await place.pool.query(sleeps, [place.schema])).rows.length === 1);
    });
    equal(await running, "57014");
    equal((await client.query("select 1 as n")).rows, [{ n: 1 }]);
    equal(await place.stored(), []);
  },

  "pg: after the test nothing can be written": async (place) => {
    const { withRollback } = place.modules.testing;
    const pool = place.pgPool();
    let kept!: typeof pool;
    let running!: Promise<unknown>;
    await withRollback(pool, async (db) => {
      kept = db;
      const client = await db.connect();
      await client.query("begin");
      await client.query(INSERT, ["a"]);
      running = code(client.query("select pg_sleep(0.2)").then(() => client.query("commit")));
    });
    equal(await running, "TRANSACTION_FINISHED");
    equal(await code(kept.query(INSERT, ["b"])), "TRANSACTION_FINISHED");
    equal(await place.stored(), []);
  },
};
