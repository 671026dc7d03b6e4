// Each library as source of rows, used in its own idiom: `open(url)` -> `{ simple, select, … pipelined_100 }`, each
// `(i) => rows` (pipelined_100: the rows of all hundred). A shape that a library does not support is missing. `call`,
// on Node: the library's own call without a wrapper, for per-call.mjs. A request runs one shape the given number of
// times in sequence, and returns the rows and the sum of a column; `check` returns the rows themselves, canonical.
import { openBare } from "../lib/bare.mjs";
import { pgClient, postgresJs } from "../lib/connect.mjs";
import { connectPgz, runBatch, sqlTag } from "../lib/pgz-edge.mjs";
import { args, canonicalRow, IN_FLIGHT, setup, shapes, simpleText } from "./shapes.mjs";

const { text, time, bytes, json } = args;
const hundred = (one) => Array.from({ length: IN_FLIGHT }, (_, index) => one(index));
const gathered = async (promises) => (await Promise.all(promises)).flat();

export const libraries = {
  "pgz-edge": async (url) => ours(await connectPgz(url), await sqlTag()),

  async "pg named"(url) {
    return pgOf(url, (name, text, values) => ({ name, text, values }));
  },

  async pg(url) {
    return pgOf(url, (name, text, values) => ({ text, values }));
  },

  async "postgres.js"(url) {
    const pool = await postgresJs(url, { fetch_types: false, onnotice: () => {} });
    await pool`select 1`;
    return {
      setup: (text) => pool.unsafe(text),
      call: () => pool`SELECT ${7}::int4 as x`,
      select: () => pool`SELECT 1 as x`,
      select_arg: (i) => pool`SELECT ${i}::int4 as x`,
      select_args: (i) =>
        pool`SELECT ${i}::int4 as a, ${text}::text as b, ${time}::timestamptz as c, ${null}::int4 as d, ${true}::bool as e, ${bytes}::bytea as f, ${pool.json(json)}::jsonb as g`,
      select_where: () => pool`select * from pg_catalog.pg_type where typname = ${"bool"}`,
      simple: () => pool.unsafe(simpleText).simple(),
      singles_55000: (i) => pool`SELECT id, name FROM harbors LIMIT ${(i % 10) + 1}`,
      pipelined_100: () => gathered(hundred((i) => pool`SELECT ${i}::int4 as x`)),
    };
  },

  async slonik(url) {
    // The library needs Node 24; only this function is missing in Node 20.
    Promise.withResolvers ??= function withResolvers() {
      const made = {};
      made.promise = new this((resolve, reject) => Object.assign(made, { resolve, reject }));
      return made;
    };
    const { createPool, sql } = await import("slonik");
    const pool = await createPool(url, {
      captureStackTrace: false,
      maximumPoolSize: 1,
      idleTimeout: "DISABLE_TIMEOUT",
      statementTimeout: "DISABLE_TIMEOUT",
    });
    const connection = await new Promise((resolve, reject) => {
      pool.connect((one) => new Promise(() => resolve(one))).catch(reject); // kept until the process ends
    });
    const rows = async (query) => (await connection.query(query)).rows;
    return {
      setup: (text) => connection.query(sql.unsafe(Object.assign([text], { raw: Object.freeze([text]) }))),
      call: () => connection.query(sql.unsafe`SELECT ${7}::int4 as x`),
      select: () => rows(sql.unsafe`SELECT 1 as x`),
      select_arg: (i) => rows(sql.unsafe`SELECT ${i}::int4 as x`),
      select_args: (i) =>
        rows(
          sql.unsafe`SELECT ${i}::int4 as a, ${text}::text as b, ${time.toISOString()}::timestamptz as c, ${null}::int4 as d, ${true}::bool as e, ${sql.binary(bytes)}::bytea as f, ${sql.jsonb(json)} as g`,
        ),
      select_where: () => rows(sql.unsafe`select * from pg_catalog.pg_type where typname = ${"bool"}`),
      simple: () => rows(sql.unsafe`SELECT id, name FROM harbors LIMIT 5`), // sent as a simple query
      singles_55000: (i) => rows(sql.unsafe`SELECT id, name FROM harbors LIMIT ${(i % 10) + 1}`),
    };
  },

  /** Its driver does not support types such as regproc in rows of `select_where`, and says so. */
  async "@effect/sql-pg"(url) {
    const { Effect, Redacted, Scope } = await import("effect");
    const { PgClient } = await import("@effect/sql-pg");
    const { layer } = await import("effect/reactivity/Reactivity");
    const scope = Effect.runSync(Scope.make()); // stays open until the process ends
    const opened = PgClient.makeClient({ url: Redacted.make(url) });
    const sql = await Effect.runPromise(opened.pipe(Scope.provide(scope), Effect.provide(layer)));
    const rows = (query) => Effect.runPromise(query);
    return {
      setup: (text) => rows(sql.unsafe(text)),
      call: () => rows(sql`SELECT ${7}::int4 as x`),
      select: () => rows(sql`SELECT 1 as x`),
      select_arg: (i) => rows(sql`SELECT ${i}::int4 as x`),
      select_args: (i) =>
        rows(
          sql`SELECT ${i}::int4 as a, ${text}::text as b, ${time}::timestamptz as c, ${null}::int4 as d, ${true}::bool as e, ${bytes}::bytea as f, ${sql.json(json)}::jsonb as g`,
        ),
      singles_55000: (i) => rows(sql`SELECT id, name FROM harbors LIMIT ${(i % 10) + 1}`),
    };
  },

  async "bun.sql"(url) {
    const sql = new globalThis.Bun.SQL(url, { max: 1, idleTimeout: 0, maxLifetime: 0 });
    return {
      setup: (text) => sql.unsafe(text),
      select: () => sql`SELECT 1 as x`,
      select_arg: (i) => sql`SELECT ${i}::int4 as x`,
      select_args: (i) =>
        sql`SELECT ${i}::int4 as a, ${text}::text as b, ${time}::timestamptz as c, ${null}::int4 as d, ${true}::bool as e, ${bytes}::bytea as f, ${json}::jsonb as g`,
      select_where: () => sql`select * from pg_catalog.pg_type where typname = ${"bool"}`,
      simple: () => sql.unsafe(simpleText).simple(),
      singles_55000: (i) => sql`SELECT id, name FROM harbors LIMIT ${(i % 10) + 1}`,
      pipelined_100: () => gathered(hundred((i) => sql`SELECT ${i}::int4 as x`)),
    };
  },

  /**
   * The driver's own bytes of a known statement, sent without the driver. Nothing is decoded: an operation returns the
   * number of bytes.
   */
  async bare(url) {
    const bare = await openBare(url);
    const driver = ours(bare.client, await sqlTag());
    const recordings = new Map();
    const recorded = async (shape) => {
      if (!recordings.has(shape)) {
        // the statement gets its name at its second run
        for (let time = 0; time < 5; time++) await bare.record(() => driver[shape](7));
        recordings.set(shape, await bare.record(() => driver[shape](7)));
        await bare.exchange(recordings.get(shape), { same: true });
      }
      return recordings.get(shape);
    };
    const recordable = [
      "select",
      "select_arg",
      "select_args",
      "select_where",
      ...(driver.pipelined_100 ? ["pipelined_100"] : []),
    ];
    return { recorded, exchange: bare.exchange, ...Object.fromEntries(recordable.map((shape) => [shape, true])) };
  },
};

