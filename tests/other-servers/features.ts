// What is tried on every server that is no PostgreSQL: one function for each line of the table in docs/servers.md.
//
// Each gets a client of its own and does what users do. It throws where the driver or the server cannot do it; what
// comes back is compared, so a wrong value is never a "no". Knows the public API and three dialects of SQL.
import { expect } from "vitest";
import type { Client, Options } from "../../js/index.ts";

/** How a server spells what others spell otherwise. */
export interface Dialect {
  /** Numbers from 1 as column `n`. */
  readonly series: (count: number) => string;
  /** Runs for seconds. */
  readonly slow: string;
  /** Runs into an error of the server's own when it executes. */
  readonly fails: string;
  /** An expression of `$1`, cast to the type. */
  readonly cast?: (type: string) => string;
  /** By type: the value that comes back, where it is not the one that PostgreSQL gives. */
  readonly back?: Readonly<Record<string, string>>;
}

export interface Given {
  readonly client: Client;
  readonly dialect: Dialect;
  readonly connect: (options?: Options) => Promise<Client>;
}

/** What was asked for was taken, and nothing came of it. */
export class Silence extends Error {
  readonly code = "nothing comes";
}

export type Feature = (given: Given) => Promise<void>;

/** A parameter of the type, and the same as a result: the first run, and when the statement is known. */
function value(type: string, given: unknown, json: string, back: unknown = given): Feature {
  return async ({ client, dialect }) => {
    const query = { text: `select ${dialect.cast?.(type) ?? `$1::${type}`} as v`, values: [given] };
    const other = dialect.back?.[type];
    for (const run of ["first", "known"]) {
      expect((await client.query(query)).rows, run).toEqual([{ v: other ?? back }]);
      const line = `{"v":${other === undefined ? json : JSON.stringify(other)}}\n`;
      expect(await bodyOf(await client.stream(query)), run).toBe(line);
    }
  };
}

const bodyOf = (stream: ReadableStream<Uint8Array>) => new Response(stream as never).text();

/** A new table with one row. */
async function table(client: Client, name: string): Promise<{ count: () => Promise<unknown> }> {
  await client.exec(`create table ${name} (id int, name varchar)`);
  await client.exec(`insert into ${name} values (1, 'one')`);
  return { count: async () => Number((await client.query(`select count(*) as n from ${name}`)).rows[0]?.["n"]) };
}

/** The form in which rows leave, as bytes. */
function form(name: string, expected: string): Feature {
  return async ({ client }) => {
    const query = "select 1 as id, cast('a b' as varchar) as name";
    for (const run of ["first", "known"])
      expect(await bodyOf(await client.stream(query, { format: name as "ndjson" })), run).toBe(expected);
  };
}

