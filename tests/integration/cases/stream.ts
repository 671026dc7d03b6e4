// stream and respond: NDJSON bytes, back-pressure, and errors in the middle.
import type { Client } from "../../../js/index.ts";
import type { Cases, Context } from "../context.ts";
import { inTime, pause, until } from "../../support/until.mjs";
import { ended, gone, newMark, readSome, running, series, text, waitEvent } from "./helpers.ts";

const ROWS = 20_000;
const MIXED = `select g::int4 as id, 'name-' || g as name, g / 3.0::float8 as score, g % 2 = 0 as flag,
  jsonb_build_object('k', g) as meta, 'q"\\\n' as "odd ""name"""
  from generate_series(1, ${ROWS}) g`;

/** The calls of a handler that returns a stream, and the function that it calls in its `finally`. */
type Streaming = Pick<Client, "respond" | "stream" | "copyTo" | "query">;
interface Owner {
  readonly db: Streaming;
  readonly close: () => Promise<unknown>;
  /** The error of a call after `close`. */
  readonly refusal: string;
}

const owners: Record<string, (t: Context) => Owner | Promise<Owner>> = {
  client(t) {
    const db = t.pgz.createClient(t.options);
    return { db, close: () => db.close(), refusal: "CLIENT_CLOSED" };
  },
  pool(t) {
    const db = t.pgz.createPool(t.options);
    return { db, close: () => db.close(), refusal: "POOL_CLOSED" };
  },
  async lease(t) {
    const pool = t.pgz.createPool(t.options);
    const db = await pool.acquire();
    return { db, close: () => db.release().then(() => pool.close()), refusal: "LEASE_RELEASED" };
  },
};

