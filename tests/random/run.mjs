// Runs random sessions by hand, against its own servers:
//
//   node tests/random/run.mjs                    sessions for a minute, the first seed from the clock
//   MINUTES=60 node tests/random/run.mjs         sessions for an hour
//   SEED=7 node tests/random/run.mjs             one session, and its script
//   bun tests/random/run.mjs, deno run -A tests/random/run.mjs
//   POOLED=1 …                                   behind PgBouncer 1.18
//
// AT_ONCE=4 sessions run concurrently. A session with a fault prints its script and its seed. The last line counts.
import { startServers } from "../servers/index.mjs";
import { sideOf } from "../servers/sidecar.mjs";
import { bundled, driver, runtime, watchUncaught } from "../support/by-hand.mjs";

const { env } = process;
const one = env.SEED === undefined ? undefined : Number(env.SEED);
const minutes = Number(env.MINUTES ?? 1);
const atOnce = one === undefined ? Number(env.AT_ONCE ?? 4) : 1;

const { runSession } = await bundled(import.meta.url, "session.ts");
const uncaught = watchUncaught();

const { servers, pgbouncer, stop } = await startServers({ majors: [18], pgbouncer: env.POOLED !== undefined });
const [server] = servers;
const { side, stop: stopSide } = await sideOf(server);
const place = {
  driver,
  options: { connectionString: (pgbouncer ?? server).url, sslmode: "disable" },
  name: `${runtime}_${process.pid}`,
  isPooled: pgbouncer !== undefined,
  hasOwnBody: false,
  side,
};

const first = one ?? (Date.now() % 1_000_000) * 1_000;
const until = performance.now() + minutes * 60_000;
const counts = { sessions: 0, calls: 0, disturbed: 0, faults: 0 };
let next = first;
const worker = async () => {
  while (one === undefined ? performance.now() < until : next === first) {
    const report = await runSession(place, next++);
    counts.sessions++;
    counts.calls += report.calls;
    counts.disturbed += report.disturbed;
    counts.faults += report.faults.length;
    if (one === undefined && !report.faults.length) continue;
    console.log(`SEED=${report.seed}\n${report.script.join("\n")}`);
    for (const fault of report.faults) console.log(`FAULT of seed ${report.seed}: ${fault}`);
  }
};
await Promise.all(Array.from({ length: atOnce }, worker));
await stopSide();
await stop();
console.log(
  `${runtime}: ${counts.sessions} sessions from seed ${first}, ${counts.calls} calls, ${counts.disturbed} disturbed, ` +
    `${counts.faults} faults, ${uncaught.length} uncaught`,
);
process.exit(counts.faults + uncaught.length ? 1 : 0);