/** What is tried, by the words of the table. */
export const features: Readonly<Record<string, Feature>> = {
  "connecting with default options": async ({ connect }) => {
    const client = await connect({ allowCleartextPassword: false });
    await client.query("select 1 as n").finally(() => client.close());
  },
  "protocol 3.2": async ({ connect }) => {
    const client = await connect({ maxProtocolVersion: "3.2", connectTimeout: 3_000 });
    await client.query("select 1 as n").finally(() => client.close());
  },
  "two clients at a time": async ({ client, connect }) => {
    const other = await connect();
    try {
      const [a, b] = await Promise.all([client.query("select 1 as n"), other.query("select 2 as n")]);
      expect([a.rows, b.rows]).toEqual([[{ n: 1 }], [{ n: 2 }]]);
    } finally {
      await other.close();
    }
  },
  "five statements made together": async ({ client }) => {
    const all = () => Promise.all([1, 2, 3, 4, 5].map((n) => client.query(`select ${n} as n`)));
    for (const run of ["first", "known"])
      expect(
        (await all()).map(({ rows }) => rows),
        run,
      ).toEqual([1, 2, 3, 4, 5].map((n) => [{ n }]));
  },

  "`bool`": value("boolean", true, "true"),
  "`int2`": value("smallint", -7, "-7"),
  "`int4`": value("int", -70_000, "-70000"),
  "`int8`": value("bigint", 9_007_199_254_740_993n, "9007199254740993", "9007199254740993"),
  "`float4`": value("real", 0.5, "0.5"),
  "`float8`": value("double precision", 0.1 + 0.2, "0.30000000000000004"),
  "`numeric`": value("numeric(10,2)", "12.50", "12.50", "12.50"),
  "`varchar`": value("varchar", 'é "q" \\ \n', '"é \\"q\\" \\\\ \\n"'),
  "`date`": value("date", "2024-01-02", '"2024-01-02"'),
  "`time`": value("time", "03:04:05", '"03:04:05"'),
  "`timestamp`": value("timestamp", "2024-01-02T03:04:05.678", '"2024-01-02T03:04:05.678"'),
  "`timestamptz`": value(
    "timestamp with time zone",
    "2024-01-02T03:04:05.678+00:00",
    '"2024-01-02T03:04:05.678+00:00"',
  ),
  "`uuid`": value("uuid", "6ecd8c99-4036-403d-bf84-cf8400f67836", '"6ecd8c99-4036-403d-bf84-cf8400f67836"'),
  "`bytea`": value("bytea", Uint8Array.of(0, 255, 10), '"\\\\x00ff0a"'),
  "`json`": value("json", { a: [1, null] }, '{"a":[1,null]}'),
  "`int4[]`": value("int[]", [1, 2, 3], "[1,2,3]"),
  "`null`": async ({ client }) => {
    for (const run of ["first", "known"])
      expect((await client.query({ text: "select $1::int as v", values: [null] })).rows, run).toEqual([{ v: null }]);
  },
  "an array as a result": async ({ client }) => {
    for (const run of ["first", "known"])
      expect((await client.query("select array[1, 2] as v")).rows, run).toEqual([{ v: [1, 2] }]);
  },

  NDJSON: form("ndjson", '{"id":1,"name":"a b"}\n'),
  JSON: form("json", '[{"id":1,"name":"a b"}]'),
  "columnar JSON": form("columnar", '{"columns":["id","name"],"rows":[[1,"a b"]]}'),
  CSV: form("csv", "id,name\r\n1,a b\r\n"),
  TOON: form("toon", '[?]{id,name}\n1,"a b"\n'),
  "a stream of 10,000 rows": async ({ client, dialect }) => {
    const lines = (await bodyOf(await client.stream(dialect.series(10_000)))).trim().split("\n");
    expect([lines.length, lines[0], lines.at(-1)]).toEqual([10_000, '{"n":1}', '{"n":10000}']);
  },
  "a stream that is left early": async ({ client, dialect }) => {
    const reader = (await client.stream(dialect.series(20_000))).getReader();
    await reader.read();
    await reader.cancel();
    expect((await client.query("select 7 as n")).rows).toEqual([{ n: 7 }]);
  },
  "`cursor`": async ({ client, dialect }) => {
    for (const run of ["first", "known"]) {
      let rows = 0;
      for await (const batch of client.cursor(dialect.series(1_000), 300)) rows += batch.length;
      expect(rows, run).toBe(1_000);
    }
  },
  "`maxRows`": async ({ client, dialect }) => {
    await expect(client.query(dialect.series(1_000), { maxRows: 10 })).rejects.toMatchObject({
      name: "ResponseTooLargeError",
    });
    expect((await client.query("select 7 as n")).rows).toEqual([{ n: 7 }]);
  },

  "`exec` and its count": async ({ client }) => {
    const { count } = await table(client, "counted");
    expect(await client.exec("insert into counted values (2, 'two')")).toEqual({ command: "INSERT", rowCount: 1 });
    expect(await count()).toBe(2);
  },
  "`describe`": async ({ client }) => {
    const { fields } = await client.describe("select 1 as n");
    expect(fields.map(({ name }) => name)).toEqual(["n"]);
  },
  "`prepare`": async ({ client }) => {
    const prepared = await client.prepare("select $1::int as n");
    for (const n of [1, 2, 3]) expect((await prepared.query([n])).rows).toEqual([{ n }]);
    await prepared.close();
  },
  "`simple`, two statements": async ({ client }) => {
    const results = await client.simple("select 1 as a; select 2 as b");
    expect(results.map(({ rows }) => rows)).toEqual([[{ a: 1 }], [{ b: 2 }]]);
  },
  "`batch`": async ({ client }) => {
    for (const run of ["first", "known"]) {
      const items = await client.batch(["select 1 as n", { text: "select $1::int as n", values: [2] }]);
      expect(
        items.map(({ rows }) => rows),
        run,
      ).toEqual([[{ n: 1 }], [{ n: 2 }]]);
    }
  },
  "`batch`, not atomic": async ({ client }) => {
    for (const run of ["first", "known"]) {
      const items = await client.batch(["select 1 as n", "select 2 as n"], { atomic: false });
      expect(
        items.map((item) => (item.status === "fulfilled" ? item.value.rows : item.reason)),
        run,
      ).toEqual([[{ n: 1 }], [{ n: 2 }]]);
    }
  },
  "a transaction that commits": async ({ client }) => {
    const { count } = await table(client, "committed");
    for (const rows of [2, 3]) {
      await client.transaction(async (tx) => void (await tx.exec("insert into committed values (2, 'two')")));
      expect(await count()).toBe(rows);
    }
  },
  "a transaction that rolls back": async ({ client }) => {
    const { count } = await table(client, "rolled_back");
    const stop = new Error("stop");
    for (const run of ["first", "known"]) {
      const work = client.transaction(async (tx) => {
        await tx.exec("insert into rolled_back values (2, 'two')");
        throw stop;
      });
      const error: unknown = await work.catch((reason: unknown) => reason);
      if (error !== stop) throw error;
      expect(await count(), run).toBe(1);
    }
  },
  "`tx.last`": async ({ client }) => {
    const { count } = await table(client, "carried");
    for (const rows of [2, 3]) {
      await client.transaction((tx) => tx.last("insert into carried values (2, 'two')"));
      expect(await count()).toBe(rows);
    }
  },

  "a syntax error is `42601`": async ({ client }) => {
    const error: unknown = await client.query("select 1 +").catch((reason: unknown) => reason);
    if ((error as { code?: string }).code !== "42601") throw error;
  },
  "a table that is not there is `42P01`": async ({ client }) => {
    const error: unknown = await client.query("select * from nowhere").catch((reason: unknown) => reason);
    if ((error as { code?: string }).code !== "42P01") throw error;
  },
  "the connection outlives an error": async ({ client }) => {
    await client.query("select 1 +").catch(() => {});
    expect((await client.query("select 7 as n")).rows).toEqual([{ n: 7 }]);
  },
  "an error while it runs": async ({ client, dialect }) => {
    const error: unknown = await client.query(dialect.fails).catch((reason: unknown) => reason);
    if ((error as { name?: string }).name !== "PostgresError") throw error;
    expect((await client.query("select 7 as n")).rows).toEqual([{ n: 7 }]);
  },
  "`listen`": async ({ client }) => {
    const messages = await client.listen("news");
    try {
      await client.notify("news", "hello");
      const silence = new Promise<never>((_, reject) => setTimeout(reject, 1_000, new Silence()));
      const next = await Promise.race([messages[Symbol.asyncIterator]().next(), silence]);
      expect(next.value?.payload).toBe("hello");
    } finally {
      await messages.close();
    }
  },
  "`copyTo`": async ({ client }) => {
    await table(client, "copied_out");
    expect(await bodyOf(await client.copyTo("copy copied_out to stdout"))).toBe("1\tone\n");
  },
  "cancel, by `timeout`": async ({ client, dialect }) => {
    const from = performance.now();
    const error: unknown = await client.query(dialect.slow, { timeout: 200 }).catch((reason: unknown) => reason);
    if ((error as { code?: string }).code !== "QUERY_TIMEOUT") throw error;
    expect((await client.query("select 7 as n")).rows).toEqual([{ n: 7 }]);
    expect(performance.now() - from).toBeLessThan(1_500);
  },
  // The last: pglite-socket does not survive it.
  "`copyFromRows`": async ({ client }) => {
    const { count } = await table(client, "copied");
    await client.copyFromRows("copied", ["id", "name"], [[2, "two"]]);
    expect(await count()).toBe(2);
  },
};
