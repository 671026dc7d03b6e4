// The facts that a figure depends on: machine, load, versions. They are read when the run begins, never assumed.
import { readFileSync } from "node:fs";
import os from "node:os";
import { peers, tool } from "../peers.mjs";

export function machine() {
  const [cpu] = os.cpus();
  return {
    cpu: cpu?.model.trim() ?? "unknown",
    cores: os.cpus().length,
    memory: `${Math.round(os.totalmem() / 2 ** 30)} GiB`,
  };
}

/** The one-minute load average: these machines are shared. */
export const load = () => Number(os.loadavg()[0].toFixed(2));

export function versions(server) {
  const of = (name) =>
    JSON.parse(readFileSync(new URL(`../../node_modules/${name}/package.json`, import.meta.url), "utf8")).version;
  return {
    ...Object.fromEntries(Object.entries(peers).map(([name, version]) => [name, version()])),
    node: process.versions.node,
    deno: of("deno"),
    bun: of("bun"),
    workerd: process.env.MINIFLARE_WORKERD_PATH ? tool(process.env.MINIFLARE_WORKERD_PATH, "--version") : of("workerd"),
    ...(server ? { postgresql: String(server.major) } : {}),
    rustc: tool("rustc", "--version"),
    go: tool("go", "env", "GOVERSION"),
    commit: tool("git", "rev-parse", "--short", "HEAD"),
  };
}
