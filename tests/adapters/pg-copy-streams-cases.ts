// What an application does with pg-copy-streams, over pgz-edge/pg-copy-streams and pgz-edge/pg: written once, run on
// Node, Deno, Bun and in workerd.
import { Buffer } from "node:buffer";
import { PassThrough, Readable, Writable } from "node:stream";
import { finished, pipeline } from "node:stream/promises";
import { assert } from "../integration/assert.ts";
import { inTime, pause, until } from "../support/until.mjs";

type Pg = typeof import("../../js/adapters/pg.ts");
type Copy = typeof import("../../js/adapters/pg-copy-streams.ts");
type Client = InstanceType<Pg["Client"]>;
/** The input of each case: the modules, and the URLs of an ordinary user and of the superuser. */
export interface Given {
  pg: Pg;
  copy: Copy;
  url: string;
  superuserUrl: string;
}
type Failure = Error & { code?: string };

const { equal, deepEqual, match } = assert;

async function withClient(
  { pg, url }: Given,
  work: (client: Client) => Promise<void>,
  options: object = {},
): Promise<void> {
  const client = new pg.Client({ connectionString: url, ...options });
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
}

/** Returns a case with a client. */
const overClient =
  (work: (client: Client, given: Given) => Promise<void>, options: object = {}) =>
  (given: Given): Promise<void> =>
    withClient(given, (client) => work(client, given), options);

const table = (client: Client, columns = "id int4, name text") => client.query(`create temp table t_copy (${columns})`);

/** Returns how many rows the table has; this also shows that the client is ready for it. */
async function count(client: Client): Promise<number> {
  return Number((await client.query("select count(*) from t_copy")).rows[0].count);
}

const closed = (stream: Readable | Writable) => new Promise<void>((resolve) => stream.once("close", () => resolve()));

/** Returns the error of a stream that fails, once it has closed. */
async function failureOf(stream: Readable | Writable): Promise<Failure> {
  let failure: Failure | undefined;
  stream.on("error", (error: Failure) => (failure = error));
  if (stream instanceof Readable) stream.resume();
  await closed(stream);
  assert(failure, "an error");
  return failure!;
}

async function textOf(stream: Readable): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

/** Yields as many bytes as requested, in lines of a thousand. */
function endless(): { source: Readable; given: () => number } {
  const lines = Buffer.from(`7\t${"x".repeat(997)}\n`.repeat(64));
  let given = 0;
  const source = new Readable({
    read() {
      given += lines.length;
      this.push(lines);
    },
  });
  return { source, given: () => given };
}

