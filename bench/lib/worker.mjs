// A library under measurement in a process of its own, pinned to a CPU; the case talks to it over IPC.
//
// The process stays for all trials of its library (warm code, as in a service). CPU time is the process's own, user and system.
import { fork, spawnSync } from "node:child_process";

export async function start(file, parameters, cpu) {
  const child = fork(file, parameters, { execArgv: ["--expose-gc"], stdio: ["ignore", "inherit", "inherit", "ipc"] });
  pin(child.pid, cpu);
  let waiting;
  child.on("message", (message) => waiting?.resolve(message));
  child.on("exit", (code) => waiting?.reject(new Error(`${parameters[0]} ended with code ${code}`)));
  const ask = (request) =>
    new Promise((resolve, reject) => {
      waiting = { resolve, reject };
      child.send(request);
    });
  const answer = async (request) => {
    const reply = await ask(request);
    if (reply.error) throw new Error(`${parameters[0]}, ${request.shape}: ${reply.error}`);
    return reply;
  };
  return { ask: answer, stop: () => child.kill() };
}

/** No-op where there is no taskset or only one CPU: the figures then are what they are. */
export function pin(pid, cpu) {
  spawnSync("taskset", ["-a", "-p", "-c", String(cpu), String(pid)], { stdio: "ignore" });
}

/** In the child: answers each request with what `handle` gives. */
export function serve(handle) {
  process.on("message", async (request) => {
    try {
      process.send(await handle(request));
    } catch (error) {
      process.send({ error: error.stack ?? String(error) });
    }
  });
}

/** Runs `work` and gives its result with wall and CPU milliseconds. */
export async function timed(work) {
  globalThis.gc?.();
  const cpu = process.cpuUsage();
  const start = performance.now();
  const result = await work();
  const wall_ms = performance.now() - start;
  const { user, system } = process.cpuUsage(cpu);
  return { ...result, wall_ms, cpu_ms: (user + system) / 1000 };
}
