// The fault tests on this runtime (Node, Deno or Bun, whichever runs vitest). tests/workerd/faults.test.ts runs them in
// workerd.
import { runtime, testServers } from "../integration/servers.ts";
import { runJob } from "./run-job.ts";
import { watchUncaught } from "./uncaught.ts";
import { certificateAuthority } from "./local.ts";
import { faultSuite } from "./suite.ts";

const driver = (await import(`../../dist/${runtime}.js`)) as typeof import("../../js/index.ts");
const uncaught = watchUncaught();

faultSuite({
  label: runtime,
  control: testServers().faults ?? "",
  ca: certificateAuthority(),
  run: (job) => runJob(driver, job),
  uncaught: () => Promise.resolve(uncaught),
});
