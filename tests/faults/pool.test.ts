// Cuts a pool's connections after some byte, on this runtime (Node, Deno or Bun, whichever runs vitest).
// tests/workerd/pool-faults.test.ts does so in workerd.
import { runtime, testServers } from "../integration/servers.ts";
import { runJob } from "./run-job.ts";
import { watchUncaught } from "./uncaught.ts";
import { poolSuite } from "./pool-suite.ts";

const driver = (await import(`../../dist/${runtime}.js`)) as typeof import("../../js/index.ts");
const uncaught = watchUncaught();

// faults.test.ts has the ends by FIN and RST, beside those of a client.
poolSuite({
  label: runtime,
  control: testServers().faults ?? "",
  run: (job) => runJob(driver, job),
  uncaught: () => Promise.resolve(uncaught),
  modes: [{ how: "silence" }, { how: "half-open", pipelining: 3 }],
});
