// Each library, used in its own idiom: `open(url)` -> `{ bytes, rows, out }`. `bytes(sql, pieces)` and `rows(table,
// columns, rows)` return the number of rows that the server took, if the library reports it. `out(sql, sink)` passes
// each piece to the sink; `ready()` runs before it and is not timed. A function that a library does not support is
// missing.
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { openBare } from "../lib/bare.mjs";
import { connectPgz } from "../lib/pgz-edge.mjs";

export const libraries = {
  async "pgz-edge"(url) {
    const client = await connectPgz(url);
    return {
      ...(client.copyFrom && { bytes: async (sql, pieces) => (await client.copyFrom(sql, pieces)).rowCount }),
      ...(client.copyFromRows && {
        rows: async (table, columns, rows) => (await client.copyFromRows(table, columns, rows)).rowCount,
      }),
      ...(client.copyTo && {
        async out(sql, sink) {
          for await (const piece of await client.copyTo(sql)) sink(piece);
        },
      }),
    };
  },

  async "pg-copy-streams"(url) {
    const { default: pg } = await import("pg");
    const { from, to } = await import("pg-copy-streams");
    const client = new pg.Client({ connectionString: url });
    await client.connect();
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
    const { default: postgres } = await import("postgres");
    const open = () => postgres(url, { max: 1, fetch_types: false, max_lifetime: null, idle_timeout: 0 });
    let pool = open();
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
        pool = open();
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
