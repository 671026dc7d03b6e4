// The case's side of one library in its own workerd, as a Worker that answers with NDJSON. A request is an HTTP
// request, read to its end here. CPU time is that of the workerd process, all threads, from /proc.
import { readdirSync, readFileSync } from "node:fs";
import http from "node:http";
import { fileURLToPath } from "node:url";
import { canonicalHash } from "../lib/content.mjs";
import { sha256 } from "../lib/child.mjs";
import { linesOf } from "../ndjson/formats.mjs";
import { start } from "../lib/worker.mjs";
import { workerd } from "../../scripts/node/index.mjs";

/**
 * Returns `{ ask, stop, pid, inspector }`, with the requests and answers of ndjson/child.mjs. `options`: `{
 * inspectorPort }`.
 */
export async function startWorkerd(library, name, url, options = {}) {
  // workerd inherits the CPU to which its host is pinned. This process reads the response, and is not pinned.
  const host = start(name, [
    workerd().execPath,
    fileURLToPath(new URL("host.mjs", import.meta.url)),
    JSON.stringify({ library, bindings: { URL: url }, ...options }),
  ]);
  const { address, pid, inspector } = await host.ask({ hello: true });
  const ask = async ({ hello, idle, sql, shape, check, format, times = 1 }) => {
    if (hello) return {};
    if (idle) return timed(pid, () => new Promise((resolve) => setTimeout(() => resolve({}), idle)));
    const query = { sql, format, arrays: shape === "array_int" };
    if (check) return checked(await post(address, query, true), format);
    return timed(pid, async () => {
      let bytes = 0;
      for (let time = 0; time < times; time++) bytes += (await post(address, query)).bytes;
      return { bytes };
    });
  };
  return { ask, stop: host.stop, pid, address, inspector };
}

function checked({ bytes, chunks }, format = "ndjson") {
  const all = Buffer.concat(chunks);
  const lines = linesOf(all.toString(), format);
  return { bytes, sha256: sha256(all), lines: lines.length, canonical: canonicalHash(lines) };
}

/**
 * Sends the Worker a request and reads its response to the end: `{ bytes, chunks }`. Rejects if the body breaks off.
 */
export function post(address, query, keep = false, onChunk = () => {}) {
  return new Promise((resolve, reject) => {
    const request = http.request(
      address,
      { method: "POST", headers: { "accept-encoding": "identity" } },
      (response) => {
        let bytes = 0;
        const chunks = [];
        response.on("data", (chunk) => {
          bytes += chunk.length;
          if (keep || response.statusCode !== 200) chunks.push(chunk);
          onChunk(chunk);
        });
        response.on("error", reject);
        response.on("end", () => {
          if (response.statusCode === 200) resolve({ bytes, chunks });
          else
            reject(
              new Error(
                `the Worker answered ${response.statusCode}: ${Buffer.concat(chunks).toString().slice(0, 500)}`,
              ),
            );
        });
      },
    );
    request.on("error", reject);
    request.end(JSON.stringify(query));
  });
}

/** Returns the work's result, with its cost in that process. */
export async function timed(pid, work) {
  const cpu = cpuTime(pid);
  const start = performance.now();
  const result = await work();
  const wall_ms = performance.now() - start;
  return { ...result, wall_ms, cpu_ms: cpuTime(pid) - cpu };
}

/**
 * Milliseconds on a CPU so far: of the living threads to the nanosecond (schedstat), otherwise of the process to the
 * tick (stat).
 */
export function cpuTime(pid) {
  try {
    return (
      readdirSync(`/proc/${pid}/task`).reduce(
        (sum, thread) => sum + Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ")[0]),
        0,
      ) / 1e6
    );
  } catch {
    const [, , , , , , , , , , , user, system] = readFileSync(`/proc/${pid}/stat`, "utf8")
      .replace(/^.*\) /s, "_ ")
      .split(" ");
    return (Number(user) + Number(system)) * 10;
  }
}
