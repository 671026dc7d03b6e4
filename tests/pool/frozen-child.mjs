// A process that is stopped for a while, and whose pool's sessions end meanwhile. `node frozen-child.mjs <url>`.
import { createPool } from "../../dist/node.js";

const pool = createPool(process.argv[2], { max: 3 });
const pid = async (calls) => (await calls.query("select pg_backend_pid() as pid")).rows[0].pid;
const leases = await Promise.all([pool.acquire(), pool.acquire(), pool.acquire()]);
const pids = await Promise.all(leases.map(pid));
await Promise.all(leases.map((lease) => lease.release()));
process.send({ pids });
// The message is read in the event loop's turn in which the ends of the sockets may not have been read yet.
process.once("message", async () => {
  const outcomes = await Promise.allSettled(Array.from({ length: 9 }, () => pid(pool)));
  const failed = outcomes.flatMap(({ reason }) => (reason ? [String(reason)] : []));
  await pool.close();
  process.send({ failed, total: pool.stats().total });
});