export const cases: Record<string, (given: Given) => Promise<void>> = {
  "from: finish is emitted when the rows are stored, and rowCount counts them": overClient(async (client, given) => {
    await table(client);
    for (const round of [1, 2]) {
      const stream = client.query(given.copy.from("copy t_copy from stdin"));
      assert(stream instanceof Writable, "a Writable");
      stream.write("1\tAnn\n2\tB");
      stream.write(Buffer.from("ob\n"));
      stream.end("3\tZoë\n");
      await new Promise((resolve) => stream.once("finish", resolve));
      equal(stream.rowCount, 3);
      equal(await count(client), 3 * round);
    }
    deepEqual((await client.query("select name from t_copy where id = 3 limit 1")).rows, [{ name: "Zoë" }]);
  }),

  "from: an empty source, unchanged texts, and more chunks than fit into a message": overClient(
    async (client, given) => {
      await table(client);
      await finished(client.query(given.copy.from("copy t_copy from stdin")).end());
      const options = { decodeStrings: false, objectMode: true, highWaterMark: 10 };
      const texts = client.query(given.copy.from("copy t_copy from stdin", options));
      for (let id = 0; id < 10; id++) equal(texts.write(`${id}\té\n`), id < 9);
      await finished(texts.end());
      const many = client.query(given.copy.from("copy t_copy from stdin"));
      for (let id = 10; id < 100_000; id++) many.write(`${id}\tname ${id}\n`);
      await finished(many.end(`100000\t${"x".repeat(1_000_000)}\n`));
      equal(many.rowCount, 99_991);
      const { rows } = await client.query("select count(*)::int4, sum(id), max(length(name)) from t_copy");
      deepEqual(rows, [{ count: 100_001, sum: "5000050000", max: 1_000_000 }]);
      match(
        (await failureOf(client.query(given.copy.from("copy t_copy from stdin", { objectMode: true })).end(7))).message,
        /texts and bytes/,
      );
    },
  ),

  "to: all rows arrive with their number, and the client still works": overClient(async (client, given) => {
    const stream = client.query(
      given.copy.to("copy (select i, md5(i::text) from generate_series(1, 20000) i) to stdout"),
    );
    assert(stream instanceof Readable, "a Readable");
    const lines = (await textOf(stream)).split("\n");
    equal(lines.length, 20_001);
    equal(lines[0], "1\tc4ca4238a0b923820dcc509a6f75849b");
    equal(stream.rowCount, 20_000);
    // The rest has arrived at once, and is read slowly. It does not hold up the connection.
    const slow = client.query(
      given.copy.to("copy (select i from generate_series(1, 3) i) to stdout", { highWaterMark: 1 }),
    );
    const next = client.query("select 1 as a");
    equal(await textOf(slow), "1\n2\n3\n");
    deepEqual((await next).rows, [{ a: 1 }]);
    equal(await textOf(client.query(given.copy.to("copy (select 1 where false) to stdout"))), "");
    const binary = client.query(given.copy.to("copy (select 7) to stdout (format binary)"));
    let bytes = Buffer.alloc(0);
    for await (const chunk of binary) bytes = Buffer.concat([bytes, chunk as Buffer]);
    deepEqual([bytes.subarray(0, 6).toString(), bytes.length, binary.rowCount], ["PGCOPY", 31, 1]);
  }),

  "pipeline: rows pass from one client into another, through a stream between them": overClient(async (source, given) =>
    withClient(given, async (target) => {
      await table(target, "i int4, t text");
      const select = "select i, repeat('é', i % 50) from generate_series(1, 50000) i";
      const into = target.query(given.copy.from("copy t_copy from stdin"));
      await pipeline(source.query(given.copy.to(`copy (${select}) to stdout`)), new PassThrough(), into);
      equal(into.rowCount, 50_000);
      const { rows } = await target.query("select sum(i), sum(length(t)) as length from t_copy");
      deepEqual(rows, [{ sum: "1250025000", length: "1225000" }]);
    }),
  ),

  "an error of the server is emitted by the stream once, and the client still works": overClient(
    async (client, given) => {
      await table(client);
      const { from, to } = given.copy;
      equal((await failureOf(client.query(from("copy t_copy from stdin")).end("a,b\n"))).code, "22P02");
      equal((await failureOf(client.query(from("copy nowhere from stdin")).end("1\n"))).code, "42P01");
      equal((await failureOf(client.query(to("copy (select 1 / 0) to stdout")))).code, "22012");
      equal((await failureOf(client.query(to("copy --")))).code, "42601");
      equal(await count(client), 0);
      // The same in a transaction, with a pipeline.
      await client.query("begin");
      const broken = pipeline(client.query(to("copy (select nothing) to stdout")), new PassThrough().resume());
      equal((await assert.rejects(broken))["code"], "42703");
      equal((await assert.rejects(client.query("select 1")))["code"], "25P02");
      await client.query("rollback");
      // The error arrives while data are still being sent.
      const { source } = endless();
      const loading = pipeline(source, client.query(from("copy t_copy (id) from stdin")));
      equal((await assert.rejects(loading))["code"], "22P04");
      equal(await count(client), 0);
    },
  ),

  "from: data are taken only as fast as the server takes them, and destroy ends the COPY soon": overClient(
    async (client, given) => {
      await table(client);
      const isSlow =
        "case when name <> '' then pg_sleep(case when random() < 0.001 then 0.2 else 0.02 end)::text = '' end";
      const stream = client.query(given.copy.from(`copy t_copy from stdin where ${isSlow}`));
      const { source, given: bytes } = endless();
      source.pipe(stream);
      let before = -1;
      await until(async () => {
        const now = bytes();
        const isStill = now === before && now > 100_000;
        before = now;
        await pause(100);
        return isStill;
      }, "the source waits");
      assert(bytes() < 64_000_000, `${bytes()} bytes wait`);
      source.unpipe(stream);
      source.destroy();
      stream.destroy(new Error("enough"));
      const error = await inTime(failureOf(stream)); // although the server has thousands of rows to read
      equal((error.cause as Error).message, "enough");
      equal(await count(client), 0);
    },
  ),

  "to: the server waits while the stream is not read, and destroy ends its COPY": overClient(async (client, given) =>
    withClient(given, async (observer) => {
      const stream = client.query(
        given.copy.to("copy (select repeat('x', 1000) from generate_series(1, 10000000)) to stdout"),
      );
      await new Promise((resolve) => stream.once("readable", resolve));
      const state = `select state, wait_event as waits from pg_stat_activity where pid = ${client.processID}`;
      const { rows } = await observer.query(state);
      equal(rows[0].state, "active");
      await until(async () => (await observer.query(state)).rows[0].waits === "ClientWrite", "the server waits");
      stream.destroy();
      await closed(stream);
      await until(async () => (await observer.query(state)).rows[0].state === "idle", "the server is idle");
      deepEqual((await client.query("select 1 as a")).rows, [{ a: 1 }]);
      // Leaving a loop has the same effect.
      for await (const chunk of client.query(given.copy.to("copy (select generate_series(1, 10000000)) to stdout"))) {
        assert((chunk as Buffer).length > 0);
        break;
      }
      deepEqual((await client.query("select 2 as a")).rows, [{ a: 2 }]);
    }),
  ),

  "a cancel that is lost is sent again, and no cancel hits the next query": overClient(async (client, given) => {
    const { connection } = client as unknown as { connection: { cancel(): Promise<void> } };
    const cancel = connection.cancel.bind(connection);
    let sent = 0;
    connection.cancel = () => (sent++ % 2 ? cancel() : Promise.resolve());
    const long = "copy (select repeat('x', 1000) from generate_series(1, 3000000)) to stdout";
    const stream = client.query(given.copy.to(long));
    await new Promise((resolve) => stream.once("readable", resolve));
    stream.destroy();
    await closed(stream);
    const all = sent;
    assert(all >= 2, "it was sent again"); // and again, when the server takes its time
    const { rows } = await client.query("select pg_sleep(0.7), 1 as a");
    deepEqual([rows[0].a, sent], [1, all]);
  }),

  "from: destroy before its turn, before the server is ready, in the middle and after the end": overClient(
    async (client, given) => {
      await table(client);
      const { from } = given.copy;
      const early = client.query(from("copy t_copy from stdin"));
      early.destroy(new Error("at once"));
      const failed = await failureOf(early);
      match(failed.message, /COPY from stdin failed: at once/);
      equal((failed.cause as Error).message, "at once");
      const [sleep, queued] = [client.query("select pg_sleep(0.05)"), client.query(from("copy nowhere from stdin"))];
      queued.destroy();
      await sleep;
      equal(await count(client), 0);
      const midway = client.query(from("copy t_copy from stdin"));
      await new Promise((resolve) => midway.write("1\tAnn\n", resolve));
      midway.destroy(); // without an error: it only closes
      await closed(midway);
      equal(await count(client), 0);
      const broken = new PassThrough();
      const loading = pipeline(broken, client.query(from("copy t_copy from stdin")));
      broken.write("1\tAnn\n");
      broken.destroy(new Error("the source broke"));
      match((await assert.rejects(loading)).message, /the source broke/);
      equal(await count(client), 0);
      await client.query(
        "create function pg_temp.slow() returns trigger language plpgsql as 'begin perform pg_sleep(5); return null; end'",
      );
      await client.query("create trigger slow after insert on t_copy execute function pg_temp.slow()");
      const ended = client.query(from("copy t_copy from stdin")).end("1\tAnn\n");
      await pause(100);
      ended.destroy();
      await closed(ended);
      equal(await count(client), 0);
    },
  ),

  "signals abort before the start and in the middle": overClient(async (client, given) => {
    await table(client);
    const { from, to } = given.copy;
    const signal = AbortSignal.abort();
    equal((await failureOf(client.query(from("copy t_copy from stdin", { signal })))).name, "AbortError");
    equal((await failureOf(client.query(to("copy t_copy to stdout", { signal })))).name, "AbortError");
    const abort = new AbortController();
    const reading = client.query(to("copy (select generate_series(1, 10000000)) to stdout", { signal: abort.signal }));
    reading.once("data", () => abort.abort());
    equal((await failureOf(reading)).name, "AbortError");
    const writing = new AbortController();
    const written = client.query(from("copy t_copy from stdin", { signal: writing.signal }));
    written.write("1\tAnn\n", () => writing.abort());
    equal((await failureOf(written)).name, "AbortError");
    const another = new AbortController();
    const { source } = endless();
    const into = client.query(from("copy t_copy from stdin"));
    setTimeout(() => another.abort(), 100);
    equal((await assert.rejects(pipeline(source, into, { signal: another.signal }))).name, "AbortError");
    equal(await count(client), 0);
  }),

  "a statement of another kind is refused, and the client still works": overClient(async (client, given) => {
    await table(client);
    const { from, to, both } = given.copy;
    match((await failureOf(client.query(from("select 1")).end())).message, /from\(\) wants a COPY/);
    match((await failureOf(client.query(from("copy t_copy to stdout")).end("1"))).message, /from\(\) wants a COPY/);
    match((await failureOf(client.query(to("select 1")))).message, /to\(\) wants a COPY/);
    match((await failureOf(client.query(to("copy t_copy from stdin")))).message, /to\(\) reads/);
    match((await failureOf(client.query(both("select 1")))).message, /both\(\) wants/);
    match((await failureOf(client.query(both("copy t_copy from stdin")))).message, /both\(\) is for replication/);
    const twice = client.query(from("copy t_copy from stdin; copy t_copy from stdin")).end("1\tAnn\n");
    match((await failureOf(twice)).message, /one COPY/);
    equal(await count(client), 0);
  }),

  "a connection that ends also ends the stream": async (given) => {
    const client = new given.pg.Client(given.url);
    client.on("error", () => {});
    await client.connect();
    const stream = client.query(given.copy.to("copy (select pg_sleep(60)) to stdout"));
    const failure = failureOf(stream);
    await withClient(given, async (killer) => {
      await until(
        async () => (await killer.query(`select pg_terminate_backend(${client.processID}) as ok`)).rows[0].ok,
        "it is ended",
      );
    });
    equal((await failure).code, "57P01");
    const other = new given.pg.Client(given.url);
    await other.connect();
    const into = other.query(given.copy.from("copy nowhere from stdin"));
    const ended = failureOf(into);
    await other.end();
    match((await ended).message, /Connection terminated/);
  },

  "query_timeout ends the COPY, and does not touch a COPY that ends in time": overClient(
    async (client, given) => {
      await table(client);
      const { from, to } = given.copy;
      const error = await failureOf(client.query(to("copy (select pg_sleep(60)) to stdout")));
      equal(error.message, "Query read timeout");
      const waiting = client.query(from("copy t_copy from stdin"));
      match((await failureOf(waiting)).message, /COPY from stdin failed: Query read timeout/);
      await finished(client.query(from("copy t_copy from stdin")).end("1\tAnn\n"));
      await pause(500);
      equal(await count(client), 1);
    },
    { query_timeout: 400 },
  ),

  "a callback of query is called at the end, and a pool's client can be used again": async (given) => {
    const pool = new given.pg.Pool({ connectionString: given.url, max: 1 });
    const client = await pool.connect();
    await table(client);
    const told: unknown[] = [];
    const stream = given.copy.from("copy t_copy from stdin");
    client.query(stream, (error) => told.push(error));
    await finished(stream.end("1\tAnn\n"));
    const wrong = given.copy.from("copy t_copy from stdin");
    client.query(wrong, (error) => told.push((error as Failure).code));
    equal((await failureOf(wrong.end("x\n"))).code, "22P02");
    deepEqual(told, [null, "22P02"]);
    const left = client.query(given.copy.to("copy (select generate_series(1, 10000000)) to stdout"));
    left.once("data", () => left.destroy());
    client.release();
    deepEqual((await pool.query("select count(*)::int4 as n from t_copy")).rows, [{ n: 1 }]);
    await pool.end();
  },

  "both: the server's log arrives in whole messages, replies are sent, and the session survives": overClient(
    async (writer, given) =>
      withClient(
        { ...given, url: given.superuserUrl },
        async (client) => {
          const { xlogpos } = (await client.query("IDENTIFY_SYSTEM")).rows[0];
          const stream = client.query(given.copy.both(`START_REPLICATION ${xlogpos}`, { alignOnCopyDataFrame: true }));
          const kinds = new Set<string>();
          let isWhole = true;
          stream.on("data", (chunk: Buffer) => {
            kinds.add(String.fromCharCode(chunk[0]!));
            isWhole &&= chunk[0] !== 107 || chunk.length === 18;
          });
          await writer.query("create temp table t_wal (id int4); select pg_sleep(0)");
          await until(async () => {
            await writer.query("select txid_current()");
            return kinds.has("w");
          }, "a piece of the log");
          // A standby status update that asks for a reply.
          kinds.delete("k");
          const status = Buffer.alloc(34);
          status[0] = 114;
          status[33] = 1;
          stream.write(status);
          await until(() => kinds.has("k"), "a keepalive");
          assert(isWhole, "whole messages");
          stream.end();
          await finished(stream);
          assert((await client.query("IDENTIFY_SYSTEM")).rows.length === 1);
          // An abandoned stream ends too, and its client still works.
          const left = client.query(given.copy.both(`START_REPLICATION ${xlogpos}`));
          await new Promise((resolve) => left.once("data", resolve));
          left.destroy();
          await closed(left);
          assert((await client.query("IDENTIFY_SYSTEM")).rows.length === 1);
          const failed = await failureOf(client.query(given.copy.both("START_REPLICATION SLOT nowhere 0/0")));
          equal(failed.code, "42704");
        },
        { replication: "database" },
      ),
  ),
};
