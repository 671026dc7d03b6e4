// Cases with a byte proxy in front of a real server: flights (flight-cases.ts), cancels, bytes in the smallest pieces,
// and connections that end or stall in the middle of a result.
//
// Cases as in tests/integration (same context); they are here because they need the fault host.
import { differing, type Case } from "../integration/context.ts";
import { inTime, pause } from "../support/until.mjs";
import { flightCases } from "./flight-cases.ts";
import { lines, through } from "./proxied.ts";

/** The core puts pieces together, so one size of them is enough elsewhere. */
const pieces: Case[] = [
  ...[1, 2, 3, 5, 7].map((segment): Case => ({
    name: `a session in segments of ${segment} bytes returns the same rows`,
    // Each runtime has a reader of its own.
    ...(segment === 1 && { differs: ["sockets"] }),
    async run(t) {
      const { proxy, options } = await through(t, { segment });
      const { connect, sql } = t.pgz;
      const client = await connect(options);
      const direct = await connect(t.options);
      const query = sql`select i, repeat('ü' || chr(10) || i, i % 40) as t, i / 7.0 as n,
      case when i % 3 = 0 then null else i::float8 end as f
                        from generate_series(1, ${segment * 60}::int4) as i`;
      const [dribbled, whole] = await Promise.all([
        lines(await client.stream(query)),
        lines(await direct.stream(query)),
      ]);
      t.assert.equal(dribbled.error, undefined);
      t.assert.equal(dribbled.text, whole.text);
      t.assert.equal(dribbled.text.split("\n").length, segment * 60 + 1);
      await t.assert.rejects(client.query(sql`select 1 / ${0}::int4`), { code: "22012" });
      // New statements, and then the same statements known: together, and in a batch.
      const queries = ["x", "ü"].map((text) => sql`select ${text}::text as t, 'segmented' as s`);
      for (let time = 0; time < 2; time++) {
        const together = await Promise.all(
          [...queries, sql`select ${time}::int4 as n`].map((each) => client.query(each)),
        );
        const batch = await client.batch([sql`select ${time}::int2 as n`, ...queries]);
        const expected = [
          { t: "x", s: "segmented" },
          { t: "ü", s: "segmented" },
        ];
        t.assert.deepEqual(
          together.flatMap(({ rows }) => rows),
          [...expected, { n: time }],
        );
        t.assert.deepEqual(
          batch.flatMap(({ rows }) => rows),
          [{ n: time }, ...expected],
        );
      }
      await client.close();
      await direct.close();
      await proxy.close();
    },
  })),
  {
    name: "several results and the batches of a cursor do not depend on how the bytes arrive",
    async run(t) {
      const { proxy, options } = await through(t, { segment: 3 });
      const client = await t.pgz.connect(options);
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
      await client.close();
      await proxy.close();
    },
  },
  {
    name: "a batch and COPY in both directions do not depend on how the bytes arrive",
    async run(t) {
      const { proxy, options } = await through(t, { segment: 3 });
      const { connect, sql } = t.pgz;
      const client = await connect(options);
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
      await client.close();
      await proxy.close();
    },
  },
];

