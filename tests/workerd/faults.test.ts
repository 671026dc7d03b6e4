// The fault tests with the driver in workerd. tests/run.mjs runs this file with the newest workerd and with the one for
// Node 20.
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { caFile } from "../faults/local.ts";
import type { Outcome } from "../faults/jobs.ts";
import { faultSuite } from "../faults/suite.ts";
import { wireCases } from "../faults/wire-cases.ts";
import type { CaseTask } from "../faults/worker.ts";
import { registrations } from "../integration/registrations.ts";
import { testServers } from "../integration/servers.ts";
import { startWorker, type Worker } from "./host.mjs";

const servers = testServers();
let worker: Worker;
beforeAll(async () => {
  worker = await startWorker({ entry: fileURLToPath(new URL("../faults/worker.ts", import.meta.url)), caFile });
});
afterAll(() => worker?.stop());

const ask = async <T>(path: string, body?: unknown): Promise<T> => {
  const response = await fetch(
    worker.url + path,
    body === undefined ? {} : { method: "POST", body: JSON.stringify(body) },
  );
  const text = await response.text();
  if (!response.ok) throw new Error(`the Worker answered ${response.status}: ${text}`);
  return JSON.parse(text) as T;
};

faultSuite({
  label: `workerd ${process.env["PGZ_TEST_WORKERD"] ?? "newest"}`,
  control: servers.faults ?? "",
  ca: undefined,
  run: (job) => ask<Outcome>("", job),
  uncaught: () => ask<string[]>("uncaught"),
});

for (const {
  name,
  case: { name: caseName },
  server,
  tls,
} of registrations(wireCases, "workerd", servers)) {
  test(name, async () => {
    const task: CaseTask = { name: caseName, server, tls, servers };
    expect(await ask("case", task)).toEqual({ error: "" });
  });
}
