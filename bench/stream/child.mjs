// One library as NDJSON source: `node child.mjs <library> <url>`. Each run produces the NDJSON bytes of a query, as for a Response,
// and gives their number; `check` keeps them all and gives their hash and first and last line.
//
// Every form is the idiomatic one of its library: buffered (all rows, then JSON) and cursor (as they come, 64 KiB writes or so).
import { createHash } from "node:crypto";
import net from "node:net";
import { serve, timed } from "../lib/worker.mjs";

const [library, url] = process.argv.slice(2);
const backendPid = "select pg_backend_pid() as pid";

const libraries = {
  "pgz-edge": pgzEdge,
  "postgres.js": () => postgresJs(false),
  "postgres.js cursor": () => postgresJs(true),
  pg: pgBuffered,
  "pg-query-stream": pgQueryStream,
  "pg-copy-streams": pgCopyStreams,
  drain,
};

const source = await libraries[library]();
serve(async ({ sql, check, idle, hello }) => {
  if (hello) return { backend: source.backend };
  if (idle) return timed(() => new Promise((resolve) => setTimeout(() => resolve({}), idle)));
  if (!check) {
    return timed(async () => {
      let bytes = 0;
      await source(sql, (chunk) => void (bytes += chunk.length));
      return { bytes };
    });
  }
  const chunks = [];
  await source(sql, (chunk) => void chunks.push(Buffer.from(chunk)));
  const all = Buffer.concat(chunks);
  const lines = all.toString().split("\n");
  return { bytes: all.length, sha256: createHash("sha256").update(all).digest("hex"), lines: lines.length - 1, first: lines[0], last: lines.at(-2) };
});

async function pgzEdge() {
  const { connect } = await import("../../dist/node.js");
  const client = await connect(url);
  const source = async (sql, sink) => {
    for await (const chunk of await client.stream(sql)) sink(chunk);
  };
  source.backend = (await client.query(backendPid)).rows[0].pid;
  return source;
}

async function postgresJs(cursor) {
  const { default: postgres } = await import("postgres");
  const sql = postgres(url, { max: 1, fetch_types: false, max_lifetime: null, idle_timeout: 0 });
  const source = async (text, sink) => {
    if (!cursor) return sink(Buffer.from((await sql.unsafe(text)).map((row) => `${JSON.stringify(row)}\n`).join("")));
    await sql.unsafe(text).cursor(1000, (rows) => sink(Buffer.from(rows.map((row) => `${JSON.stringify(row)}\n`).join(""))));
  };
  source.backend = (await sql.unsafe(backendPid))[0].pid;
  return source;
}

async function pgClient() {
  const { default: pg } = await import("pg");
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  return { client, backend: (await client.query(backendPid)).rows[0].pid };
}

async function pgBuffered() {
  const { client, backend } = await pgClient();
  const source = async (sql, sink) => sink(Buffer.from((await client.query(sql)).rows.map((row) => `${JSON.stringify(row)}\n`).join("")));
  return Object.assign(source, { backend });
}

async function pgQueryStream() {
  const { default: QueryStream } = await import("pg-query-stream");
  const { client, backend } = await pgClient();
  const source = async (sql, sink) => {
    let lines = "";
    for await (const row of client.query(new QueryStream(sql, [], { batchSize: 1000, highWaterMark: 1000 }))) {
      lines += `${JSON.stringify(row)}\n`;
      if (lines.length >= 65536) {
        sink(Buffer.from(lines));
        lines = "";
      }
    }
    sink(Buffer.from(lines));
  };
  return Object.assign(source, { backend });
}

async function pgCopyStreams() {
  const { to } = await import("pg-copy-streams");
  const { client, backend } = await pgClient();
  const source = async (sql, sink) => {
    for await (const chunk of client.query(to(`COPY (SELECT row_to_json(t) FROM (${sql}) t) TO STDOUT`))) sink(chunk);
  };
  return Object.assign(source, { backend });
}

/**
 * The floor: a socket without a driver that asks for the same binary rows and drops them. The core logs in (SCRAM), then its
 * last flight is sent as bytes and the answer is read until ReadyForQuery ends a chunk.
 */
async function drain() {
  const { initSync, CoreConnection } = await import("../../pkg/pgz_edge.js");
  const { readFileSync } = await import("node:fs");
  const { memory } = initSync({ module: readFileSync(new URL("../../pkg/pgz_edge_bg.wasm", import.meta.url)) });
  const { hostname, port, username, password, pathname } = new URL(url);
  const core = new CoreConnection(1 << 30, "drain", 0);
  const parameters = ["user", decodeURIComponent(username), "database", pathname.slice(1), "client_encoding", "UTF8", ""].join("\0");
  const nonce = createHash("sha256").update(String(Math.random())).digest("base64").slice(0, 24);

  let onChunk;
  const buffer = Buffer.alloc(65536);
  const socket = net.connect({ host: hostname, port: Number(port), onread: { buffer, callback: (length, bytes) => (onChunk(bytes.subarray(0, length)), true) } });
  socket.setNoDelay(true);
  const events = [];
  let settle;
  const step = (status) => {
    for (;;) {
      if (status & 1) socket.write(core.take_output());
      if (status & 2) core.rows_taken();
      for (let event; (event = core.next_event()) !== undefined; ) events.push(JSON.parse(Buffer.from(event)));
      if (!(status & 8)) break;
      status = core.receive(0);
    }
    if (events.at(-1)?.kind === "ready") settle();
    if (events.at(-1)?.kind === "failure") throw new Error(JSON.stringify(events.at(-1)));
  };
  const conversation = (begin) =>
    new Promise((resolve) => {
      settle = resolve;
      events.length = 0;
      onChunk = (chunk) => {
        const pointer = core.input(chunk.length); // may grow the memory, so the view comes after it
        new Uint8Array(memory.buffer).set(chunk, pointer);
        step(core.receive(chunk.length));
      };
      begin();
    });
  await conversation(() => socket.once("connect", () => step(core.start(196608, parameters, decodeURIComponent(password), nonce, 15, 100_000, 65536))));
  const backend = events.find(({ kind }) => kind === "backendKeyData").processId;

  const flights = new Map();
  const flight = async (sql) => {
    if (flights.has(sql)) return flights.get(sql);
    await conversation(() => step(core.describe(sql)));
    const shape = events.findLast(({ kind }) => kind === "shape");
    core.execute(1, sql, new Uint32Array(shape.parameterTypes), new Uint8Array(shape.resultFormats), new Uint8Array(4), 0, 0, 0);
    const bytes = core.take_output();
    await conversation(() => socket.write(bytes)); // once with the core, so that its books are closed when the bytes are sent again without it
    flights.set(sql, bytes);
    return bytes;
  };
  const source = async (sql, sink) => {
    const bytes = await flight(sql);
    let total = 0;
    await new Promise((resolve) => {
      onChunk = (chunk) => {
        sink(chunk);
        total += chunk.length;
        // ReadyForQuery is the last message: 'Z', length 5, status. Rows of these shapes cannot end like it.
        const end = chunk.length - 6;
        if (end >= 0 && chunk[end] === 0x5a && chunk[end + 4] === 5 && chunk[end + 5] === 0x49) resolve();
      };
      socket.write(bytes);
    });
  };
  return Object.assign(source, { backend });
}
