// batch(): several statements in one pipeline, as one transaction or each on its own, and what the caller learns when
// one fails.
import type { BatchFailure, BatchOptions, Client, PgzError, PostgresError } from "../../../js/index.ts";
import type { Cases } from "../context.ts";
import { pause } from "../../support/until.mjs";
import { asleep, codeOf, gone, namesOf, newMark, newSchema, rowsOf, terminateRunning, unseen } from "./helpers.ts";
import { newNumbers } from "./tables.ts";

const decoder = new TextDecoder();

const numbers = async (client: Client, table: string) =>
  (await client.query<{ n: number }>(`select n from ${table} order by n`)).rows.map(({ n }) => n);
const failure = (error: unknown) => (error as { batch?: BatchFailure }).batch;

export const batch: Cases = {
  async "a batch gives each statement its rows, fields, command and count, in order"(t) {
    const [client, table] = await newNumbers(t);
    const { sql } = t.pgz;
    for (let time = 0; time < 3; time++) {
      const results = await client.batch([
        sql`select ${1}::int4 as a`,
        `delete from ${table}`,
        sql`insert into ${sql.unsafe(table)} ${sql.values([
          [1, "one"],
          [2, null],
        ])} returning n, t`,
        sql`select ${2}::int4 as a`,
        "select n as b from generate_series(1, 3) n",
        "",
        sql`update ${sql.unsafe(table)} set t = ${"x"} where n = ${1}`,
        sql`select ${3}::int4 as a`,
      ]);
      const inserted = ["one", null].map((t, at) => ({ n: at + 1, t }));
      t.assert.deepEqual(
        results.map(({ command, rowCount, rows, fields }) => [command, rowCount, rows, namesOf(fields).join()]),
        [
          ["SELECT", 1, [{ a: 1 }], "a"],
          ["DELETE", time ? 2 : 0, [], ""],
          ["INSERT", 2, inserted, "n,t"],
          ["SELECT", 1, [{ a: 2 }], "a"],
          ["SELECT", 3, [{ b: 1 }, { b: 2 }, { b: 3 }], "b"],
          ["", null, [], ""],
          ["UPDATE", 1, [], ""],
          ["SELECT", 1, [{ a: 3 }], "a"],
        ],
      );
    }
    for (const atomic of [true, false]) {
      const [one] = await client.batch(["select 1"], { atomic, results: "count" });
      t.assert.deepEqual(
        one,
        atomic
          ? { command: "SELECT", rowCount: 1 }
          : { status: "fulfilled", value: { command: "SELECT", rowCount: 1 } },
      );
    }
    t.assert.deepEqual(await client.batch([]), []);
    t.assert.equal(client.stats().transactionStatus, "I");
  },
  async "a batch can return lines of JSON or counts, and rows by the options of the call"(t) {
    const client = await t.client();
    const { sql } = t.pgz;
    const queries = [
      sql`select ${1}::int4 as n`,
      sql`select 'ä' as t, ${2n}::int8 as m from generate_series(1, 2)`,
      "select where false",
      sql`select ${3}::int4 as n`,
    ];
    const lines = await client.batch(queries, { results: "ndjson" });
    t.assert.deepEqual(
      lines.map(({ bytes }) => decoder.decode(bytes)),
      ['{"n":1}\n', '{"t":"ä","m":2}\n{"t":"ä","m":2}\n', "", '{"n":3}\n'],
    );
    t.assert.deepEqual(
      await client.batch(queries, { results: "count" }),
      [1, 2, 0, 1].map((rowCount) => ({ command: "SELECT", rowCount })),
    );
    const arrays = await client.batch(queries, { rowMode: "array", int8: "bigint" });
    t.assert.deepEqual(rowsOf(arrays), [
      [[1]],
      [
        ["ä", 2n],
        ["ä", 2n],
      ],
      [],
      [[3]],
    ] as never);
    const settled = await client.batch(queries, { atomic: false, results: "ndjson" });
    t.assert.deepEqual(
      settled.map((item) => (item.status === "fulfilled" ? decoder.decode(item.value.bytes) : item.reason)),
      lines.map(({ bytes }) => decoder.decode(bytes)),
    );
    for (const options of [{ atomic: 1 }, { results: "json" }, { maxRows: -1 }, { rowMode: "list" }])
      await t.assert.code(client.batch(queries, options as never), "INVALID_OPTION");
    await t.assert.code(client.batch("select 1" as never), "INVALID_QUERY");
    await t.assert.code(client.batch([sql`select ${1}::int4 as n`, "copy t from stdin"]), "COPY_NEEDS_COPY_CALL");
  },
  async "an atomic batch that fails names the failed item, the items it undid and the items it skipped"(t) {
    const [client, table] = await newNumbers(t);
    const { sql } = t.pgz;
    const insert = (n: number) => sql`insert into ${sql.unsafe(table)} values (${n})`;
    for (let time = 0; time < 3; time++) {
      const error = await t.assert.rejects(
        client.batch([insert(1), insert(2), sql`select 1 / ${0}::int4`, insert(3)]),
        { code: "22012", name: "PostgresError" },
      );
      t.assert.deepEqual(failure(error), { index: 2, rolledBack: [0, 1], skipped: [3] });
      t.assert.deepEqual(await numbers(client, table), []);
    }
    const atCommit = await t.assert.code(client.batch([insert(1), insert(1)]), "23505");
    t.assert.deepEqual(failure(atCommit), { index: undefined, rolledBack: [0, 1], skipped: [] });
    const atParse = await t.assert.code(client.batch([insert(1), "selec", insert(1)]), "42601");
    t.assert.deepEqual(failure(atParse), { index: 1, rolledBack: [], skipped: [0, 2] });
    const value = await t.assert.code(client.batch([insert(1), insert(2 ** 31)]), "PARAMETER_OUT_OF_RANGE");
    t.assert.equal(failure(value)?.index, 1);
    await t.assert.code(client.batch([insert(1), insert("x" as never)]), "INVALID_PARAMETER");
    t.assert.deepEqual(await numbers(client, table), []);
    await client.batch([insert(1), insert(2)]);
    t.assert.deepEqual(await numbers(client, table), [1, 2]);
  },
  async "in an isolated batch each item succeeds or fails on its own, in order, after any kind of error"(t) {
    const [client, table] = await newNumbers(t);
    const { sql } = t.pgz;
    const insert = (n: number) => sql`insert into ${sql.unsafe(table)} values (${n}) returning n`;
    const divide = sql`select 1 / (3 - n) as q from generate_series(1, 5) n`;
    for (let time = 0; time < 3; time++) {
      await client.exec(`delete from ${table}`);
      const settled = await client.batch(
        [insert(1), divide, insert(1), "selec", insert(2), sql`select count(*)::int4 as n from ${sql.unsafe(table)}`],
        { atomic: false },
      );
      t.assert.deepEqual(rowsOf(settled), [[{ n: 1 }], "22012", "23505", "42601", [{ n: 2 }], [{ n: 2 }]]);
      t.assert.deepEqual(await numbers(client, table), [1, 2]);
    }
  },
  async "a batch inside a transaction begins it, and is rolled back with it"(t) {
    const [client, table] = await newNumbers(t);
    const { sql } = t.pgz;
    const insert = (n: number) => sql`insert into ${sql.unsafe(table)} values (${n})`;
    for (const atomic of [true, false] as const) {
      await t.assert.rejects(
        client.transaction(async (tx) => {
          if (atomic) await tx.batch([insert(1), insert(2)]);
          else await tx.batch([insert(1), insert(2)], { atomic });
          t.assert.equal((await tx.query<{ n: number }>(`select count(*)::int4 as n from ${table}`)).rows[0]?.n, 2);
          throw new Error("no");
        }),
        { message: "no" },
      );
      t.assert.deepEqual(await numbers(client, table), []);
    }
    await client.transaction(async (tx) => {
      t.assert.equal(
        await codeOf(tx.transaction((inner) => inner.batch([insert(1), sql`select 1 / ${0}::int4`]))),
        "22012",
      );
      await tx.batch([insert(3), insert(4)]);
      // Items are isolated only as far as the transaction lets them be; a savepoint that has failed cannot be
      // released.
      let states = "";
      const inner = tx.transaction(async (inner) => {
        const settled = await inner.batch([insert(5), sql`select 1 / ${0}::int4`, insert(6)], { atomic: false });
        states = settled
          .map((item) => (item.status === "fulfilled" ? item.value.command : (item.reason as PgzError).code))
          .join();
      });
      await t.assert.code(inner, "25P02");
      t.assert.equal(states, "INSERT,22012,25P02");
    });
    t.assert.deepEqual(await numbers(client, table), [3, 4]);
  },
  "three thousand results of 30 kB and 30 MB of parameters pass through one batch without a deadlock": {
    differs: ["sockets"],
    async run(t) {
      const client = await t.client();
      const { sql } = t.pgz;
      const large = sql`select repeat('x', ${30_000}::int4) as t`;
      const counts = await client.batch(
        Array.from({ length: 3_000 }, () => large),
        { results: "count" },
      );
      t.assert.equal(counts.filter(({ rowCount }) => rowCount === 1).length, 3_000);
      const value = "y".repeat(100_000);
      const sizes = await client.batch(
        Array.from({ length: 300 }, () => sql`select ${value}::text as t`),
        { results: "ndjson" },
      );
      t.assert(sizes.every(({ bytes }) => bytes.length === value.length + 9));
    },
  },
  "limits, a timeout and an abort hold for the whole batch, and the next call works": {
    differs: ["timers"],
    async run(t) {
      const client = await t.client();
      const { sql } = t.pgz;
      const three = "select n from generate_series(1, 3) n";
      t.assert.equal((await client.batch([three, three], { maxRows: 6 })).length, 2);
      await t.assert.rejects(client.batch([three, three], { maxRows: 5 }), {
        code: "RESPONSE_TOO_LARGE",
        limit: "rows",
        observed: 6,
      });
      const few = { maxBytes: 50, results: "ndjson" } as const;
      t.assert.equal((await client.batch([three, three], few)).length, 2);
      const many = client.batch([three, three, three], few);
      await t.assert.rejects(many, { code: "RESPONSE_TOO_LARGE", limit: "bytes" });
      for (const atomic of [true, false]) {
        const mark = newMark();
        const leaving = new AbortController();
        const call = client.batch(
          Array.from({ length: 5 }, () => `select pg_sleep(60) /* ${mark} */`),
          { atomic, signal: leaving.signal } as never,
        );
        const rejected = t.assert.code(call, "ABORTED");
        await asleep(t, mark);
        leaving.abort();
        await rejected;
        await gone(t, mark);
        await t.assert.rows(client.query("select 1 as n"), [{ n: 1 }]);
      }
      await t.assert.code(client.batch([sql`select pg_sleep(20)`], { timeout: 50 }), "QUERY_TIMEOUT");
      await t.assert.rows(client.query("select 1 as n"), [{ n: 1 }]);
    },
  },
  async "a batch after DDL sees the tables as they are now, and no statement of it runs twice"(t) {
    const [client, table] = await newNumbers(t);
    const { sql } = t.pgz;
    const insert = sql`insert into ${sql.unsafe(table)} (n) values (${7}) returning *`;
    t.assert.deepEqual((await client.batch([insert]))[0]?.rows, [{ n: 7, t: null }]);
    await unseen(client, `delete from ${table}; alter table ${table} alter n type int8, add more text default 'm'`);
    t.assert.deepEqual(rowsOf(await client.batch([`select count(*)::int4 as c from ${table}`, insert])), [
      [{ c: 0 }],
      [{ n: "7", t: null, more: "m" }],
    ] as never);
    await unseen(client, `delete from ${table}; alter table ${table} drop more`);
    const settled = await client.batch([insert], { atomic: false });
    t.assert.deepEqual(rowsOf(settled), [[{ n: "7", t: null }]]);
    t.assert.deepEqual((await numbers(client, table)) as unknown[], ["7"]);
  },
  async "a batch item that is out of date and cannot run again fails once, and the next batch describes it anew"(t) {
    const [client, table] = await newNumbers(t);
    const items = [`select * from ${table}`, "select 1 as one"];
    const codes = async () =>
      (await client.batch(items, { atomic: false })).map((item) =>
        item.status === "fulfilled" ? "" : (item.reason as PgzError).retryable,
      );
    t.assert.deepEqual(await codes(), ["", ""]);
    await unseen(client, `alter table ${table} add more text`);
    // The item after the stale one has run.
    t.assert.deepEqual(await codes(), [true, ""]);
    t.assert.deepEqual(await codes(), ["", ""]);
    await unseen(client, `alter table ${table} drop more`);
    const inside = () =>
      client.transaction(async (tx) => {
        await tx.exec(`lock table ${table} in share mode`);
        return tx.batch(items);
      });
    await t.assert.rejects(inside(), { name: "PostgresError", code: "0A000" });
    t.assert.deepEqual(
      (await inside()).map(({ fields }) => fields.length),
      [2, 1],
    );
  },
  async "a batch of ten thousand executions returns every result, and names the one that fails"(t) {
    const [client, table] = await newNumbers(t);
    const { sql } = t.pgz;
    const insert = (n: number) => sql`insert into ${sql.unsafe(table)} (n) values (${n})`;
    const results = await client.batch(
      Array.from({ length: 10_000 }, (_, n) => insert(n)),
      { results: "count" },
    );
    t.assert(results.every(({ command, rowCount }) => command === "INSERT" && rowCount === 1));
    const rows = await client.batch(
      Array.from({ length: 10_000 }, (_, n) => sql`select ${n}::int4 as n, ${`t${n}`}::text as t`),
    );
    t.assert(rows.every(({ rows: [row] }, n) => row?.n === n && row.t === `t${n}`));
    const error = await t.assert.code(
      client.batch(Array.from({ length: 10_000 }, (_, n) => sql`select 1 / ${n - 9_000}::int4 as n`)),
      "22012",
    );
    t.assert.equal(failure(error)?.index, 9_000);
    t.assert.deepEqual([failure(error)?.rolledBack.length, failure(error)?.skipped.length], [9_000, 999]);
  },
  "a batch rejects when its connection is terminated in the middle": {
    differs: ["sockets"],
    ownServer: true,
    async run(t) {
      const client = await t.pgz.connect(t.options);
      const mark = newMark();
      const rejected = t.assert.rejects(client.batch(["select 1", `select pg_sleep(60) /* ${mark} */`, "select 2"]), {
        name: "PostgresError",
        code: "57P01",
      });
      await asleep(t, mark);
      await terminateRunning(t, mark);
      const error = (await rejected) as unknown as PostgresError;
      t.assert.equal(error.severity, "FATAL");
      t.assert.deepEqual((await client.batch(["select 1 as n"]))[0]?.rows, [{ n: 1 }]);
      await client.close();
    },
  },
  "an atomic batch that is aborted, or whose source fails, stores nothing": {
    differs: ["sockets", "timers"],
    async run(t) {
      const [client, table] = await newNumbers(t);
      const { sql } = t.pgz;
      const many = Array.from(
        { length: 20_000 },
        (_, n) => sql`insert into ${sql.unsafe(table)} (n, t) values (${n}, ${"x".repeat(50)})`,
      );
      await client.batch(many.slice(0, 1).concat(sql`delete from ${sql.unsafe(table)}`));
      let aborted = 0;
      for (const ms of [1, 5, 10, 20, 40]) {
        const leaving = new AbortController();
        const call = client.batch(many, { results: "count", signal: leaving.signal });
        const settled = call.then(
          () => "stored",
          (error: PgzError) => error.code,
        );
        await pause(ms);
        leaving.abort();
        const outcome = await settled;
        t.assert.match(outcome, /^(stored|ABORTED)$/);
        if (outcome === "ABORTED") aborted++;
        const { n } = (await client.query<{ n: number }>(`select count(*)::int4 as n from ${table}`)).rows[0]!;
        // After the last byte has left, an abort may come too late to undo the batch, but it never undoes only a
        // part.
        t.assert(n === 0 || n === many.length, `${n} rows behind ${outcome}`);
        await client.exec(`delete from ${table}`);
      }
      t.assert(aborted > 0);
    },
  },
  async "after a batch has met a renamed column or another parameter type, the next query uses the new one"(t) {
    const [client, table] = await newNumbers(t);
    const { sql } = t.pgz;
    await client.exec(`insert into ${table} values (1, 'x')`);
    const all = `select * from ${table} order by 1`;
    for (let time = 0; time < 3; time++) await t.assert.rows(client.query(all), [{ n: 1, t: "x" }]);
    await unseen(client, `alter table ${table} rename n to renamed`);
    t.assert.deepEqual(rowsOf(await client.batch([all])), [[{ renamed: 1, t: "x" }]]);
    for (let time = 0; time < 2; time++) await t.assert.rows(client.query(all), [{ renamed: 1, t: "x" }]);
    const insert = (value: number | string) => sql`insert into ${sql.unsafe(table)} (renamed) values (${value})`;
    await client.batch([insert(2)]);
    await unseen(client, `alter table ${table} alter renamed type text`);
    await client.batch([insert("abc")]);
    t.assert.deepEqual((await client.prepare(`insert into ${table} (renamed) values ($1)`)).parameterTypes, [25]);
    const first = await client.prepare(all);
    await unseen(client, `alter table ${table} add more int4`);
    t.assert.deepEqual([first.fields.length, (await client.prepare(all)).fields.length], [2, 3]);
    await unseen(client, `alter table ${table} alter more type tsvector using null`);
    await client.batch([all]).catch((error: PgzError) => t.assert.equal(error.code, "SHAPE_CHANGED"));
    t.assert.equal((await client.batch([all]))[0]?.rows.length, 3);
  },
  "ten thousand statements with many columns are described without a deadlock": {
    differs: ["sockets"],
    async run(t) {
      const client = await t.client();
      const columns = Array.from({ length: 12 }, (_, n) => `${n} as a_long_name_for_a_column_${n}`).join();
      const results = await client.batch(
        Array.from({ length: 10_000 }, (_, n) => `select ${columns}, ${n} as n`),
        { results: "count" },
      );
      t.assert.equal(results.length, 10_000);
    },
  },
  async "later batch items share the error of a statement that cannot be parsed, and closing a prepared statement harms no running batch"(
    t,
  ) {
    const [client, table] = await newNumbers(t);
    const { sql } = t.pgz;
    const query = `select n from ${table}`;
    await client.batch([query]);
    await unseen(client, `alter table ${table} rename n to other`);
    const other = await t.pgz.connect(t.options);
    const settled = await other.batch([query, "select 1 as n", query], { atomic: false });
    t.assert.deepEqual(rowsOf(settled), ["42703", [{ n: 1 }], "42703"]);
    await other.close();
    const statement = await client.prepare(`insert into ${table} (other, t) values ($1, $2)`);
    const running = client.batch(
      Array.from({ length: 5_000 }, (_, n) => statement.bind(n, "y".repeat(100))),
      { results: "count" },
    );
    await pause(1);
    statement.close();
    t.assert.equal((await running).length, 5_000);
    t.assert.equal(
      (await client.query<{ n: number }>(sql`select count(*)::int4 as n from ${sql.unsafe(table)}`)).rows[0]?.n,
      5_000,
    );
  },
  async "an item that is a COMMIT keeps what came before, also if the item behind it is new"(t) {
    const [client, s] = await newSchema(t);
    await client.exec(`create table ${s}.log (n int4)`);
    const insert = (n: number) => `insert into ${s}.log values (${n}) returning n`;
    // From the second round on COMMIT is known, and the first item too.
    for (const n of [1, 2, 3]) {
      const [first, , last] = await client.batch([insert(0), "commit", insert(n)]);
      t.assert.deepEqual([first?.rows, last?.rows], [[{ n: 0 }], [{ n }]]);
    }
  },
  async "an atomic batch that the driver ends says that its outcome is unknown"(t) {
    const [client, s] = await newSchema(t);
    await client.exec(`create table ${s}.log (n int4)`);
    const insert = (mark: string) => `insert into ${s}.log values (1) /* ${mark} */`;
    const twice = "select 1 as a, 2 as a";
    const refused = () => {
      throw new Error("refused");
    };
    const cases: [string, BatchOptions, string][] = [
      [twice, { duplicates: "error" }, "DUPLICATE_COLUMN"],
      ["select 'x'::text as x", { types: { text: refused } }, "INVALID_VALUE"],
      ["select row(1, 2::money) as r", {}, "SHAPE_CHANGED"],
      ["select n from generate_series(1, 9) as n", { maxRows: 2 }, "RESPONSE_TOO_LARGE"],
    ];
    for (const [text, options, code] of cases)
      for (const mark of ["new", "known"]) {
        const texts = [insert(mark + code), text];
        const ended = client.batch(texts, options);
        const isItems = code === "DUPLICATE_COLUMN" || code === "INVALID_VALUE";
        const ofItem = isItems && { batch: { index: 1, rolledBack: [], skipped: [] }, query: text };
        await t.assert.rejects(ended, { code, transaction: "unknown", retryable: false, ...ofItem });
        // Within a transaction that is still open, nothing is stored yet.
        const within = client.transaction((tx) => tx.batch(texts, options));
        await t.assert.rejects(within, { code, transaction: undefined });
      }
    const failed = client.batch([insert("a"), "select 1 / 0"]);
    await t.assert.rejects(failed, { code: "22012", transaction: undefined });
  },
  async "rows that an isolated item cannot give reject that item only"(t) {
    const [client, s] = await newSchema(t);
    await client.exec(`create table ${s}.log (n int4)`);
    const insert = `insert into ${s}.log values (1)`;
    const refuse = (value: unknown) => {
      if (value === "refused") throw new Error("refused");
      return value;
    };
    const named = [insert, "select 1 as a, 2 as a", "select 3 as n"];
    const { sql } = t.pgz;
    const items = ["x", "refused", "y"].flatMap((text) => [insert, sql`select ${text}::text as x`]);
    for (let time = 0; time < 2; time++) {
      const ofNames = await client.batch(named, { atomic: false, duplicates: "error" });
      t.assert.deepEqual(rowsOf(ofNames), [[], "DUPLICATE_COLUMN", [{ n: 3 }]]);
      const ofParsers = await client.batch(items, { atomic: false, types: { text: refuse } });
      t.assert.deepEqual(rowsOf(ofParsers), [[], [{ x: "x" }], [], "INVALID_VALUE", [], [{ x: "y" }]]);
      const { reason } = ofParsers[3] as PromiseRejectedResult;
      t.assert.equal((reason as PgzError).transaction, "committed");
    }
    await t.assert.rows(client.query(`select count(*)::int4 as n from ${s}.log`), [{ n: 8 }]);
  },
};
