// Cases with a byte proxy in front of a real server: flights (flight-cases.ts), cancels, bytes in the smallest pieces,
// and connections that end or stall in the middle of a result.
//
// Cases as in tests/integration (same context); they are here because they need the fault host.
import { casesOf, type Case, type Cases, type Context } from "../integration/context.ts";
import type { Client } from "../../js/index.ts";
import { inTime, pause } from "../support/until.mjs";
import { flightCases } from "./flight-cases.ts";
import { lines, through } from "./proxied.ts";

type How = "fin" | "rst";

/** Returns a case for each way in which a connection ends. % in the name is the way. */
const byEach = (name: string, run: (t: Context, how: How) => Promise<void>): Cases =>
  Object.fromEntries((["fin", "rst"] as const).map((how) => [name.replace("%", how), (t: Context) => run(t, how)]));

/** Calls of so many rows of a kilobyte. */
const LONG: Record<string, (client: Client, count: number, options?: { timeout?: number }) => Promise<unknown>> = {
  batch: (client, count, options = {}) => client.batch(wide(count), options),
  isolated: (client, count, options) => client.batch(wide(count), { ...options, atomic: false }),
  async out(client, count, options) {
    const query = `copy (select repeat('x', 1000) from generate_series(1, ${count})) to stdout`;
    const { error } = await lines(await client.copyTo(query, options));
    throw error;
  },
};
const wide = (count: number) => Array.from({ length: count }, () => "select repeat('x', 1000) as t");

/** The core puts pieces together, so one size of them is enough elsewhere. */
const pieces: Cases = {
  ...Object.fromEntries(
    [1, 2, 3, 5, 7].map((segment) => [
      `a session in segments of ${segment} bytes returns the same rows`,
      // Each runtime has a reader of its own.
      { ...(segment === 1 && { differs: ["sockets"] }), run: (t: Context) => dribbled(t, segment) },
    ]),
  ),
  async "several results and the batches of a cursor do not depend on how the bytes arrive"(t) {
    const { options } = await through(t, { segment: 3 });
    const client = await t.client(options);
    const results = await client.simple(
      "select 1 as a; ; create temp table segmented (n int4); " +
        "select n, 'é' as t from generate_series(1, 20) n; select 2 as b where false",
    );
    t.assert.deepEqual(
      results.map(({ command, rows }) => [command, rows.length]),
      [
        ["SELECT", 1],
        ["CREATE TABLE", 0],
        ["SELECT", 20],
        ["SELECT", 0],
      ],
    );
    t.assert.deepEqual(results[2]?.rows.at(-1), { n: 20, t: "é" });
    const batches: unknown[] = [];
    for await (const batch of client.cursor("select n from generate_series(1, 5) n", 2)) batches.push(batch);
    t.assert.deepEqual(batches, [[{ n: 1 }, { n: 2 }], [{ n: 3 }, { n: 4 }], [{ n: 5 }]]);
  },
  async "a batch and COPY in both directions do not depend on how the bytes arrive"(t) {
    const { options } = await through(t, { segment: 3 });
    const { sql } = t.pgz;
    const client = await t.client(options);
    const results = await client.batch([
      sql`select ${1}::int4 as n`,
      sql`select ${"x"}::text as t`,
      sql`select ${2}::int4 as n`,
    ]);
    t.assert.deepEqual(
      results.map(({ rows }) => rows),
      [[{ n: 1 }], [{ t: "x" }], [{ n: 2 }]],
    );
    await client.exec("create temp table target (n int4, t text)");
    await client.copyFrom("copy target from stdin", ["1\tone\n2\t", "two\n"]);
    t.assert.equal((await lines(await client.copyTo("copy target to stdout"))).text, "1\tone\n2\ttwo\n");
    const rows = [];
    for await (const row of client.copyToRows("select * from target")) rows.push(row);
    t.assert.deepEqual(rows, [
      { n: 1, t: "one" },
      { n: 2, t: "two" },
    ]);
  },
};

