// The case's side of a library under measurement, which runs in a process of its own, pinned to a CPU. Both sides talk
// in lines of JSON over stdin and stdout, because Node, Deno, Bun and a Go program all support this (lib/child.mjs is
// the other side).
//
// One process runs all trials of its library (warm code, as in a service). It ends when its stdin ends, so no process
// is left over.
import { spawn, spawnSync } from "node:child_process";
import { createInterface } from "node:readline";

/** The client under measurement and its server each have a CPU of their own. */
export const CLIENT_CPU = 0;
export const SERVER_CPU = 1;

/**
 * Milliseconds, longer than any request takes. A process that is silent for so long hangs, and would block the machine.
 */
const PATIENCE = 240_000;

const hasTaskset = spawnSync("taskset", ["-p", String(process.pid)], { stdio: "ignore" }).status === 0;

/** Returns the command line that runs `command` on that CPU. */
export const pinned = (command, cpu) => (hasTaskset ? ["taskset", "-c", String(cpu), ...command] : command);

/**
 * Starts the program and returns `{ pid, ask, stop }`. `ask` sends one request and returns its answer. It throws if the
 * answer has an `error`.
 */
export function start(name, command, { cpu = CLIENT_CPU, env = {} } = {}) {
  const [program, ...parameters] = pinned(command, cpu);
  const child = spawn(program, parameters, {
    stdio: ["pipe", "pipe", "inherit"],
    env: { ...process.env, DENO_NO_UPDATE_CHECK: "1", ...env },
  });
  let waiting;
  let gone;
  const end = (reason) => {
    gone ??= new Error(`${name} ${reason}`);
    waiting?.reject(gone);
  };
  createInterface({ input: child.stdout }).on("line", (line) => {
    if (line.startsWith("{")) waiting?.resolve(JSON.parse(line));
    else console.error(`${name}: ${line}`); // output of the library
  });
  child.on("error", (error) => end(`did not start: ${error.message}`));
  child.on("exit", (code, signal) => end(`ended with ${signal ?? `status ${code}`}`));
  child.stdin.on("error", () => {}); // "exit" gives a better reason
  const answer = (request) =>
    new Promise((resolve, reject) => {
      if (gone) return reject(gone);
      const silent = setTimeout(() => end("has not answered"), PATIENCE);
      const settled = (settle) => (value) => {
        clearTimeout(silent);
        settle(value);
      };
      waiting = { resolve: settled(resolve), reject: settled(reject) };
      child.stdin.write(`${JSON.stringify(request)}\n`);
    });
  const ask = async (request) => {
    const reply = await answer(request);
    if (reply.error) throw new Error(`${name}, ${request.shape ?? "start"}: ${reply.error}`);
    return reply;
  };
  const stop = () =>
    new Promise((resolve) => {
      if (gone) return resolve();
      const kill = setTimeout(() => child.kill("SIGKILL"), 3000);
      child.on("exit", () => {
        clearTimeout(kill);
        resolve();
      });
      child.stdin.end();
    });
  return { pid: child.pid, ask, stop };
}

/**
 * Pins a process to a CPU. Does nothing where taskset is missing or there is only one CPU; the figures are then not
 * isolated. Processes that it starts later inherit the CPU.
 */
export function pin(pid, cpu) {
  spawnSync("taskset", ["-a", "-p", "-c", String(cpu), String(pid)], { stdio: "ignore" });
}
