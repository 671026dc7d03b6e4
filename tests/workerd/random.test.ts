// Random sessions with the driver in workerd. tests/run.mjs runs this file with the newest workerd and with the one for
// Node 20.
import { caFile } from "../faults/local.ts";
import { testServers } from "../integration/servers.ts";
import type { Report } from "../random/session.ts";
import { randomSuite } from "../random/suite.ts";
import { useWorker } from "./use-worker.ts";

const { ask } = useWorker("../random/worker.ts", { caFile });

randomSuite({
  label: `workerd ${process.env["PGZ_TEST_WORKERD"] ?? "newest"}`,
  servers: testServers(),
  poolers: false,
  run: (task) => ask<Report>("", task),
  uncaught: () => ask<string[]>(""),
});
