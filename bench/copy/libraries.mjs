// Each library, used in its own idiom: `open(url)` -> `{ bytes, rows, out }`. `bytes(sql, pieces)` and `rows(table,
// columns, rows)` return the number of rows that the server took, if the library reports it. `out(sql, sink)` passes
// each piece to the sink; `ready()` runs before it and is not timed. A function that a library does not support is
// missing.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { openBare } from "../lib/bare.mjs";
import { pgClient, postgresJs } from "../lib/connect.mjs";
import { connectPgz } from "../lib/pgz-edge.mjs";
import { pieces, shapes, statement, tables } from "./content.mjs";

const libraries = {
  async "pgz-edge"(url) {
    const client = await connectPgz(url);
    return {
      bytes: async (sql, source) => (await client.copyFrom(sql, source)).rowCount,
      rows: async (table, columns, rows) => (await client.copyFromRows(table, columns, rows)).rowCount,
      async out(sql, sink) {
        for await (const piece of await client.copyTo(sql)) sink(piece);
      },
    };
  },

  async "pg-copy-streams"(url) {
    const { from, to } = await import("pg-copy-streams");
    const client = await pgClient(url);
    const bytes = async (sql, source) => {
      const stream = client.query(from(sql));
      await pipeline(Readable.from(source), stream);
      return stream.rowCount;
    };
    return {
      bytes,
      rows: (table, columns, rows) => bytes(`COPY ${table} (${columns}) FROM STDIN`, lines(rows)),
      async out(sql, sink) {
        for await (const piece of client.query(to(sql))) sink(piece);
      },
    };
  },

  async "postgres.js"(url) {
    const connected = () => postgresJs(url, { fetch_types: false });
    let pool = await connected();
    await pool`select 1`;
    const bytes = async (sql, source) =>
      void (await pipeline(Readable.from(source), await pool.unsafe(sql).writable()));
    return {
      bytes,
      rows: (table, columns, rows) => bytes(`COPY ${table} (${columns}) FROM STDIN`, lines(rows)),
      /**
       * Opens a new connection each time: after a COPY out the socket may stay paused (3.4.9), and the next query then
       * waits forever.
       */
      async ready() {
        await pool.end({ timeout: 0 });
        pool = await connected();
        await pool`select 1`;
      },
      async out(sql, sink) {
        for await (const piece of await pool.unsafe(sql).readable()) sink(piece);
      },
    };
  },

  /** Reads the response to COPY and drops it: the rows with their message headers, without a driver. */
  async bare(url) {
    const bare = await openBare(url);
    const known = new Map();
    return {
      async out(sql) {
        if (!known.has(sql)) known.set(sql, await bare.learn(sql));
        await bare.exchange(known.get(sql));
      },
    };
  },
};

/** Rows as COPY's text, in pieces of about 64 KiB: the code that a user writes for a library that takes only bytes. */
function* lines(rows) {
  let text = "";
  for (const row of rows) {
    text += `${row.map(escaped).join("\t")}\n`;
    if (text.length >= 65536) {
      yield Buffer.from(text);
      text = "";
    }
  }
  yield Buffer.from(text);
}

const escapes = { "\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r" };
const escaped = (cell) =>
  cell === null ? "\\N" : /[\\\t\n\r]/.test(cell) ? cell.replace(/[\\\t\n\r]/g, (letter) => escapes[letter]) : cell;

export async function open(library, url) {
  const calls = await libraries[library](url);
  const possible = ({ from, table }) =>
    from === "rows" ? calls.rows && (library === "pgz-edge" || table !== "3col") : from ? calls.bytes : calls.out;
  /** The data of the last shape only: a million rows of every shape would be too many. */
  let made = {};
  const once = (key, make) => (made.key === key ? made : (made = { key, value: make() })).value;
  return {
    shapes: Object.keys(shapes).filter((name) => possible(shapes[name])),

    async prepare({ shape, times, file }) {
      const { from, table } = shapes[shape];
      if (from === "bytes") return once(file, () => pieces(readFileSync(file)));
      if (from === "rows") return once(`${table} ${times}`, () => tables[table].rows(times));
      await calls.ready?.();
    },

    async run({ shape }, source) {
      const { from, table } = shapes[shape];
      if (from === "bytes") return { rows: (await calls.bytes(statement(shapes[shape]), source)) ?? undefined };
      if (from === "rows")
        return { rows: (await calls.rows(`bench_${table}`, tables[table].columns, source)) ?? undefined };
      let bytes = 0;
      await calls.out(statement(shapes[shape]), (piece) => void (bytes += piece.length));
      return { bytes };
    },

    async check({ shape }) {
      await calls.ready?.();
      const hash = createHash("sha256");
      await calls.out(statement(shapes[shape]), (piece) => void hash.update(piece));
      return { sha256: hash.digest("hex") };
    },
  };
}
