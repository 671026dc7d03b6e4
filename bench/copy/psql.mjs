// The case's side of psql's \copy, from a file and to /dev/null, in one session. The clock runs from the command to its
// "COPY n"; CPU time comes from /proc.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { CLIENT_CPU } from "../lib/worker.mjs";
import { cpuTime } from "../lib/workerd.mjs";
import { shapes } from "./content.mjs";

export async function startPsql(url) {
  const child = spawn("taskset", ["-c", String(CLIENT_CPU), "psql", "-X", "-v", "ON_ERROR_STOP=1", url], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  let waiting;
  createInterface({ input: child.stdout }).on("line", (line) => waiting?.resolve(line));
  const ended = new Promise((resolve) =>
    child.on(
      "exit",
      (code) => (
        waiting?.reject(
          new Error(`psql ended with status ${code}: it is one of the peers (apt install postgresql-client)`),
        ),
        resolve()
      ),
    ),
  );
  child.on("error", (error) =>
    waiting?.reject(new Error(`psql is one of the peers and does not start: ${error.message}`)),
  );
  child.stdin.on("error", () => {}); // "exit" gives a better reason
  const say = (text) =>
    new Promise((resolve, reject) => {
      waiting = { resolve, reject };
      child.stdin.write(`${text}\n`);
    });
  await say("\\echo ready");
  const ask = async ({ hello, idle, shape, file }) => {
    if (hello) return { shapes: Object.keys(shapes).filter((name) => shapes[name].from !== "rows") };
    if (idle) return { wall_ms: idle, cpu_ms: 0 }; // psql waits for a line
    const { table, from, options } = shapes[shape];
    const command = from
      ? `\\copy bench_${table} from '${file}' ${options}`
      : `\\copy bench_out_${table} to '/dev/null' ${options}`;
    const cpu = cpuTime(child.pid);
    const begun = performance.now();
    const said = await say(command);
    if (!said.startsWith("COPY ")) throw new Error(`psql, ${shape}: ${said}`);
    return { rows: Number(said.slice(5)), wall_ms: performance.now() - begun, cpu_ms: cpuTime(child.pid) - cpu };
  };
  const stop = () => {
    child.stdin.end("\\q\n");
    return ended;
  };
  return { ask, stop };
}