const ends: Case[] = [
  {
    name: "CancelRequest uses TLS when the session does: its first message is SSLRequest",
    only: "tls",
    async run(t) {
      const { proxy, options } = await through(t);
      const { connect, sql } = t.pgz;
      const client = await connect(options);
      await t.assert.rejects(client.query(sql`select pg_sleep(30)`, { timeout: 200 }), { code: "QUERY_TIMEOUT" });
      t.assert.deepEqual((await client.query(sql`select 1 as n`)).rows, [{ n: 1 }]);
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
  {
    name: "a cursor's deadline and abort are reported at once even if the server is silent",
    async run(t) {
      for (const by of ["timeout", "signal"] as const) {
        const { proxy, options } = await through(t, { stall: { after: 100_000 } });
        const client = await t.pgz.connect(options);
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
        await client.close();
        await proxy.close();
      }
    },
  },
  {
    name: "a connection cut between two batches of a cursor ends the cursor for its reader and its observer",
    async run(t) {
      const ends: (string | undefined)[] = [];
      const { proxy, options } = await through(t, { cut: { after: 200_000, how: "rst" } });
      const client = await t.pgz.connect({
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
      await client.close();
      await proxy.close();
    },
  },
  ...(["fin", "rst"] as const).map((how): Case => ({
    name: `a stream cut by ${how} in the middle errors, and has sent only whole lines`,
    async run(t) {
      const { proxy, options } = await through(t, { cut: { after: 1_000_003, how } });
      const { connect, sql, PgzError } = t.pgz;
      const client = await connect(options);
      const { text, error } = await lines(
        await client.stream(sql`select i, repeat('x', 100) as t from generate_series(1, 100000) as i`),
      );
      t.assert.equal(error instanceof PgzError, true, String(error));
      t.assert.match((error as { code: string }).code, /^(CONNECTION_LOST|TLS_FAILED)$/);
      t.assert.equal((error as { committed: boolean }).committed, true, "committed, with rows downstream");
      t.assert.equal(text.length > 10_000 && text.endsWith("\n"), true, `${text.length} bytes`);
      text
        .trimEnd()
        .split("\n")
        .forEach((line, i) => t.assert.equal((JSON.parse(line) as { i: number }).i, i + 1));
      t.assert.deepEqual((await client.query(sql`select 1 as n`)).rows, [{ n: 1 }]);
      await client.close();
      await proxy.close();
    },
  })),
  {
    name: "a half-open connection in the middle of a stream ends at the deadline, and close() settles",
    async run(t) {
      const { proxy, options } = await through(t, { stall: { after: 300_000 } });
      const { connect, sql } = t.pgz;
      const client = await connect(options);
      const { text, error } = await lines(
        await client.stream(sql`select i, repeat('x', 100) as t from generate_series(1, 100000) as i`, {
          timeout: 1_500,
        }),
      );
      t.assert.equal(client.stats().state, "busy"); // the driver still gives the silent server time to end the query
      t.assert.equal((error as { code: string } | undefined)?.code, "QUERY_TIMEOUT", String(error));
      t.assert.equal(text.endsWith("\n"), true);
      await inTime(client.close());
      await proxy.close();
    },
  },
  ...(["fin", "rst"] as const).map((how): Case => ({
    name: `a batch, COPY in and COPY out cut by ${how} in the middle reject`,
    async run(t) {
      const { connect } = t.pgz;
      const lost = (error: unknown) =>
        t.assert.equal((error as { code: string }).code, "CONNECTION_LOST", String(error));
      const work: ((client: Awaited<ReturnType<typeof connect>>) => Promise<unknown>)[] = [
        (client) => client.batch(Array.from({ length: 300 }, () => "select repeat('x', 1000)")),
        (client) =>
          client.batch(
            Array.from({ length: 300 }, () => "select repeat('x', 1000)"),
            { atomic: false },
          ),
        async (client) => {
          const { error } = await lines(
            await client.copyTo("copy (select repeat('x', 1000) from generate_series(1, 300)) to stdout"),
          );
          throw error;
        },
      ];
      for (const one of work) {
        const { proxy, options } = await through(t, { cut: { after: 100_000, how } });
        const client = await connect(options);
        await one(client).then(() => t.assert.equal("it resolved", "it rejected"), lost);
        await client.close();
        await proxy.close();
      }
    },
  })),
  {
    name: "a half-open connection in the middle of a batch or COPY ends at the deadline, and close() settles",
    async run(t) {
      const { connect } = t.pgz;
      for (const kind of ["batch", "isolated", "out"]) {
        const { proxy, options } = await through(t, { stall: { after: 100_000 } });
        const client = await connect(options);
        const large = Array.from({ length: 3_000 }, () => "select repeat('x', 1000) as t");
        const error = await (async () => {
          if (kind === "batch") await client.batch(large, { timeout: 1_500 });
          else if (kind === "isolated") await client.batch(large, { timeout: 1_500, atomic: false });
          else
            throw (
              await lines(
                await client.copyTo("copy (select repeat('x', 1000) from generate_series(1, 3000)) to stdout", {
                  timeout: 1_500,
                }),
              )
            ).error;
        })().catch((thrown: unknown) => thrown as { code: string });
        t.assert.equal(error?.code, "QUERY_TIMEOUT", `${kind}: ${String(error)}`);
        t.assert.equal(client.stats().state, "busy", kind);
        await inTime(client.close());
        await proxy.close();
      }
    },
  },
];

export const wireCases: Case[] = [...flightCases, ...pieces, ...differing(["sockets"], ends)].map((one) => ({
  ...one,
  both: true,
}));
