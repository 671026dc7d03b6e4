// pg_recvlogical, PostgreSQL's own reader of a slot: the cost of receiving the changes and nothing else. It reads up to
// a position and ends, so each trial is a new process, and the figure includes its start (some milliseconds).
//
// CPU is bash's `time` of the ended process. Rows are counted in a run before the first trial.
import { spawn, spawnSync } from "node:child_process";
import { CLIENT_CPU, pinned } from "../lib/worker.mjs";

const RECVLOGICAL = "pg_recvlogical";

/** Part of the name in each row (case.mjs). */
const OF_A_ROW = Buffer.from("user ");
const PATIENCE = 240_000;

/** `{ ask, stop }` of a contestant. */
export function recvlogical(url, publication) {
  if (spawnSync(RECVLOGICAL, ["--version"]).status !== 0)
    throw new Error(`${RECVLOGICAL} is one of the peers, and does not start (apt install postgresql-client)`);
  const ask = async ({ hello, idle, slot, end, rows, sum, count }) => {
    if (hello) return {};
    if (idle) return { cpu_ms: 0, wall_ms: 1 }; // There is no process while it is idle.
    if (count) {
      const found = await received(command(url, publication, slot, end, "-"), countRows);
      if (found.rows !== rows) throw new Error(`${RECVLOGICAL}: ${found.rows} rows instead of ${rows}`);
    }
    const { cpu_ms, wall_ms } = count ? {} : await received(command(url, publication, slot, end, "/dev/null"));
    return { cpu_ms, wall_ms, rows, sum };
  };
  return { ask, stop: () => Promise.resolve() };
}

function command(url, publication, slot, end, file) {
  const options = ["-o", "proto_version=1", "-o", `publication_names=${publication}`];
  const words = ["--start", "--no-loop", "--fsync-interval=0", "-d", url, "-S", slot, `--endpos=${end}`, "-f", file];
  return pinned([RECVLOGICAL, ...words, ...options], CLIENT_CPU);
}

/** Runs the command to its end. Returns the result of `count` for its output, and its CPU, user plus system. */
async function received(words, count = () => 0) {
  const shell = ["-c", 'TIMEFORMAT="cpu %U %S"; time "$@"', "bash", ...words];
  const start = performance.now();
  const child = spawn("bash", shell, { stdio: ["ignore", "pipe", "pipe"], timeout: PATIENCE });
  let said = "";
  child.stderr.setEncoding("utf8").on("data", (text) => (said += text));
  const ended = new Promise((resolve, reject) => child.on("error", reject).on("close", resolve));
  const rows = await count(child.stdout);
  const status = await ended;
  const [, user, system] = /^cpu ([\d.]+) ([\d.]+)$/m.exec(said) ?? [];
  if (status !== 0 || user === undefined) throw new Error(`${RECVLOGICAL} ended with status ${status}: ${said}`);
  return { rows, cpu_ms: (Number(user) + Number(system)) * 1_000, wall_ms: performance.now() - start };
}

async function countRows(output) {
  let [rows, kept] = [0, Buffer.alloc(0)];
  for await (const chunk of output) {
    const bytes = Buffer.concat([kept, chunk]);
    let at = bytes.indexOf(OF_A_ROW);
    let end = 0;
    for (; at >= 0; at = bytes.indexOf(OF_A_ROW, end)) {
      rows++;
      end = at + OF_A_ROW.length;
    }
    kept = bytes.subarray(Math.max(end, bytes.length - OF_A_ROW.length + 1));
  }
  return rows;
}
