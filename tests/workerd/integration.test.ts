// Runs every integration case inside workerd: once in the newest, and once in the one for Node 20 (tests/run.mjs runs
// this file twice and sets PGZ_TEST_WORKERD).
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { cases } from "../integration/cases/index.ts";
import { registrations } from "../integration/registrations.ts";
import { testServers } from "../integration/servers.ts";
import { startWorker, type Worker } from "./host.mjs";
import type { Task } from "./fixture/worker.ts";

const servers = testServers();
let worker: Worker;

beforeAll(async () => {
  const caFile = servers.servers.find((server) => server.caFile !== undefined)?.caFile;
  worker = await startWorker({ entry: fileURLToPath(new URL("fixture/worker.ts", import.meta.url)), caFile });
});
afterAll(() => worker?.stop());

for (const {
  name,
  case: { name: caseName },
  server,
  tls,
} of registrations(cases, "workerd", servers)) {
  test(name, async () => {
    const task: Task = { name: caseName, server, tls, servers };
    const response = await fetch(worker.url, { method: "POST", body: JSON.stringify(task) });
    const text = await response.text();
    expect(response.status, text).toBe(200);
    const { ok, error } = JSON.parse(text) as { ok: boolean; error?: string };
    if (!ok) throw new Error(error);
  });
}
