// Random sessions on this runtime (Node, Deno or Bun, whichever runs vitest). tests/workerd/random.test.ts runs them in
// workerd.
import { watchUncaught } from "../faults/uncaught.ts";
import { runtime, testServers } from "../integration/servers.ts";
import { placeOf } from "./place.ts";
import { runSession } from "./session.ts";
import { randomSuite } from "./suite.ts";

const driver = (await import(`../../dist/${runtime}.js`)) as typeof import("../../js/index.ts");
const uncaught = watchUncaught();

randomSuite({
  label: runtime,
  servers: testServers(),
  poolers: runtime === "node",
  run: (task) => runSession(placeOf(runtime, driver, task), task.seed),
  uncaught: () => Promise.resolve(uncaught),
});
