// The suites by name: what each needs and how it runs. Each gives rows (rows.mjs). `setup`: of scripts/setup, if it is
// more than for all others.
//
// What differs between runtimes is their sockets and streams, and what differs between servers is their answers. No
// runtime can change an answer, so the older server is seen by "node" alone, and all others see the newest one.
import { readdirSync } from "node:fs";
import { nodeBinary } from "../../scripts/node/index.mjs";
import { lint, longSimulation, reproducible, rust, simulation } from "./checks.mjs";
import { postgres19 } from "../servers/postgres-19.mjs";
import { at, bin, say } from "./command.mjs";
import { onlyNewestServer, onlyOldestServer } from "./servers.mjs";
import { runVitest } from "./vitest.mjs";

// Asked when a suite runs: scripts/setup installs some of them.
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
  "cluster",
];
const workerdFaults = ["tests/workerd/faults.test.ts", "tests/workerd/pool-faults.test.ts"];
const workerdWithoutFaults = readdirSync(at("tests/workerd"))
  .map((name) => `tests/workerd/${name}`)
  .filter((name) => name.endsWith(".test.ts") && !workerdFaults.includes(name));

const oldWorkerd = () => ({ ...onlyNewestServer(), PGZ_TEST_WORKERD: "node-20" });
const release =
  (env = onlyNewestServer) =>
  () => ({ ...env(), PGZ_TEST_RELEASE: "1" });

/** `label`: of its rows and its report. `env` is asked when it runs, too: only then is there a server. */
const inVitest = (label, runtime, folders, env = onlyNewestServer) => ({
  needs: ["build", "servers"],
  run: () => runVitest(label, runtime(), folders, env()),
});

/**
 * Of `make test`, in their order. Those that are `alone` keep both cores busy. Those `beside` keep one busy, and the
 * rest leave one idle: they run side by side.
 */
export const suites = {
  rust: { run: rust, alone: true },
  lint: { needs: ["build"], run: lint, beside: true },
  node: {
    ...inVitest("node", node, [...everywhere, ...onNodeOnly.map((name) => `tests/${name}`)], () => ({})),
    alone: true,
  },
  simulation: { needs: ["build", "servers"], run: simulation, beside: true },
  "node-26": inVitest("node-26", nodeOf(26), ["tests/integration"]),
  deno: inVitest("deno", deno, everywhere),
  bun: inVitest("bun", bun, everywhere),
  workerd: inVitest("workerd", node, ["tests/workerd"]),
  // The older workerd meets its faults, and each byte of them, in a release.
  "workerd-node-20": inVitest("workerd-node-20", node, workerdWithoutFaults, oldWorkerd),
};

/** Three nodes of Citus are built from its sources, which nothing here brings. */
function withoutCitus() {
  say("citus left out: CITUS names no checkout of its sources (tests/citus/build.sh)");
  return [];
}

/** Debian has PostgreSQL 19. */
async function cluster19() {
  const folder = await postgres19().catch((error) => void say(`cluster-19 left out: ${error.message.split("\n")[0]}`));
  if (folder === undefined) return [];
  return runVitest("cluster-19", node(), on19, { ...onlyNewestServer(), PGZ_TEST_POSTGRES_19: folder });
}

const on19 = ["facts", "failover", "flights", "positions", "reads", "waiting"].map(
  (name) => `tests/cluster/${name}.test.ts`,
);

/** Of `make test-release`: what takes minutes by nature, and differs little from what `make test` has run. */
export const releaseSuites = {
  "node-26-unit": inVitest("node-26-unit", nodeOf(26), ["tests/unit"]),
  "node-22": inVitest("node-22", nodeOf(22), ["tests/unit", "tests/integration"]),
  "node-24": inVitest("node-24", nodeOf(24), ["tests/unit", "tests/integration"]),
  "every-byte-deno": inVitest("deno", deno, ["tests/faults"], release()),
  "every-byte-bun": inVitest("bun", bun, ["tests/faults"], release()),
  "every-byte-node": inVitest("node", node, ["tests/faults"], release()),
  "every-byte-workerd": inVitest("workerd", node, workerdFaults, release()),
  "every-byte-workerd-node-20": inVitest("workerd-node-20", node, workerdFaults, release(oldWorkerd)),
  // What these leave out in `make test`: a page of each class, another bundler, compiler or workerd.
  "every-page": inVitest(
    "every-page",
    node,
    [
      "tests/site",
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
  // A server in which a call waits for the position.
  "cluster-19": { needs: ["build", "servers"], run: cluster19 },
  // Five more failovers, and switchovers, of a cluster that Patroni runs.
  patroni: { ...inVitest("patroni", node, ["tests/patroni"], release()), setup: "release" },
  // An application of Next as OpenNext builds it, three times, and in `next dev`: seven minutes on two cores.
  "next-on-workers": inVitest("next-on-workers", node, ["tests/ecosystem"]),
  citus: process.env.CITUS ? inVitest("citus", node, ["tests/citus"], release()) : { run: withoutCitus },
  "older-server": inVitest("older-server", node, ["tests/integration"], onlyOldestServer),
  reproducible: { needs: ["build"], run: reproducible },
  "long-simulation": { needs: ["build"], run: longSimulation },
};
