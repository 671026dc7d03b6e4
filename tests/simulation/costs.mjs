// What quiet sessions cost on the wire, seed by seed: connects, writes, bytes sent. A change of the driver that makes a
// call take another write, or a pool another connection, gives no wrong result; it shows as a difference here.
//
//   node tests/simulation/costs.mjs write      after an intended change; its diff is part of the commit
//
// Only sessions without disturbance are measured, so that no race decides what is sent. Knows costs.json. Must not know
// what a session does.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const SEEDS = 1_000;
const file = new URL("costs.json", import.meta.url);

/** Returns how the sessions that `simulation` (campaign.ts) plays differ from costs.json. */
export async function differences(simulation) {
  const known = JSON.parse(readFileSync(file, "utf8"));
  const now = await played(simulation);
  const seeds = new Set([...Object.keys(known), ...Object.keys(now)]);
  return [...seeds].flatMap((seed) => {
    const [before, after] = [known[seed]?.join(), now[seed]?.join()];
    return before === after ? [] : [`SEED=${seed}: ${after} connects, writes, bytes; ${before} in costs.json`];
  });
}

async function played({ draw, playFast }) {
  const costs = {};
  for (let seed = 1; seed <= SEEDS; seed++) {
    const program = draw(seed);
    if (isQuiet(program)) costs[seed] = (await playFast(program)).costs;
  }
  return costs;
}

function isQuiet({ server, users, faults, beside }) {
  const steps = users.flatMap(({ tasks }) => tasks.flatMap((task) => task.steps));
  const isStopped = steps.some(({ abort, timeout }) => abort !== undefined || timeout !== undefined);
  const isEarly = users.some(({ hooks, end }) => hooks.length || end.at !== undefined);
  return !faults.length && !beside.length && !isStopped && !isEarly && !server.isAbsent;
}

if (process.argv[1] === fileURLToPath(import.meta.url) && process.argv[2] === "write") {
  const { loaded } = await import("./load.mjs");
  const costs = await played(await loaded());
  const lines = Object.entries(costs).map(([seed, cost]) => `  "${seed}": ${JSON.stringify(cost)}`);
  writeFileSync(file, `{\n${lines.join(",\n")}\n}\n`);
  console.log(`${lines.length} sessions`);
  process.exit(0);
}
