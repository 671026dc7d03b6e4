// Cuts a pool's connections after some byte, with the driver in workerd: in a Worker's request, and in a Durable Object
// that keeps its pools from one request to the next. tests/run.mjs runs this file with the newest workerd and with the
// one for Node 20.
import type { Job, Outcome } from "../faults/jobs.ts";
import { poolSuite } from "../faults/pool-suite.ts";
import { testServers } from "../integration/servers.ts";
import { useWorker } from "./use-worker.ts";

const control = testServers().faults ?? "";
const version = process.env["PGZ_TEST_WORKERD"] ?? "newest";
const label = `workerd ${version}`;
// Sometimes the old workerd does not report that a connection was reset before its first byte: the connect is then
// pending until connectTimeout.
const from = version === "newest" ? 0 : 1;
const { ask } = useWorker("../faults/worker.ts", {
  options: { durableObjects: { POOLS: { className: "Pools", useSQLite: true } } },
});

/** Runs the pool's next call in another request. */
async function inObject(job: Job): Promise<Outcome> {
  const first = await ask<Outcome>("object", job);
  if (job.kind !== "cut" || job.script !== "pool" || job.alone) return first;
  const next = await ask<Outcome>("object", { kind: "next", target: job.target });
  return {
    ...first,
    problem: first.problem || next.problem,
    steps: { ...first.steps, ...next.steps },
    total: first.total + next.total,
  };
}

const uncaught = () => ask<string[]>("uncaught");

poolSuite({
  label,
  control,
  run: (job) => ask("", job),
  uncaught,
  from,
  modes: [{ how: "silence" }, { how: "half-open", pipelining: 3 }],
});

poolSuite({
  label: `a Durable Object of ${label}`,
  control,
  run: inObject,
  uncaught,
  from,
  modes: [{ how: "fin" }, { how: "rst", pipelining: 3 }, { how: "silence" }, { how: "half-open", pipelining: 3 }],
});
