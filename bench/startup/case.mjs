// CASE=startup: the cost of the first row in a cold process, above the runtime alone. Each trial is a new process that
// loads one library, connects, logs in by SCRAM, and queries one row by its key.
//
//   first_row_ms   on Node, Deno and Bun from the start of the process to the row; in workerd, whose process is ready
//                  then, from its first request to the answer
//   cpu_ms         of the process, all threads, from its start to then
//
// `empty` is a process that loads nothing. Each figure of a library is its trial's value minus that of `empty` in the
// same round; `empty` itself is reported unchanged. The contestants of a round run one after the other in random order.
// `tls`: with the tests' certificate checked. workerd cannot do this, because it trusts public roots only.
//
//   TRIALS   how many rounds (20)        RUNTIMES LINKS LIBRARIES   which, separated by commas
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { isDeepStrictEqual } from "node:util";
import { numbersOf, wanted } from "../lib/harness.mjs";
import { command, wantedRuntimes } from "../lib/runtimes.mjs";
import { shuffled, summary } from "../lib/statistics.mjs";
import { CLIENT_CPU, pin, pinned, SERVER_CPU } from "../lib/worker.mjs";
import { cpuTime, post, startWorker } from "../lib/workerd.mjs";
import { contestants as listed } from "../peers.mjs";
import { ROW } from "./drivers.mjs";

const LINKS = ["plain", "tls"];
const LIBRARIES = listed.startup.node;
/** Milliseconds, longer than any first row takes. */
const PATIENCE = 60_000;

export default { measure };

async function measure({ server, option }) {
  const { TRIALS: trials } = numbersOf({ TRIALS: 20 }, option);
  const runtimes = wantedRuntimes(option, Object.keys(listed.startup));
  const links = wanted(option, "LINKS", LINKS);
  const libraries = wanted(option, "LIBRARIES", LIBRARIES);
  const target = { url: server.appUrl.split("?")[0], caFile: server.caFile };
  if (server.own) pin(server.pid, SERVER_CPU); // backends inherit it
  await fill(server);
  const contests = runtimes.flatMap((runtime) =>
    links.filter((link) => link === "plain" || runtime !== "workerd").map((link) => ({ runtime, link, samples: [] })),
  );
  // The first round warms the machine's caches, and is dropped.
  for (let trial = 0; trial <= trials; trial++)
    for (const contest of shuffled(contests)) {
      const round = {};
      for (const library of shuffled(libraries)) round[library] = await cold(contest, library, target);
      if (trial) contest.samples.push(round);
    }
  return { rows: contests.flatMap((contest) => figures(contest, libraries)), failures: [] };
}

/** Fills the table that each trial queries. */
async function fill({ appUrl }) {
  const { createClient } = await import("../../dist/node.js");
  const client = createClient(appUrl);
  await client.simple(`
    drop table if exists startup;
    create table startup (id int primary key, label text);
    insert into startup select n, 'row ' || n from generate_series(1, 100) n;
    analyze startup;
  `);
  await client.close();
}

function figures({ runtime, link, samples }, libraries) {
  return libraries.flatMap((library) =>
    ["first_row_ms", "cpu_ms"].map((metric) => {
      const above = (round) => (library === "empty" ? 0 : (round.empty?.[metric] ?? 0));
      const values = samples.map((round) => round[library][metric] - above(round));
      return { shape: link, library, runtime, metric, unit: "ms", config: {}, ...summary(values) };
    }),
  );
}

async function cold({ runtime, link }, library, target) {
  const trial = runtime === "workerd" ? coldWorker : coldProcess;
  const { rows, ...measured } = await trial(runtime, link, library, target);
  if (!isDeepStrictEqual(rows, [ROW])) throw new Error(`${library} on ${runtime}: ${JSON.stringify(rows)}`);
  return measured;
}

async function coldProcess(runtime, link, library, { url, caFile }) {
  const file = new URL("child.mjs", import.meta.url);
  const [program, ...parameters] = pinned(
    [...command(runtime, file), library, url, ...(link === "tls" ? [caFile] : [])],
    CLIENT_CPU,
  );
  const from = performance.now();
  const child = spawn(program, parameters, {
    stdio: ["pipe", "pipe", "inherit"],
    env: { ...process.env, DENO_NO_UPDATE_CHECK: "1" },
  });
  const late = setTimeout(() => child.kill("SIGKILL"), PATIENCE);
  try {
    const line = await new Promise((resolve, reject) => {
      createInterface({ input: child.stdout }).once("line", resolve);
      child.once("error", reject);
      child.once("exit", (code, signal) => reject(new Error(`${library} on ${runtime} ended: ${signal ?? code}`)));
    });
    return { rows: JSON.parse(line), first_row_ms: performance.now() - from, cpu_ms: cpuTime(child.pid) };
  } finally {
    clearTimeout(late);
    child.stdin.end();
    if (child.exitCode === null && child.signalCode === null)
      await new Promise((resolve) => child.once("exit", resolve));
  }
}

async function coldWorker(_, link, library, { url }) {
  const { address, pid, stop } = await startWorker("startup", library, `${library} in workerd`, url);
  try {
    const from = performance.now();
    const { chunks } = await post(address, {}, true);
    const first_row_ms = performance.now() - from;
    return { rows: JSON.parse(Buffer.concat(chunks).toString()), first_row_ms, cpu_ms: cpuTime(pid) };
  } finally {
    await stop();
  }
}