const ends: Cases = {
  "CancelRequest uses TLS when the session does: its first message is SSLRequest": {
    only: "tls",
    async run(t) {
      const { proxy, options } = await through(t);
      const { sql } = t.pgz;
      const client = await t.client(options);
      await t.assert.code(client.query(sql`select pg_sleep(30)`, { timeout: 200 }), "QUERY_TIMEOUT");
      await t.assert.rows(client.query(sql`select 1 as n`), [{ n: 1 }]);
      await client.close();
      const connections = await proxy.close();
      t.assert.deepEqual(
        connections.map(({ first, tls }) => ({ first, tls })),
        [
          { first: "SSLRequest", tls: true },
          { first: "SSLRequest", tls: true },
        ],
      );
      t.assert.equal(connections[1]?.flights[0]?.bytes, 8);
    },
  },
  async "a cursor's deadline and abort are reported at once even if the server is silent"(t) {
    for (const by of ["timeout", "signal"] as const) {
      const { options } = await through(t, { stall: { after: 100_000 } });
      const client = await t.client(options);
      const controller = new AbortController();
      const reading = (async () => {
        const cursor = client.cursor(
          "select repeat('x', 1000) as t from generate_series(1, 1000)",
          50,
          by === "signal" ? { signal: controller.signal } : { timeout: 1_500 },
        );
        for await (const batch of cursor) {
          t.assert.equal(batch.length, 50);
          void pause(500).then(() => controller.abort());
        }
      })();
      const error = await inTime<unknown>(reading.catch((thrown: unknown) => thrown));
      t.assert.equal(client.stats().state, "busy"); // the driver still gives the silent server time to end the query
      t.assert.equal(
        (error as { code?: string }).code,
        by === "signal" ? "ABORTED" : "QUERY_TIMEOUT",
        `${by}: ${String(error)}`,
      );
      t.assert.equal((error as { committed?: boolean }).committed, true);
    }
  },
  async "a connection cut between two batches of a cursor ends the cursor for its reader and its observer"(t) {
    const ends: (string | undefined)[] = [];
    const { options } = await through(t, { cut: { after: 200_000, how: "rst" } });
    const client = await t.client({
      ...options,
      observer: { onQueryEnd: ({ error }) => void ends.push(error?.code) },
    });
    const reading = (async () => {
      for await (const batch of client.cursor("select repeat('x', 1000) as t from generate_series(1, 1000)", 50))
        t.assert.equal(batch.length, 50);
    })();
    const error = await t.assert.rejects(reading);
    t.assert.match((error as { code?: string }).code ?? "", /^(CONNECTION_LOST|TLS_FAILED)$/);
    t.assert.equal((error as { committed?: boolean }).committed, true);
    t.assert.deepEqual(ends, [(error as { code?: string }).code]);
  },
  ...byEach("a stream cut by % in the middle errors, and has sent only whole lines", async (t, how) => {
    const { options } = await through(t, { cut: { after: 1_000_003, how } });
    const { sql, PgzError } = t.pgz;
    const client = await t.client(options);
    const { text, error } = await lines(
      await client.stream(sql`select i, repeat('x', 100) as t from generate_series(1, 100000) as i`),
    );
    t.assert(error instanceof PgzError, String(error));
    t.assert.match((error as { code: string }).code, /^(CONNECTION_LOST|TLS_FAILED)$/);
    t.assert.equal((error as { committed: boolean }).committed, true, "committed, with rows downstream");
    t.assert(text.length > 10_000 && text.endsWith("\n"), `${text.length} bytes`);
    const rows = text.trimEnd().split("\n");
    rows.forEach((line, i) => t.assert.equal((JSON.parse(line) as { i: number }).i, i + 1));
    await t.assert.rows(client.query(sql`select 1 as n`), [{ n: 1 }]);
  }),
  async "a half-open connection in the middle of a stream ends at the deadline, and close() settles"(t) {
    const { options } = await through(t, { stall: { after: 300_000 } });
    const { sql } = t.pgz;
    const client = await t.client(options);
    const { text, error } = await lines(
      await client.stream(sql`select i, repeat('x', 100) as t from generate_series(1, 100000) as i`, {
        timeout: 1_500,
      }),
    );
    t.assert.equal(client.stats().state, "busy"); // the driver still gives the silent server time to end the query
    t.assert.equal((error as { code: string } | undefined)?.code, "QUERY_TIMEOUT", String(error));
    t.assert(text.endsWith("\n"));
    await inTime(client.close());
  },
  ...byEach("a batch, COPY in and COPY out cut by % in the middle reject", async (t, how) => {
    for (const work of Object.values(LONG)) {
      const { options } = await through(t, { cut: { after: 100_000, how } });
      await t.assert.code(work(await t.client(options), 300), "CONNECTION_LOST");
    }
  }),
  async "a half-open connection in the middle of a batch or COPY ends at the deadline, and close() settles"(t) {
    for (const [kind, work] of Object.entries(LONG)) {
      const { options } = await through(t, { stall: { after: 100_000 } });
      const client = await t.client(options);
      await t.assert.code(work(client, 3_000, { timeout: 1_500 }), "QUERY_TIMEOUT");
      t.assert.equal(client.stats().state, "busy", kind);
      await inTime(client.close());
    }
  },
};

export const wireCases: Case[] = [
  ...casesOf(flightCases, { only: "plain" }),
  ...casesOf(pieces, { both: true }),
  ...casesOf(ends, { both: true, differs: ["sockets"] }),
];

/** Reads the same through a proxy that passes on so many bytes at a time. */
async function dribbled(t: Context, segment: number): Promise<void> {
  const { options } = await through(t, { segment });
  const { sql } = t.pgz;
  const client = await t.client(options);
  const direct = await t.client();
  const query = sql`select i, repeat('ü' || chr(10) || i, i % 40) as t, i / 7.0 as n,
    case when i % 3 = 0 then null else i::float8 end as f from generate_series(1, ${segment * 60}::int4) as i`;
  const [found, whole] = await Promise.all([lines(await client.stream(query)), lines(await direct.stream(query))]);
  t.assert.equal(found.error, undefined);
  t.assert.equal(found.text, whole.text);
  t.assert.equal(found.text.split("\n").length, segment * 60 + 1);
  await t.assert.code(client.query(sql`select 1 / ${0}::int4`), "22012");
  // New statements, and then the same statements known: together, and in a batch.
  const queries = ["x", "ü"].map((text) => sql`select ${text}::text as t, 'segmented' as s`);
  const expected = ["x", "ü"].map((text) => ({ t: text, s: "segmented" }));
  for (let time = 0; time < 2; time++) {
    const together = await Promise.all([...queries, sql`select ${time}::int4 as n`].map((each) => client.query(each)));
    const batch = await client.batch([sql`select ${time}::int2 as n`, ...queries]);
    const rowsOf = (results: { rows: unknown[] }[]) => results.flatMap(({ rows }) => rows);
    t.assert.deepEqual(rowsOf(together), [...expected, { n: time }]);
    t.assert.deepEqual(rowsOf(batch), [{ n: time }, ...expected]);
  }
}
