// CASE=server-json: rows that PostgreSQL 19 itself converts to JSON, COPY (…) TO STDOUT (FORMAT json), against our
// encoding of the same rows in binary: CPU of our process and of the server's, on Node.
//
// It needs a server of version 19 or newer, `make bench CASE=server-json DATABASE_URL=postgres://…`, on this machine,
// since the CPU of its process is read from /proc. Both ways must produce the bytes of the server's own to_json.
//
//   ROWS TRIALS          how much          SHAPES          which, separated by commas
import { readFileSync } from "node:fs";
import { execFileSync } from "node:child_process";
import { serverTruth } from "../lib/content.mjs";
import { command } from "../lib/runtimes.mjs";
import { wantedShapes } from "../lib/shapes.mjs";
import { cost, interleaved, resultRows } from "../lib/trials.mjs";
import { pin, SERVER_CPU, start } from "../lib/worker.mjs";

export const needsServer = false;

/** The names of the two ways in the results. */
const labels = { rows: "pgz-edge", copy: "COPY (FORMAT json)" };
const TICK_MS = 1000 / Number(execFileSync("getconf", ["CLK_TCK"], { encoding: "utf8" }));

export async function run({ option }) {
  const url = option("DATABASE_URL");
  if (!url) throw new Error("CASE=server-json needs DATABASE_URL of a PostgreSQL 19 on this machine.");
  const count = Number(option("ROWS") ?? 100_000);
  const trials = Number(option("TRIALS") ?? 9);
  const result = { rows: [], failures: [] };
  const contestants = await Promise.all(["rows", "copy"].map((way) => startWay(way, url)));
  try {
    for (const [shape, sql] of wantedShapes(option)) {
      const truth = await serverTruth(url, sql(count));
      for (const { key, ask } of contestants) {
        const got = await ask({ sql: sql(count), check: true });
        if (got.sha256 !== truth.sha256) throw new Error(`${key}, ${shape}: not what the server's to_json gives`);
      }
      const request = { shape, sql: sql(count) };
      const samples = await interleaved(contestants, request, trials, ({ key }, { bytes }) => {
        if (bytes !== truth.bytes) throw new Error(`${key}, ${shape}: ${bytes} bytes instead of ${truth.bytes}`);
      });
      for (const contestant of contestants)
        result.rows.push(
          ...resultRows(contestant, shape, { rows: count, server: contestant.server }, samples.get(contestant.key), {
            cpu_ms: ["ms", ({ cpu }) => cpu],
            server_cpu_ms: ["ms", ({ serverCpu }) => serverCpu],
            wall_ms: ["ms", ({ wall }) => wall],
          }),
        );
      if (cost(samples, "copy") >= cost(samples, "rows"))
        result.failures.push(`${shape}: the server's JSON costs the client no less`);
    }
    return result;
  } finally {
    await Promise.all(contestants.map(({ stop }) => stop()));
  }
}

/** Starts one way. Its answers include the CPU that its backend used meanwhile. */
async function startWay(way, url) {
  const worker = start(way, command("node", new URL("child.mjs", import.meta.url), way, url));
  const { backend, server } = await worker.ask({ hello: true });
  pin(backend, SERVER_CPU);
  const ask = async (request) => {
    const before = cpuOf(backend);
    const got = await worker.ask(request);
    return { ...got, serverCpu: cpuOf(backend) - before };
  };
  return { ...worker, key: way, library: labels[way], runtime: "node", server, ask };
}

/** Milliseconds of CPU, user plus system: the 14th and 15th word of the file, whose second word may contain blanks. */
function cpuOf(pid) {
  const words = readFileSync(`/proc/${pid}/stat`, "utf8")
    .replace(/^.*\) /, "")
    .split(" ");
  return (Number(words[11]) + Number(words[12])) * TICK_MS;
}
