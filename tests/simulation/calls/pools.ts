// A pool's own methods in the middle of its calls: its size, its reset, its waiters, and its counts, which must add up.
//
// Knows the public methods of a pool. Must not know how it counts.
import type * as pgz from "../../../js/index.ts";
import { assert } from "../../integration/assert.ts";
import { pause } from "../../random/plan.ts";
import { asPool, endOf, mayBeRefused, type Make } from "./call.ts";

/** The largest size that a pool has had: connections from that time may still be in use. */
const largest = new WeakMap<pgz.Pool, number>();

function addsUp(pool: pgz.Pool): void {
  const { max, total, idle, acquired, connecting, waiting } = pool.stats();
  const most = Math.max(max, largest.get(pool) ?? 0);
  const counts = `${total} in all: ${idle} idle, ${acquired} acquired, ${connecting} connecting, ${waiting} waiting`;
  assert(idle + acquired + connecting <= total, counts);
  assert(total <= most, `${counts} of ${most}`);
  assert(Math.min(total, idle, acquired, connecting, waiting) >= 0, counts);
}

const one: Make = (_, world) => {
  const number = ++world.number;
  return {
    says: `query of ${number}, and its pool's counts`,
    kind: "client",
    async run(caller, options) {
      const pool = asPool(caller);
      addsUp(pool);
      const asked = pool.query(world.sql`select ${number}::int4 as n`, options);
      addsUp(pool);
      const error = await endOf(asked);
      addsUp(pool);
      if (error !== undefined) throw error;
      assert.deepEqual((await asked).rows, [{ n: number }]);
    },
  };
};

/** Makes the pool smaller, and later restores its size. */
const resized: Make = (dice) => {
  const isSmaller = dice.oneIn(2);
  const stays = dice.below(dice.pick([2, 50]));
  return {
    says: `resize, and back after ${stays} ms`,
    kind: "client",
    // The driver closes connections, and opens new ones before the server notices the close.
    connections: 10,
    async run(caller) {
      const pool = asPool(caller);
      const most = largest.get(pool) ?? pool.options.max;
      largest.set(pool, most);
      const size = isSmaller ? 1 : Math.max(1, most >> 1);
      pool.resize(size);
      assert.equal(pool.stats().max, size);
      addsUp(pool);
      await pause(stays);
      pool.resize(most);
      addsUp(pool);
    },
  };
};

/** No connection of this moment is lent again. */
const renewed: Make = (dice, world) => {
  const number = ++world.number;
  const isUnder = dice.oneIn(2);
  return {
    says: `reset${isUnder ? " under a query" : ""}, and a query`,
    kind: "client",
    // The driver closes connections, and opens new ones before the server notices the close.
    connections: 10,
    async run(caller, options) {
      const pool = asPool(caller);
      const query = world.sql`select ${number}::int4 as n`;
      const under = isUnder ? pool.query(query, options) : undefined;
      const before = under && endOf(under);
      pool.reset();
      addsUp(pool);
      const error = await before;
      if (error !== undefined) throw error;
      assert.deepEqual((await pool.query(query, options)).rows, [{ n: number }]);
      addsUp(pool);
    },
  };
};

const idle: Make = (dice) => {
  const waits = dice.pick([1, 20, 500]);
  return {
    says: `waits ${waits} ms for an idle pool`,
    kind: "client",
    async run(caller) {
      const pool = asPool(caller);
      await mayBeRefused(pool.waitIdle(AbortSignal.timeout(waits)), "ABORTED");
      addsUp(pool);
    },
  };
};

/** Errors of the pool's event listeners do not reach the caller. */
const watched: Make = (_, world) => {
  const number = ++world.number;
  return {
    says: "query under the pool's events",
    kind: "client",
    async run(caller, options) {
      const pool = asPool(caller);
      const events = ["connect", "acquire", "release", "remove"] as const;
      let count = 0;
      const listener = () => {
        count++;
        throw new Error("a listener of the pool's throws");
      };
      for (const event of events) pool.on(event, listener);
      try {
        assert.deepEqual((await pool.query(world.sql`select ${number}::int4 as n`, options)).rows, [{ n: number }]);
        assert(count > 0, "events of a call");
      } finally {
        for (const event of events) pool.off(event, listener);
      }
    },
  };
};

export const pools: readonly Make[] = [one, one, resized, resized, renewed, idle, watched];
