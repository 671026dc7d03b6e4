// Pool connections that several calls share: they are shared evenly, and no call waits while a connection has room.
//
// Knows `pipelining` of pools, and `stats()`. Each call makes its own pool, since it counts what is in use.
import { driver } from "../driver.ts";
import type * as pgz from "../../../js/index.ts";
import { assert } from "../../integration/assert.ts";
import { pause } from "../../random/plan.ts";
import { endOf, optionsOf, with_, type CallWorld, type Make } from "./call.ts";

const sleep = ({ sql }: CallWorld, milliseconds: number) =>
  sql`select pg_backend_pid() as pid, pg_sleep(${milliseconds / 1_000}::float8) as slept`;

/** Number of calls that share. */
const MANY = 10;

const evenly: Make = (dice, world) => {
  const each = 1 + dice.below(5);
  return {
    says: `${MANY} calls over two connections`,
    kind: "client",
    connections: 2,
    isDirect: true,
    async run() {
      const pool = driver.createPool({ ...optionsOf(world), max: 2, pipelining: MANY });
      await with_(pool, async () => {
        const [one, other] = await twoProcesses(pool);
        const asked = Array.from({ length: MANY }, () => pool.query<{ pid: number }>(sleep(world, each)));
        const pids = (await Promise.all(asked)).map(({ rows }) => rows[0]!.pid);
        const counts = [one, other].map((pid) => pids.filter((it) => it === pid).length);
        // One connection was lost meanwhile, and its calls that had not begun ran on the other one.
        if (one === other || counts.includes(0) || counts[0]! + counts[1]! < MANY || pool.stats().total < 2) return;
        // A call that a cancel has hit runs again, perhaps on the other connection.
        const most = Math.max(...counts);
        assert(most <= MANY / 2 + 2, `${most} of ${MANY} calls on one of two connections`);
      });
    },
  };
};

/** Returns the process ids of two idle connections. */
async function twoProcesses(pool: pgz.Pool): Promise<(number | undefined)[]> {
  const asked = await Promise.allSettled([pool.acquire(), pool.acquire()]);
  const leases = asked.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
  try {
    // The process ids are known when the logins are over.
    await Promise.all(leases.map((lease) => lease.query("select 1 as n")));
    return leases.map(({ processId }) => processId);
  } finally {
    await Promise.all(leases.map((lease) => lease.release()));
  }
}

const lets: Make = (dice, world) => {
  const long = 50 + dice.below(300);
  return {
    says: `a third call beside two that share, of which one takes ${long} ms`,
    kind: "client",
    connections: 1,
    async run() {
      const pool = driver.createPool({ ...optionsOf(world), max: 1, pipelining: 2 });
      await with_(pool, async () => {
        await pool.query(sleep(world, 0));
        const [first, ...others] = [1, long, 0].map((milliseconds) => pool.query(sleep(world, milliseconds)));
        const ends = others.map(endOf);
        const error = await endOf(first!);
        await pause(1);
        const { waiting, acquired } = pool.stats();
        const errors = [error, ...(await Promise.all(ends))].filter((it) => it !== undefined);
        if (errors.length) throw errors[0];
        assert(!(acquired && waiting), "a call waits for two that share, of which one is over");
      });
    },
  };
};

/** Calls for any caller, which they do not use. They need `options` of their world. */
export const sharing: readonly Make[] = [evenly, lets];