export async function open(library, url) {
  const calls = await libraries[library](url);
  if (calls.setup) for (const text of setup) await calls.setup(text);
  const isBare = library === "bare";
  return {
    shapes: Object.keys(shapes).filter((name) => calls[name]),
    clean: false,
    call: calls.call,
    prepare: ({ shape }) => (isBare ? calls.recorded(shape) : undefined),
    run: ({ shape, times }, recording) =>
      isBare ? exchanged(calls.exchange, recording, times) : repeated(calls[shape], shapes[shape].value, times),
    check: async ({ shape }) => ({ rows: (await calls[shape](7)).map(canonicalRow) }),
  };
}

async function repeated(call, value, times) {
  let rows = 0;
  let sum = 0;
  for (let index = 0; index < times; index++) {
    const got = await call(index);
    rows += got.length;
    for (let at = 0; at < got.length; at++) sum += value(got[at]);
  }
  return { rows, sum };
}

async function exchanged(exchange, recording, times) {
  let bytes = 0;
  for (let index = 0; index < times; index++) bytes += await exchange(recording);
  return { bytes, expected: times * recording.answer.length };
}

function ours(client, sql) {
  const rows = async (query) => (await client.query(query)).rows;
  return {
    setup: (text) => client.simple(text),
    call: () => client.query(sql`SELECT ${7}::int4 as x`),
    select: () => rows(sql`SELECT 1 as x`),
    select_arg: (i) => rows(sql`SELECT ${i}::int4 as x`),
    select_args: (i) =>
      rows(
        sql`SELECT ${i}::int4 as a, ${text}::text as b, ${time}::timestamptz as c, ${null}::int4 as d, ${true}::bool as e, ${bytes}::bytea as f, ${json}::jsonb as g`,
      ),
    select_where: () => rows(sql`select * from pg_catalog.pg_type where typname = ${"bool"}`),
    simple: async () => (await client.simple(simpleText))[0].rows,
    singles_55000: (i) => rows(sql`SELECT id, name FROM harbors LIMIT ${(i % 10) + 1}`),
    ...(client.batch && {
      pipelined_100: async () =>
        (
          await runBatch(
            client,
            hundred((i) => sql`SELECT ${i}::int4 as x`),
            { atomic: false },
          )
        ).flatMap((result) => result.rows),
    }),
  };
}

async function pgOf(url, query) {
  const client = await pgClient(url);
  const rows = async (name, text, values) => (await client.query(query(name, text, values))).rows;
  return {
    setup: (text) => client.query(text),
    call: () => client.query(query("select_arg", "SELECT $1::int4 as x", [7])),
    select: () => rows("select", "SELECT 1 as x"),
    select_arg: (i) => rows("select_arg", "SELECT $1::int4 as x", [i]),
    select_args: (i) =>
      rows(
        "select_args",
        "SELECT $1::int4 as a, $2::text as b, $3::timestamptz as c, $4::int4 as d, $5::bool as e, $6::bytea as f, $7::jsonb as g",
        [i, text, time, null, true, bytes, json],
      ),
    select_where: () => rows("select_where", "select * from pg_catalog.pg_type where typname = $1", ["bool"]),
    simple: async () => (await client.query(simpleText)).rows,
    singles_55000: (i) => rows("singles", "SELECT id, name FROM harbors LIMIT $1", [(i % 10) + 1]),
    // It queues, and sends each query when the previous one has been answered.
    pipelined_100: () => gathered(hundred((i) => rows("select_arg", "SELECT $1::int4 as x", [i]))),
  };
}