export const stream: Cases = {
  async "a stream equals the server's own to_json, line by line"(t) {
    const client = await t.client();
    const lines = (await text(await client.stream(MIXED))).split("\n");
    t.assert.equal(lines.pop(), "");
    const expected = await t.side(`select to_json(t)::text from (${MIXED}) t`);
    t.assert.equal(lines.length, ROWS);
    lines.forEach((line, index) => t.assert.equal(line, expected[index]?.[0], `line ${index}`));
  },
  async "every chunk holds whole lines"(t) {
    const client = await t.client();
    let chunks = 0;
    const reader = (await client.stream(MIXED)).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      chunks++;
      t.assert.equal(value[0], 0x7b, "starts with {");
      t.assert.equal(value.at(-1), 0x0a, "ends with a newline");
    }
    t.assert(chunks > 3, `${chunks} chunks`);
  },
  async "respond gives a Response with its content type"(t) {
    const client = await t.client();
    const response = await client.respond(t.pgz.sql`select ${1}::int4 as a`, { headers: { "x-mine": "1" } });
    t.assert.equal(response.status, 200);
    t.assert.match(response.headers.get("content-type") ?? "", /^application\/x-ndjson/);
    t.assert.equal(response.headers.get("x-mine"), "1");
    t.assert.equal(await response.text(), '{"a":1}\n');
    await t.assert.rows(client.query("select 2 as b"), [{ b: 2 }]);
  },
  async "a call with closeWhenDone that is refused still closes the client, unless another stream is open"(t) {
    for (const call of ["respond", "stream"] as const) {
      const client = await t.pgz.connect(t.options);
      const open = await client.stream("select 1 as a from generate_series(1, 100000)");
      await t.assert.code(client[call]("select 1", { closeWhenDone: true }), "STREAM_OPEN");
      t.assert.equal(await text(open), '{"a":1}\n'.repeat(100_000));
      await t.assert.code(client[call]("select 1", { closeWhenDone: true, format: "xml" as never }), "INVALID_OPTION");
      await t.assert.code(client.query("select 1"), "CLIENT_CLOSED");
    }
  },
  async "respond with closeWhenDone ends the session after the last byte"(t) {
    const client = t.pgz.createClient({ ...t.options });
    const response = await client.respond("select pg_backend_pid() as pid", { closeWhenDone: true });
    const { pid } = JSON.parse(await response.text()) as { pid: number };
    await ended(t, pid);
    await t.assert.code(client.query("select 1"), "CLIENT_CLOSED");
  },
  "a handler may return a stream of any size and close: the stream keeps its connection to its end": {
    slow: true,
    async run(t) {
      for (const count of [10, 1_000, 100_000]) {
        const query = `select n, repeat('x', 100) as x, pg_backend_pid() as pid from ${series(count, "n")}`;
        const handlers: Record<string, (db: Streaming) => Promise<Response>> = {
          awaited: async (db) => await db.respond(query),
          // As with `await using`, close is called while the query is in flight.
          returned: (db) => db.respond(query),
          stream: async (db) => new Response(await db.stream(query)),
          compressed: async (db) => {
            const bytes = await db.stream(query, { gzip: true });
            return new Response(bytes.pipeThrough(new DecompressionStream("gzip") as unknown as TransformStream));
          },
          copied: async (db) => new Response(await db.copyTo(`copy (${query}) to stdout`)),
        };
        const owned = Object.entries(handlers).flatMap(([name, handler]) =>
          Object.entries(owners).map(([owner, make]) => [`${name} of a ${owner}`, handler, make] as const),
        );
        for (const [name, handler, make] of owned) {
          const { db, close, refusal } = await make(t);
          const work = async () => {
            try {
              return handler(db);
            } finally {
              await close();
            }
          };
          const response = await inTime(work()); // close does not wait for readers
          await t.assert.code(db.query("select 1"), refusal);
          const lines = (await response.text()).trimEnd().split("\n");
          t.assert.equal(lines.length, count, name);
          const pid = name.startsWith("copied")
            ? Number(lines[0]!.split("\t")[2])
            : (JSON.parse(lines[0]!) as { pid: number }).pid;
          await ended(t, pid);
        }
      }
    },
  },
  "a stream requested before close arrives, however long it takes, or rejects with the reason": {
    slow: true,
    async run(t) {
      const arrives = async (make: (typeof owners)[string]) => {
        const { db, close } = await make(t);
        const coming = db.stream("select pg_sleep(1)::text as s, 7 as a");
        await close();
        t.assert.equal(await text(await coming), '{"s":"","a":7}\n');
      };
      const rejects = async (make: (typeof owners)[string]) => {
        const { db, close } = await make(t);
        const failed = t.assert.code(db.stream("select 1 / (pg_sleep(0.6) is null)::int4 as a"), "22012");
        await close();
        await failed;
      };
      await Promise.all(Object.values(owners).flatMap((make) => [arrives(make), rejects(make)]));
    },
  },
  async "abandoning a stream after close ends its query and its session"(t) {
    for (const make of Object.values(owners)) {
      const mark = newMark();
      const { db, close } = await make(t);
      const { reader } = await readSome(await db.stream(`select n from ${series(100_000_000, "n")} /* ${mark} */`));
      await close();
      t.assert.equal(await running(t, mark), 1);
      await reader.cancel();
      await gone(t, mark);
    }
  },
  async "respond with a status that has no body is refused before the query runs"(t) {
    const client = await t.client();
    for (const status of [204, 304, 99, 1000, 200.5, NaN])
      await t.assert.code(client.respond("select 1", { status }), "INVALID_OPTION");
    const { queries } = client.stats();
    for (const headers of [{ "bad name": "x" }, { "x-mine": "line\nbreak" }]) {
      const error = await t.assert.rejects(client.respond("select 1", { headers: headers as never }), {
        code: "INVALID_OPTION",
        name: "UsageError",
      });
      t.assert.match(error.message, /headers/);
    }
    t.assert.equal(client.stats().queries, queries);
    await t.assert.rows(client.query("select 1 as a"), [{ a: 1 }]);
  },
  async "a query that fails before its first row rejects, and no byte is sent"(t) {
    const client = await t.client();
    const error = await t.assert.rejects(client.respond("select 1/(i-1) from generate_series(1, 3) i"), {
      code: "22012",
      committed: false,
    });
    t.assert(error instanceof t.pgz.PostgresError, "a PostgresError");
    await t.assert.rejects(client.stream("select 1/(3-i) as x from generate_series(1, 5) i"), {
      code: "22012",
      committed: false,
    });
    await t.assert.rows(client.query("select 1 as a"), [{ a: 1 }]);
  },
  async "a failure after the first byte errors the stream, and only whole lines were sent"(t) {
    const client = await t.client();
    // 200,000 rows of padding, so that the error cannot arrive with the first rows.
    const { reader, text: first } = await readSome(
      await client.stream("select i, 1/(200000-i) as x, repeat('x', 100) as pad from generate_series(1, 300000) i"),
    );
    let seen = first;
    const decoder = new TextDecoder();
    const error = await t.assert.rejects(
      (async () => {
        for (;;) {
          const { done, value } = await reader.read();
          if (done) return "a clean end";
          seen += decoder.decode(value);
        }
      })(),
      { code: "22012", committed: true },
    );
    t.assert(error instanceof t.pgz.PostgresError, "a PostgresError");
    t.assert.equal(seen.at(-1), "\n");
    const lines = seen.trimEnd().split("\n");
    t.assert.equal((JSON.parse(lines.at(-1) ?? "") as { i: number }).i, lines.length);
    await t.assert.rows(client.query("select 1 as a"), [{ a: 1 }]);
  },
  async "a compressed stream that fails gives the reason"(t) {
    const client = await t.client();
    const body = await client.stream(`select md5(g::text) as a, 1 / (50000 - g) as n from ${series(60_000, "g")}`, {
      gzip: true,
    });
    const error = await t.assert.rejects(new Response(body).arrayBuffer(), { code: "22012", committed: true });
    t.assert(error instanceof t.pgz.PostgresError, "a PostgresError");
    const controller = new AbortController();
    const long = `select md5(g::text) as a from ${series(20_000_000, "g")}`;
    const { reader } = await readSome(await client.stream(long, { gzip: true, signal: controller.signal }));
    controller.abort();
    const rest = async () => {
      while (!(await reader.read()).done);
    };
    await t.assert.code(rest(), "ABORTED");
    await t.assert.rows(client.query("select 1 as a"), [{ a: 1 }]);
  },
  ...Object.fromEntries(
    [false, true].map((gzip) => [
      `a consumer that stops reading stops the server${gzip ? ", compressed too" : ""}`,
      async (t: Context) => {
        const client = await t.client();
        const mark = newMark();
        const body = await client.stream(`select /* ${mark} */ md5(g::text) as pad from ${series(20_000_000, "g")}`, {
          gzip,
        });
        const { reader } = await readSome(body);
        await until(async () => (await waitEvent(t, mark)) === "ClientWrite");
        await pause(300);
        t.assert.equal(await waitEvent(t, mark), "ClientWrite");
        await reader.cancel();
        await t.assert.rows(client.query("select 1 as a"), [{ a: 1 }]);
      },
    ]),
  ),
  async "the first rows of a slow query arrive while it runs, and flushInterval and flushBytes hold back only later ones"(
    t,
  ) {
    for (const options of [{}, { flushInterval: 60_000, flushBytes: 1 << 20 }]) {
      const client = await t.client(options);
      // Each row has 9,000 bytes, because the server itself buffers 8 KiB before it sends.
      const body = await client.stream(
        "select g, repeat('x', 9000) as pad, pg_sleep(case when g > 1 then 0.15 else 0 end) " +
          "from generate_series(1, 8) g",
      );
      const { reader, text: first } = await readSome(body);
      t.assert.match(first, /^{"g":1,/);
      t.assert(first.split("\n").length < 6, "the first rows came before the last were made");
      let [rest, chunks] = ["", 0];
      const decoder = new TextDecoder();
      for (let next; !(next = await reader.read()).done; chunks++) rest += decoder.decode(next.value, { stream: true });
      t.assert.equal((first + rest).split("\n").length, 9);
      const isHeld = "flushBytes" in options;
      t.assert(isHeld ? chunks === 1 : chunks > 1, `the later rows came in ${chunks} chunks`);
    }
  },
  async "boundary calls and copied bytes per chunk stay few"(t) {
    const client = await t.client();
    await text(await client.stream("select g::int4 as id, 'name-' || g as name from generate_series(1, 1000) g"));
    const before = client.stats();
    const bytes = (
      await text(await client.stream("select g::int4 as id, 'name-' || g as name from generate_series(1, 300000) g"))
    ).length;
    const after = client.stats();
    const received = after.receivedBytes - before.receivedBytes;
    // Per chunk that the socket delivers (4 KiB to 64 KiB, by runtime): input, receive, and then a peek, a pointer
    // and a release for its rows.
    const calls = (after.boundaryCalls - before.boundaryCalls) / (after.receivedChunks - before.receivedChunks);
    const copied = (after.copiedBytes - before.copiedBytes) / (received + bytes);
    t.assert(calls <= 5.5, `${calls.toFixed(2)} boundary calls per chunk`);
    t.assert(copied <= 1.02, `${copied.toFixed(3)} bytes copied per byte in and out (each once)`);
  },
};
