// Random sessions with the driver in workerd. tests/run.mjs runs this file with the newest workerd and with the one for
// Node 20.
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll } from "vitest";
import { caFile } from "../faults/local.ts";
import { testServers } from "../integration/servers.ts";
import type { Report } from "../random/session.ts";
import { randomSuite } from "../random/suite.ts";
import { startWorker, type Worker } from "./host.mjs";

let worker: Worker;
beforeAll(async () => {
  worker = await startWorker({ entry: fileURLToPath(new URL("../random/worker.ts", import.meta.url)), caFile });
});
afterAll(() => worker?.stop());

const ask = async <T>(init?: RequestInit): Promise<T> => {
  const response = await fetch(worker.url, init);
  const text = await response.text();
  if (!response.ok) throw new Error(`the Worker answered ${response.status}: ${text}`);
  return JSON.parse(text) as T;
};

randomSuite({
  label: `workerd ${process.env["PGZ_TEST_WORKERD"] ?? "newest"}`,
  servers: testServers(),
  poolers: false,
  run: (task) => ask<Report>({ method: "POST", body: JSON.stringify(task) }),
  uncaught: () => ask<string[]>(),
});
