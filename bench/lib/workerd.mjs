// One library in its own workerd. A request is an HTTP request to its Worker, read to its end here. CPU time is that of
// the workerd process, all threads, from /proc.
import { readdirSync, readFileSync } from "node:fs";
import http from "node:http";
import { fileURLToPath } from "node:url";
import { start } from "./worker.mjs";
import { workerd } from "../../scripts/node/index.mjs";

/**
 * Starts the Worker of a case: `{ address, pid, inspector, ask, stop }`. Its worker.mjs exports `worker(library,
 * module)`, whose Worker answers JSON with JSON; `read(address, request)` reads another answer. `imports`: library ->
 * what is imported as its module. `options`: `{ inspectorPort, compatibilityFlags }`.
 */
export async function startWorker(name, library, key, url, rest = [], { read = asJson, imports, ...options } = {}) {
  // workerd inherits the CPU to which its host is pinned. This process reads the response, and is not pinned.
  const asked = { name, library, module: imports?.[library], bindings: { URL: url, REST: rest }, ...options };
  const program = fileURLToPath(new URL("workerd-host.mjs", import.meta.url));
  const host = start(key, [workerd().execPath, program, JSON.stringify(asked)]);
  const { address, pid, inspector } = await host.ask({ hello: true });
  const ask = async ({ hello, idle, ...request }) => {
    if (hello) return {};
    if (idle) return timed(pid, () => new Promise((resolve) => setTimeout(() => resolve({}), idle)));
    return timed(pid, () => read(address, request));
  };
  return { address, pid, inspector, ask, stop: host.stop };
}

/** Sends a request and returns the JSON of the response. Throws if it has an `error`. */
export async function asJson(address, request) {
  const { chunks } = await post(address, request, true);
  const reply = JSON.parse(Buffer.concat(chunks).toString());
  if (reply.error) throw new Error(`${request.shape}: ${reply.error}`);
  return reply;
}

/**
 * Sends the Worker a request and reads its response to the end: `{ bytes, chunks }`. Rejects if the body breaks off.
 */
export function post(address, query, keep = false) {
  return new Promise((resolve, reject) => {
    const request = http.request(
      address,
      { method: "POST", headers: { "accept-encoding": "identity" } },
      (response) => {
        const isRight = response.statusCode === 200;
        let bytes = 0;
        const chunks = [];
        response.on("data", (chunk) => {
          bytes += chunk.length;
          if (keep || !isRight) chunks.push(chunk);
        });
        response.on("error", reject);
        response.on("end", () => {
          const said = () => Buffer.concat(chunks).toString().slice(0, 500);
          if (isRight) resolve({ bytes, chunks });
          else reject(new Error(`the Worker answered ${response.statusCode}: ${said()}`));
        });
      },
    );
    request.on("error", reject);
    request.end(JSON.stringify(query));
  });
}

/** Returns the work's result, with its cost in that process unless it measured it itself. */
async function timed(pid, work) {
  const cpu = cpuTime(pid);
  const start = performance.now();
  const result = await work();
  const wall_ms = performance.now() - start;
  return { wall_ms, cpu_ms: cpuTime(pid) - cpu, ...result };
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
