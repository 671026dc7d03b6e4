// One library as NDJSON source. A request produces the NDJSON bytes of a query, as for a Response, and returns their
// number; `check` keeps them all and returns hashes of bytes and of content.
//
// Every form is the idiomatic one of its library: buffered (all rows, then JSON) and cursor (as rows arrive, in writes
// of about 64 KiB). A source is `open(url)` -> `(sql, sink, format)`, which a runtime loads only if it supports it.
import { canonicalHash } from "../lib/content.mjs";
import { sha256 } from "../lib/child.mjs";
import { pgClient, postgresJs } from "../lib/connect.mjs";
import { connectPgz } from "../lib/pgz-edge.mjs";
import { shapes } from "../lib/shapes.mjs";
import { linesOf } from "./formats.mjs";

const sources = {
  async "pgz-edge"(url) {
    const client = await connectPgz(url);
    return async (sql, sink, format) => {
      for await (const chunk of await client.stream(sql, { format })) sink(chunk);
    };
  },

  async "postgres.js"(url) {
    const sql = await postgresJs(url);
    return async (text, sink) => sink(ndjson(await sql.unsafe(text)));
  },

  async "postgres.js cursor"(url) {
    const sql = await postgresJs(url);
    return (text, sink) => sql.unsafe(text).cursor(1000, (rows) => sink(ndjson(rows)));
  },

  async pg(url) {
    const client = await pgClient(url);
    return async (sql, sink) => sink(ndjson((await client.query(sql)).rows));
  },

  async "pg-query-stream"(url) {
    const client = await pgClient(url);
    const { default: QueryStream } = await import("pg-query-stream");
    return async (sql, sink) => {
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
  },

  /** The server makes the JSON. */
  async "pg-copy-streams"(url) {
    const client = await pgClient(url);
    const { to } = await import("pg-copy-streams");
    return async (sql, sink) => {
      for await (const chunk of client.query(to(`COPY (SELECT row_to_json(t) FROM (${sql}) t) TO STDOUT`))) sink(chunk);
    };
  },

  /** Bun.sql returns int4[] as Int32Array, which JSON.stringify would print as an object. */
  async "bun.sql"(url) {
    const sql = new globalThis.Bun.SQL(url, { max: 1 });
    const plain = (_, value) => (ArrayBuffer.isView(value) ? Array.from(value) : value);
    return async (text, sink) => {
      const rows = await sql.unsafe(text);
      const views = ArrayBuffer.isView(Object.values(rows[0] ?? {}).find((value) => typeof value === "object"));
      sink(ndjson(rows, views ? plain : undefined));
    };
  },

  drain: async (url) => (await (await import("./drain.mjs")).open(url)).run,
};

const ndjson = (rows, plain) => Buffer.from(rows.map((row) => `${JSON.stringify(row, plain)}\n`).join(""));

export async function open(library, url) {
  const source = await sources[library](url);
  return {
    // COPY as text doubles backslashes, and pg-copy-streams does not undo this.
    shapes: Object.keys(shapes).filter((shape) => shape !== "dense_escapes" || library !== "pg-copy-streams"),

    async run({ sql, format = "ndjson", times = 1 }) {
      let bytes = 0;
      for (let time = 0; time < times; time++) await source(sql, (chunk) => void (bytes += chunk.length), format);
      return { bytes };
    },

    async check({ sql, format = "ndjson" }) {
      const chunks = [];
      await source(sql, (chunk) => void chunks.push(Uint8Array.from(chunk)), format); // drain reuses its buffer
      const all = Buffer.concat(chunks);
      const bytes = { bytes: all.length, sha256: sha256(all) };
      if (library === "drain") return bytes;
      const lines = linesOf(all.toString(), format);
      return { ...bytes, lines: lines.length, canonical: canonicalHash(lines) };
    },
  };
}
