// The facts that a figure depends on: machine, load, versions. They are read when the run begins, never assumed.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import os from "node:os";

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

export async function versions(server) {
  const text = (name) => readFileSync(new URL(`../${name}`, import.meta.url), "utf8");
  const of = (name, folder = "node_modules") => JSON.parse(text(`${folder}/${name}/package.json`)).version;
  const tools = "../node_modules";
  return {
    "pgz-edge": JSON.parse(text("../package.json")).version,
    "postgres.js": of("postgres"),
    pg: of("pg"),
    "pg-query-stream": of("pg-query-stream"),
    "pg-copy-streams": of("pg-copy-streams"),
    "pg-logical-replication": of("pg-logical-replication"),
    pgwire: of("pgwire"),
    slonik: of("slonik"),
    "@effect/sql-pg": of("@effect/sql-pg"),
    kysely: of("kysely"),
    pgx: /pgx\/v5 v(\S+)/.exec(text("replay/pgx/go.mod"))[1],
    "lib-pq": /lib\/pq v(\S+)/.exec(text("batch/native/go.mod"))[1],
    "tokio-postgres": /tokio-postgres = \{ version = "=([^"]+)"/.exec(text("query/tokio/Cargo.toml"))[1],
    psql: /[\d.]+/.exec(tool("psql", "--version"))?.[0] ?? "unknown",
    pg_recvlogical: /[\d.]+/.exec(tool("pg_recvlogical", "--version"))?.[0] ?? "unknown",
    node: process.versions.node,
    deno: of("deno", tools),
    bun: of("bun", tools),
    workerd: process.env.MINIFLARE_WORKERD_PATH
      ? tool(process.env.MINIFLARE_WORKERD_PATH, "--version")
      : of("workerd", tools),
    ...(server ? { postgresql: String(server.major) } : {}),
    rustc: tool("rustc", "--version"),
    go: tool("go", "env", "GOVERSION"),
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
