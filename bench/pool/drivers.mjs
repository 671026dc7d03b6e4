// Each library's pool, used in its own idiom: `open(url, { max, named })` -> the functions of a borrower and a worker.
//
//   select(shape)       the rows of that text of SELECTS, on whatever connection is free
//   borrow(work)        `work(on)` with one connection: `on.rows(text, n)`, `on.transaction(work)`, `on.copyOut(sql,
//                       sink)`, `on.copyIn(sql, bytes)`; what a library has no way for is not there
//   pair()              acquires an idle connection and gives it back
//   call()              what the library's own call of select_1 gives, for per-call.mjs
//   codeOf(error)       its SQLSTATE, or what the library says instead
//
// `named`: statements may have names. Through PgBouncer 1.18 no library uses names. All pools have the same size, and
// no connection ends by age.
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createPgzPool } from "../lib/pgz-edge.mjs";
import { SELECTS, texts } from "./shapes.mjs";

const codeOf = (error) => error.code ?? error.name;

export const drivers = {
  "pgz-edge": (url, { max }) => ours(url, { max }),

  /**
   * Calls share a busy connection when no other can be made. A lease does not, so borrowing is the same as without
   * pipelining.
   */
  async "pgz-edge pipelining"(url, { max }) {
    const { borrow: _, pair: __, ...calls } = await ours(url, { max, pipelining: 8 });
    return calls;
  },

  async pg(url, { max, named }) {
    const { default: pg } = await import("pg");
    const { from, to } = await import("pg-copy-streams");
    const pool = new pg.Pool({ connectionString: url, max, idleTimeoutMillis: 0 });
    pool.on("error", () => {}); // errors of idle connections
    const query = named
      ? (on, text, n) => on.query({ name: `t${text}`, text: texts[text], values: [n] })
      : (on, text, n) => on.query(texts[text], [n]);
    const one = (shape) => (named ? { name: shape, text: SELECTS[shape] } : SELECTS[shape]);
    const transaction = (client, work) => inTransaction((text) => client.query(text), work);
    return {
      codeOf,
      select: async (shape) => (await pool.query(one(shape))).rows,
      call: () => pool.query(one("select_1")),
      async pair() {
        (await pool.connect()).release();
      },
      async borrow(work) {
        const client = await pool.connect();
        const on = { rows: async (text, n) => (await query(client, text, n)).rows };
        try {
          return await work({
            ...on,
            transaction: (inner) => transaction(client, () => inner(on)),
            async copyOut(sql, sink) {
              for await (const piece of client.query(to(sql))) sink(piece);
            },
            copyIn: (sql, bytes) =>
              transaction(client, () => pipeline(Readable.from([bytes]), client.query(from(sql)))),
          });
        } finally {
          client.release();
        }
      },
    };
  },

  /**
   * COPY out is left out: after a COPY out the socket may stay paused (3.4.9), and the next query then waits forever.
   * With `fetch_types: false` a `reserve()` that makes a connection never resolves, so types are queried at login.
   */
  async "postgres.js"(url, { max, named }) {
    const { default: postgres } = await import("postgres");
    const pool = postgres(url, {
      max,
      prepare: named,
      max_lifetime: null,
      idle_timeout: 0,
      onnotice: () => {},
    });
    const prepared = { prepare: named };
    return {
      codeOf,
      select: (shape) => pool.unsafe(SELECTS[shape], [], prepared),
      call: () => pool.unsafe(SELECTS.select_1, [], prepared),
      async pair() {
        (await pool.reserve()).release();
      },
      borrow: (work) =>
        reserve(pool, [prepared], work, (reserved, transaction) => ({
          copyIn: (sql, bytes) =>
            transaction(async () => pipeline(Readable.from([bytes]), await reserved.unsafe(sql).writable())),
        })),
    };
  },

  /** Bun.sql has no COPY. */
  async "bun.sql"(url, { max, named }) {
    const pool = new globalThis.Bun.SQL(url, { max, prepare: named, idleTimeout: 0, maxLifetime: 0 });
    return {
      codeOf: (error) => error.errno ?? codeOf(error),
      select: (shape) => pool.unsafe(SELECTS[shape]),
      async pair() {
        (await pool.reserve()).release();
      },
      borrow: (work) => reserve(pool, [], work),
    };
  },
};

/** Borrows a connection of postgres.js or Bun.sql. `options` are further arguments of `unsafe`. */
async function reserve(pool, options, work, more = () => ({})) {
  const reserved = await pool.reserve();
  const on = { rows: (text, n) => reserved.unsafe(texts[text], [n], ...options) };
  const transaction = (inner) => inTransaction((text) => reserved.unsafe(text), inner);
  try {
    return await work({ ...on, transaction: (inner) => transaction(() => inner(on)), ...more(reserved, transaction) });
  } finally {
    reserved.release();
  }
}

/** A reserved connection has no `begin` of its own. */
async function inTransaction(run, work) {
  await run("begin");
  try {
    const result = await work();
    await run("commit");
    return result;
  } catch (error) {
    await run("rollback");
    throw error;
  }
}

async function ours(url, options) {
  const pool = await createPgzPool(url, { idleTimeout: 0, maxLifetime: 0, ...options });
  const calls = (on) => ({ rows: async (text, n) => (await on.query({ text: texts[text], values: [n] })).rows });
  return {
    codeOf,
    select: async (shape) => (await pool.query(SELECTS[shape])).rows,
    call: () => pool.query(SELECTS.select_1),
    connections: () => pool.stats().connects,
    async pair() {
      const lease = await pool.acquire();
      await lease.release();
    },
    async borrow(work) {
      const lease = await pool.acquire();
      try {
        return await work({
          ...calls(lease),
          transaction: (inner) => lease.transaction((tx) => inner(calls(tx))),
          async copyOut(sql, sink) {
            for await (const piece of await lease.copyTo(sql)) sink(piece);
          },
          copyIn: (sql, bytes) => lease.transaction((tx) => tx.copyFrom(sql, [bytes])),
        });
      } finally {
        await lease.release();
      }
    },
  };
}
