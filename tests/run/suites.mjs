// The suites by name: what each needs and how it runs. Each returns rows (rows.mjs). `setup` names a part of
// scripts/setup: `release` if the suite needs more than the others, `check` if it needs no servers and no browser.
//
// Runtimes differ in their sockets and streams, and servers differ in their responses. No runtime can change a
// response, so only "node" runs against the older server, and all others against the newest.
import { readdirSync } from "node:fs";
import { nodeBinary } from "../../scripts/node/index.mjs";
import { fresh, lint, longSimulation, reproducible, rust, simulation } from "./checks.mjs";
import { at, bin, say } from "./command.mjs";
import { onlyNewestServer, onlyOldestServer, onlyServer18 } from "./servers.mjs";
import { runVitest } from "./vitest.mjs";

// Evaluated when a suite runs, because scripts/setup installs some of them.
const node = () => [process.execPath];
const nodeOf = (major) => () => [nodeBinary(major)];
const deno = () => [bin("deno"), "run", "-A"];
const bun = () => [bin("bun"), "--bun"];

const everywhere = ["tests/integration", "tests/adapters", "tests/faults", "tests/random"];
const onNodeOnly = [
  "unit",
  "packaging",
  "demo",
  "site",
  "memory",
  "pool",
  "sql",
  "poolers",
  "other-servers",
  "cli",
  "replication",
  "cache",
  "cluster",
];
const workerdFaults = ["tests/workerd/faults.test.ts", "tests/workerd/pool-faults.test.ts"];
const workerdSampled = ["tests/workerd/integration.test.ts", "tests/workerd/changes.test.ts"];
const workerdWithoutFaults = readdirSync(at("tests/workerd"))
  .map((name) => `tests/workerd/${name}`)
  .filter((name) => name.endsWith(".test.ts") && !workerdFaults.includes(name));

const oldWorkerd =
  (servers = onlyNewestServer) =>
  () => ({ ...servers(), PGZ_TEST_WORKERD: "node-20" });
const release =
  (env = onlyNewestServer) =>
  () => ({ ...env(), PGZ_TEST_RELEASE: "1" });

/**
 * `label` names its rows and its report. `env` is also evaluated when the suite runs, because only then is there a
 * server.
 */
const inVitest = (label, runtime, folders, env = onlyNewestServer) => ({
  needs: ["build", "servers"],
  run: () => runVitest(label, runtime(), folders, env()),
});

/**
 * The suites of `make test`, in order. Deno, Bun and workerd run the cases that can differ there; a release runs all of
 * them on each (`PGZ_TEST_RELEASE`). One that is `alone` keeps both cores busy, and comes first. Those that are
 * `beside` keep one core busy, and the remaining ones wait for servers and browsers, so these two groups run
 * concurrently.
 */
export const suites = {
  rust: { run: rust, alone: true, setup: "check" },
  lint: { needs: ["build"], run: lint, beside: true, setup: "check" },
  node: inVitest("node", node, [...everywhere, ...onNodeOnly.map((name) => `tests/${name}`)], () => ({})),
  simulation: { needs: ["build", "servers"], run: simulation, beside: true },
  deno: inVitest("deno", deno, everywhere),
  bun: inVitest("bun", bun, everywhere),
  workerd: inVitest("workerd", node, ["tests/workerd"]),
};

/** Three nodes of Citus need a build from its sources, which no script here fetches. */
function withoutCitus() {
  say("citus left out: CITUS names no checkout of its sources (tests/citus/build.sh)");
  return [];
}

/**
 * The suites of `make test-release`: those that take minutes by nature, and differ little from those of `make test`.
 */
export const releaseSuites = {
  "node-26-all": inVitest("node-26-all", nodeOf(26), ["tests/unit", "tests/integration"], release()),
  "deno-all": inVitest("deno", deno, ["tests/integration", "tests/adapters"], release()),
  "bun-all": inVitest("bun", bun, ["tests/integration", "tests/adapters"], release()),
  "workerd-all": inVitest("workerd-all", node, workerdSampled, release()),
  // Its fault tests are in "every-byte-workerd-node-20".
  "workerd-node-20": inVitest("workerd-node-20", node, workerdWithoutFaults, release(oldWorkerd())),
  "node-22": inVitest("node-22", nodeOf(22), ["tests/unit", "tests/integration"], release()),
  "node-24": inVitest("node-24", nodeOf(24), ["tests/unit", "tests/integration"], release()),
  "every-byte-deno": inVitest("deno", deno, ["tests/faults"], release()),
  "every-byte-bun": inVitest("bun", bun, ["tests/faults"], release()),
  "every-byte-node": inVitest("node", node, ["tests/faults"], release()),
  "every-byte-workerd": inVitest("workerd", node, workerdFaults, release()),
  "every-byte-workerd-node-20": inVitest("workerd-node-20", node, workerdFaults, release(oldWorkerd())),
  // These run what `make test` leaves out: more pages of a class, another bundler, compiler, framework or workerd.
  "every-page": inVitest(
    "every-page",
    node,
    [
      "tests/site",
      "tests/demo",
      "tests/memory",
      "tests/poolers",
      "tests/packaging/types.test.ts",
      "tests/packaging/programs.test.ts",
    ],
    release(),
  ),
  // A thousand cuts, and PostgreSQL's own regression tests through a replica.
  changes: inVitest("changes", node, ["tests/replication", "tests/regression"], release()),
  // A million calls over five failovers, with synchronous replication and without.
  cluster: inVitest("cluster", node, ["tests/cluster/history.test.ts"], release()),
  // Five more failovers, and switchovers, of a cluster that Patroni manages.
  patroni: { ...inVitest("patroni", node, ["tests/patroni"], release()), setup: "release" },
  // Minutes of a cache in front of a program, whose parts are killed; an hour with PGZ_CACHE_MINUTES=60.
  freshness: inVitest("freshness", node, ["tests/freshness"], release()),
  // A server with the extension, which apt's mirror must have.
  pgvector: inVitest("pgvector", node, ["tests/pgvector"], release()),
  // A Next application as OpenNext builds it, three times, and in `next dev`: seven minutes on two cores.
  "next-on-workers": inVitest("next-on-workers", node, ["tests/ecosystem"]),
  citus: process.env.CITUS ? inVitest("citus", node, ["tests/citus"], release()) : { run: withoutCitus },
  "older-server": inVitest(
    "older-server",
    node,
    ["tests/integration", "tests/cli/mcp.test.ts"],
    release(onlyOldestServer),
  ),
  // `make test` has 19 in its place. On 18 a call cannot wait in the server, and a backslash may escape.
  "postgres-18": inVitest(
    "postgres-18",
    node,
    [
      "tests/integration",
      "tests/adapters",
      "tests/sql",
      ...["facts", "failover", "flights", "positions", "reads", "waiting"].map(
        (name) => `tests/cluster/${name}.test.ts`,
      ),
    ],
    onlyServer18,
  ),
  reproducible: { needs: ["build"], run: reproducible },
  "long-simulation": { needs: ["build"], run: longSimulation },
  // All of `make test` once more, in a fresh clone with an empty HOME.
  fresh: { run: fresh },
};
