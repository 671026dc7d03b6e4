// What a figure depends on: machine, load, versions. Read when the run begins, never assumed.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import os from "node:os";

export function machine() {
  const [cpu] = os.cpus();
  return { cpu: cpu?.model.trim() ?? "unknown", cores: os.cpus().length, memory: `${Math.round(os.totalmem() / 2 ** 30)} GiB` };
}

/** The one-minute load average: these machines are shared. */
export const load = () => Number(os.loadavg()[0].toFixed(2));

export async function versions(server) {
  const of = (name) => JSON.parse(readFileSync(new URL(`../node_modules/${name}/package.json`, import.meta.url), "utf8")).version;
  const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));
  return {
    "pgz-edge": version,
    "postgres.js": of("postgres"),
    pg: of("pg"),
    "pg-query-stream": of("pg-query-stream"),
    "pg-copy-streams": of("pg-copy-streams"),
    node: process.versions.node,
    postgresql: String(server.major),
    rustc: tool("rustc", "--version"),
    commit: tool("git", "rev-parse", "--short", "HEAD"),
  };
}

function tool(command, ...parameters) {
  try {
    return execFileSync(command, parameters, { encoding: "utf8", cwd: new URL(".", import.meta.url) }).trim();
  } catch {
    return "unknown";
  }
}
