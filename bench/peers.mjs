// Who is measured: each peer with the place of its version, and who takes part in which case on which runtime.
//
// A library may take part in several forms, such as `pg` and `pg named`; the form's name begins with the library's.
// `bare`, `drain` and `empty` are no peers: sockets without a driver and a runtime without a library.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";

const text = (name) => readFileSync(new URL(name, import.meta.url), "utf8");
const npm = (name) => JSON.parse(text(`node_modules/${name}/package.json`)).version;
const found = (pattern, file) => pattern.exec(text(file))[1];

/** Returns what a program says, in one line. */
export function tool(command, ...parameters) {
  try {
    return execFileSync(command, parameters, { encoding: "utf8", cwd: new URL(".", import.meta.url) }).trim();
  } catch {
    return "unknown";
  }
}

const numberOf = (command) => /[\d.]+/.exec(tool(command, "--version"))?.[0] ?? "unknown";

/** Peer -> its version. */
export const peers = {
  "pgz-edge": () => JSON.parse(text("../package.json")).version,
  "postgres.js": () => npm("postgres"),
  pg: () => npm("pg"),
  "pg-query-stream": () => npm("pg-query-stream"),
  "pg-copy-streams": () => npm("pg-copy-streams"),
  "pg-logical-replication": () => npm("pg-logical-replication"),
  pgwire: () => npm("pgwire"),
  slonik: () => npm("slonik"),
  "@effect/sql-pg": () => npm("@effect/sql-pg"),
  kysely: () => npm("kysely"),
  pgx: () => found(/pgx\/v5 v(\S+)/, "stream/pgx/go.mod"),
  "lib-pq": () => found(/lib\/pq v(\S+)/, "batch/native/go.mod"),
  "tokio-postgres": () => found(/tokio-postgres = \{ version = "=([^"]+)"/, "query/tokio/Cargo.toml"),
  psql: () => numberOf("psql"),
  pg_recvlogical: () => numberOf("pg_recvlogical"),
};

/** Case -> runtime -> who takes part. `bun.sql` has the version of Bun. */
export const contestants = {
  stream: {
    node: ["pgz-edge", "postgres.js", "postgres.js cursor", "pg", "pg-query-stream", "pg-copy-streams", "drain"],
    native: ["pgx"],
    deno: ["pgz-edge", "postgres.js", "postgres.js cursor", "pg"],
    bun: ["pgz-edge", "bun.sql", "postgres.js", "postgres.js cursor", "pg"],
    workerd: ["pgz-edge", "postgres.js", "postgres.js cursor"],
  },
  rows: {
    node: ["pgz-edge query", "pgz-edge rows", "postgres.js", "postgres.js cursor", "pg"],
    bun: ["pgz-edge query", "pgz-edge rows", "bun.sql", "postgres.js"],
  },
  query: {
    node: ["pgz-edge", "pg named", "pg", "postgres.js", "slonik", "@effect/sql-pg", "bare"],
    bun: ["pgz-edge", "postgres.js", "bun.sql", "bare"],
    native: ["tokio-postgres"],
  },
  pool: {
    node: ["pgz-edge", "pgz-edge pipelining", "pg", "postgres.js"],
    bun: ["pgz-edge", "bun.sql"],
    deno: ["pgz-edge"],
    native: ["pgxpool"],
  },
  copy: { node: ["pgz-edge", "pg-copy-streams", "postgres.js", "bare"], native: ["pgx", "lib-pq", "psql"] },
  batch: { node: ["pgz-edge", "postgres.js", "pg"], native: ["pgx"], bun: ["pgz-edge", "bun.sql"] },
  insert: { node: ["pgz-edge unnest", "pgz-edge values", "pgz-edge batch", "pgz-edge copy"] },
  latency: {
    node: ["pgz-edge", "postgres.js", "pg", "pg pipeline"],
    deno: ["pgz-edge", "postgres.js", "pg"],
    bun: ["pgz-edge", "postgres.js", "pg", "bun.sql"],
    workerd: ["pgz-edge", "postgres.js", "pg"],
    native: ["tokio-postgres", "pgx"],
  },
  startup: Object.fromEntries(
    ["workerd", "node", "deno", "bun"].map((runtime) => [runtime, ["empty", "pgz-edge", "postgres.js", "pg"]]),
  ),
  memory: { node: ["pgz-edge stream", "pgz-edge rows", "drain"], workerd: ["pgz-edge stream", "pgz-edge rows"] },
  changes: {
    node: ["pgz-edge ndjson", "pgz-edge rows", "pg-logical-replication", "pgwire"],
    native: ["pg_recvlogical"],
  },
  adapters: { node: ["pgz-edge", "pg"], workerd: ["pgz-edge", "pg"] },
  replay: { node: ["pgz-edge", "postgres.js", "pg", "drain"], native: ["pgx"] },
  profile: { node: ["bare", "pgz-edge", "pg named", "pg"] },
};

const driver = globalThis.Bun ? "bun" : globalThis.Deno ? "deno" : "node";
const modules = {
  "pgz-edge": () => import(`../dist/${driver}.js`),
  "postgres.js": () => import("postgres"),
  pg: () => import("pg"),
};

/** Loads the module of a library, in the process that is measured. Bun.sql and `empty` have none. */
export const load = (form) => modules[form.split(" ")[0]]?.() ?? {};
