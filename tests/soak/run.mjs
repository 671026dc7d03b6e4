// Soaks a pool: mixed load of many users through a gate that harms connections, for any length of time.
//
//   node --expose-gc tests/soak/run.mjs                for a minute (`make soak MINUTES=60`)
//   bun tests/soak/run.mjs, deno run -A --v8-flags=--expose-gc tests/soak/run.mjs
//
// It prints memory and sockets while it runs. The last line counts. It fails if a call had a wrong result or did not
// settle, or if something is left.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { startServers } from "../servers/index.mjs";
import { sideOf } from "../servers/sidecar.mjs";
import { bundled, driver, runtime, watchUncaught } from "../support/by-hand.mjs";

const milliseconds = Number(process.env.MINUTES ?? 1) * 60_000;
/** Draws the calls. When they meet which harm depends on the machine. */
const seed = Number(process.env.SEED ?? Date.now() % 1_000_000);
/** Maximum MiB by which the heap may grow from a tenth of the time to the end. */
const MOST_GROWN = 8;

const { start } = await bundled(import.meta.url, "soak.ts");
const uncaught = watchUncaught();

const { servers, stop } = await startServers({ majors: [18] });
const [server] = servers;
const { side, stop: stopSide } = await sideOf(server);
const gate = spawn(
  process.env.NODE ?? "node",
  [fileURLToPath(new URL("gate.mjs", import.meta.url)), server.host, server.port],
  {
    stdio: ["ignore", "pipe", "inherit"],
  },
);
const says = (async function* () {
  for await (const chunk of gate.stdout) yield String(chunk).trim();
})();
const port = Number((await says.next()).value);

const { user, password, database } = server;
const begun = performance.now();
const { pool, counts, done } = start({
  driver,
  options: { host: "127.0.0.1", port, user, password, database, sslmode: process.env.SSLMODE ?? "disable", max: 8 },
  side,
  users: 24,
  until: begun + milliseconds,
  seed,
});

const looks = [];
const look = () => {
  if (globalThis.Bun) globalThis.Bun.gc(true);
  else globalThis.gc();
  const { heapUsed, rss } = process.memoryUsage();
  const sockets = process.getActiveResourcesInfo?.().filter((name) => /TCPSocket/.test(name)).length;
  looks.push(heapUsed);
  const { total, waiting, acquired } = pool.stats();
  console.log(
    `${Math.round((performance.now() - begun) / 1000)} s: heap ${mib(heapUsed)} MiB, rss ${mib(rss)}, ` +
      `${sockets ?? "?"} sockets, pool ${total} (${acquired} in use), ${waiting} wait, ${counts.calls} calls, ` +
      `${counts.faults.length} faults`,
  );
};
const mib = (bytes) => (bytes / 2 ** 20).toFixed(1);
const timer = setInterval(look, milliseconds / 10);
await done;
clearInterval(timer);
look();
const held = process._getActiveHandles?.().filter(({ remotePort }) => remotePort === port).length ?? 0;
if (held) counts.faults.push(`${held} sockets are left`);
gate.kill("SIGTERM");
const harms = (await says.next()).value;
await once(gate, "exit");
await stopSide();
await stop();

const grown = (looks.at(-1) - looks[0]) / 2 ** 20;
if (grown > MOST_GROWN) counts.faults.push(`the heap has grown by ${grown.toFixed(1)} MiB`);
for (const error of uncaught) counts.faults.push(`uncaught: ${error}`);
for (const fault of counts.faults.slice(0, 20)) console.log(`FAULT: ${fault}`);
console.log(`harms ${harms}, ${counts.ended} backends ended or cancelled, errors ${JSON.stringify(counts.errors)}`);
console.log(
  `${runtime}: ${Math.round((performance.now() - begun) / 60_000)} minutes, seed ${seed}, ${counts.calls} calls, ` +
    `${counts.chapters} ledgers compared, heap grown by ${grown.toFixed(1)} MiB, ${counts.faults.length} faults`,
);
process.exit(counts.faults.length ? 1 : 0);
