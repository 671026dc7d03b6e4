// Calls made together: they share the wire, are answered in order, and are not harmed by what happens to another call.
import type { PgzError } from "../../../js/index.ts";
import type { Cases, Context } from "../context.ts";
import { inTime, pause } from "../../support/until.mjs";
import { asleep, namesOf, newMark, newSchema, terminateRunning } from "./helpers.ts";

const codes = (settled: PromiseSettledResult<unknown>[]) =>
  settled.map((one) => (one.status === "fulfilled" ? "" : (one.reason as { code: string }).code));

/** A statement that these cases have already run, so that it needs no Describe. */
const numbers = (t: Context) => (n: number) => t.pgz.sql`select ${n}::int4 as n`;

export const together: Cases = {
  async "a failure, a cap or a wrong value in one call does not touch the calls beside it"(t) {
    const client = await t.client();
    const { sql } = t.pgz;
    const one = numbers(t);
    const byZero = (n: number) => sql`select 1 / ${n}::int4 as n`;
    const many = (n: number) => sql`select g as n from generate_series(1, ${n}::int4) g`;
    for (const query of [one(0), byZero(1), many(1)]) await client.query(query);
    const settled = await Promise.allSettled([
      client.query(one(1)),
      client.query(byZero(0)),
      client.query(one(2)),
      client.query(many(1000), { maxRows: 10 }),
      client.query(one(3)),
      client.query(sql`select ${"x"}::int4 as n`),
      client.query("select nothing"),
      client.query(many(100_000), { maxBytes: 1000 }),
      client.json(one(4)),
    ]);
    const limit = "RESPONSE_TOO_LARGE";
    t.assert.deepEqual(codes(settled), ["", "22012", "", limit, "", "INVALID_PARAMETER", "42703", limit, ""]);
    const rows = settled.flatMap((each) =>
      each.status === "fulfilled" && "rows" in each.value ? each.value.rows : [],
    );
    t.assert.deepEqual(rows, [{ n: 1 }, { n: 2 }, { n: 3 }]);
    await t.assert.rows(client.query(one(5)), [{ n: 5 }]);
  },
  async "calls run in the order in which they were made, even when one needs the wire alone"(t) {
    const [client, schema] = await newSchema(t);
    const { sql } = t.pgz;
    const table = sql.identifier(schema, "log");
    await client.exec(sql`create table ${table} (n int4)`);
    const add = (n: number) => client.exec(sql`insert into ${table} values (${n}::int4)`);
    const count = async () =>
      (await client.query<{ n: number }>(sql`select count(*)::int4 as n from ${table}`)).rows[0]?.n;
    for (let round = 0; round < 3; round++) {
      await client.exec(sql`truncate ${table}`);
      const counts = await Promise.all([
        count(),
        add(1).then(() => undefined),
        count(),
        client.simple(`insert into ${schema}.log values (2), (3)`).then(() => undefined),
        count(),
        client.exec(sql`alter table ${table} add column t${sql.unsafe(String(round))} text`).then(() => undefined),
        add(4).then(() => undefined),
        count(),
      ]);
      t.assert.deepEqual(
        counts.filter((each) => each !== undefined),
        [0, 1, 3, 4],
        `round ${round}`,
      );
    }
  },
  "an aborted call settles at once, wherever it is in the queue, and the calls beside it get their rows": {
    differs: ["timers"],
    async run(t) {
      const client = await t.client();
      const { sql } = t.pgz;
      const sleep = (mark: string, seconds: number) => sql`select ${mark}::text as mark, pg_sleep(${seconds}::float8)`;
      const one = numbers(t);
      await client.query(one(0));
      await client.query(sleep("", 0));
      const [front, behind] = [new AbortController(), new AbortController()];
      const mark = newMark();
      const calls = [
        client.query(sql`select ${1}::int4 as n, pg_sleep(60) ${sql.unsafe(`/* ${mark} */`)}`, {
          signal: front.signal,
        }),
        client.query(one(1)),
        client.query(sleep("behind", 60), { signal: behind.signal }),
        client.query(one(2)),
      ];
      const settled = Promise.allSettled(calls);
      await asleep(t, mark);
      behind.abort();
      // The first call is still running.
      await t.assert.rejects(inTime(calls[2] as Promise<unknown>), { code: "ABORTED", hasNoEffect: false });
      front.abort();
      t.assert.deepEqual(codes(await settled), ["ABORTED", "", "ABORTED", ""]);
      await t.assert.rows(client.query(one(3)), [{ n: 3 }]);
    },
  },
  "a cancel that hits a neighbouring call is hidden: that call runs again": {
    differs: ["sockets"],
    async run(t) {
      const client = await t.client();
      const { sql } = t.pgz;
      await client.exec("create temp table hits (n int4)");
      const sleep = (n: number, ms: number) => sql`select ${n}::int4 as n, pg_sleep(${ms / 1000}::float8)`;
      const add = (n: number) => sql`insert into hits values (${n}::int4)`;
      await client.query(sleep(0, 0));
      await client.exec(add(-1));
      const rounds = 60;
      for (let round = 0; round < rounds; round++) {
        const controller = new AbortController();
        const calls = Promise.allSettled([
          client.query(sleep(round, (round % 6) + 1), { signal: controller.signal }),
          client.query(sleep(round, 2)),
          client.exec(add(round)),
          client.query(sleep(round, 1)),
        ]);
        await pause(round % 5);
        controller.abort();
        const settled = await calls;
        t.assert.deepEqual(codes(settled.slice(1)), ["", "", ""], `round ${round}`);
      }
      const { rows } = await client.query("select count(*)::int4 as n, count(distinct n)::int4 as d from hits");
      t.assert.deepEqual(rows, [{ n: rounds + 1, d: rounds + 1 }]);
    },
  },
  async "in a transaction, calls after a failed one get 25P02 with its error as cause, and all is rolled back"(t) {
    const [client, schema] = await newSchema(t);
    const { sql } = t.pgz;
    const table = sql.identifier(schema, "log");
    await client.exec(sql`create table ${table} (n int4 primary key)`);
    const add = (n: number) => sql`insert into ${table} values (${n}::int4)`;
    await client.exec(add(0));
    let settled: PromiseSettledResult<unknown>[] = [];
    const failed = client.transaction(async (tx) => {
      const calls = [1, 0, 2, 3].map((n) => tx.exec(add(n)));
      settled = await Promise.allSettled(calls);
      await Promise.all(calls);
    });
    await t.assert.code(failed, "23505");
    t.assert.deepEqual(codes(settled), ["", "23505", "25P02", "25P02"]);
    const [, first, ...later] = settled.map((one) => (one.status === "rejected" ? (one.reason as Error) : undefined));
    for (const error of later) t.assert.equal(error?.cause, first);
    t.assert.equal(Object.hasOwn(first!, "cause"), false);
    await client.transaction((tx) => Promise.all([4, 5, 6].map((n) => tx.exec(add(n)))));
    await t.assert.rows(client.query(sql`select n from ${table} order by n`), [{ n: 0 }, { n: 4 }, { n: 5 }, { n: 6 }]);
  },
  "megabytes in both directions at once never wait for each other": {
    differs: ["sockets"],
    async run(t) {
      const client = await t.client();
      const { sql } = t.pgz;
      const text = "x".repeat(1 << 20);
      const echo = (n: number) => sql`select ${n}::int4 as n, ${text}::text as t`;
      await client.query(echo(0));
      const results = await Promise.all(
        Array.from({ length: 12 }, (_, n) => client.query<{ n: number; t: string }>(echo(n))),
      );
      results.forEach(({ rows }, n) => t.assert(rows[0]?.n === n && rows[0].t === text, `row ${n}`));
    },
  },
  async "after a table changes, each call gets the columns of its own rows"(t) {
    const [client, schema] = await newSchema(t);
    const { sql } = t.pgz;
    await client.exec(
      `create table ${schema}.wide (a int4); insert into ${schema}.wide values (1)`.split(";")[0] ?? "",
    );
    await client.exec(`insert into ${schema}.wide values (1)`);
    const all = () => client.query(sql`select * from ${sql.identifier(schema, "wide")}`);
    for (let round = 0; round < 3; round++) await all();
    await t.side(`alter table ${schema}.wide add column b text default 'b'`);
    const results = await Promise.all([all(), all(), all()]);
    for (const { rows, fields } of results) {
      t.assert.deepEqual(rows, [{ a: 1, b: "b" }]);
      t.assert.deepEqual(namesOf(fields), ["a", "b"]);
    }
    await t.side(`alter table ${schema}.wide rename column b to c`);
    const renamed = await Promise.all([all(), all()]);
    for (const { rows } of renamed) t.assert.deepEqual(rows, [{ a: 1, c: "b" }]);
  },
  "a lost connection rejects each call in flight with an error of its own, and none of them is retryable": {
    differs: ["sockets", "engine"],
    async run(t) {
      const client = await t.client();
      await client.query(numbers(t)(0));
      const mark = newMark(); // another case's session may sleep as long
      const texts = [`select /* ${mark} */ pg_sleep(60)`, "select 'behind'", "select 'last'"];
      // Otherwise some of them would still be described, which has no effect.
      for (const text of texts) await client.describe(text);
      const settled = Promise.allSettled([...texts.map((text) => client.query(text)), client.query(numbers(t)(1))]);
      await asleep(t, mark);
      await terminateRunning(t, mark);
      const errors = (await settled).map((lost) => (lost as PromiseRejectedResult).reason as PgzError);
      for (const [at, error] of errors.entries()) {
        t.assert(error instanceof t.pgz.PgzError && !error.retryable, String(error));
        t.assert.match(error.code, /^(57P01|CONNECTION_LOST)$/);
        t.assert.equal(error.code, errors[0]!.code);
        t.assert.equal(error.query, texts[at] ?? "select $1::int4 as n");
      }
      t.assert.equal(new Set(errors).size, 4, "one error each");
    },
  },
  async "sixty concurrent calls take turns, and an error spoils no other call"(t) {
    const client = await t.client();
    const { sql } = t.pgz;
    const calls = Array.from({ length: 60 }, (_, index) =>
      (index % 7 === 3
        ? client.query("select 1/0")
        : client.query<{ n: number }>(sql`select ${index}::int4 as n`)
      ).then(
        ({ rows }) => (rows[0] as { n: number }).n,
        (error: { code: string }) => error.code,
      ),
    );
    t.assert.deepEqual(
      await Promise.all(calls),
      Array.from({ length: 60 }, (_, index) => (index % 7 === 3 ? "22012" : index)),
    );
  },
};
