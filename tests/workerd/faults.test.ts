// The fault tests with the driver in workerd, without nodejs_compat. tests/run.mjs runs this file with the newest
// workerd and with the one for Node 20.
import { expect, test } from "vitest";
import { caFile } from "../faults/local.ts";
import type { Outcome } from "../faults/jobs.ts";
import { faultSuite } from "../faults/suite.ts";
import { wireCases } from "../faults/wire-cases.ts";
import type { CaseTask } from "../faults/worker.ts";
import { registrations } from "../integration/registrations.ts";
import { testServers } from "../integration/servers.ts";
import { useWorker } from "./use-worker.ts";

const servers = testServers();
const { ask } = useWorker("../faults/worker.ts", { caFile, options: { compatibilityFlags: ["no_nodejs_compat"] } });

faultSuite({
  label: `workerd ${process.env["PGZ_TEST_WORKERD"] ?? "newest"}`,
  control: servers.faults ?? "",
  ca: undefined,
  run: (job) => ask<Outcome>("", job),
  uncaught: () => ask<string[]>("uncaught"),
});

for (const { name, server, tls, ...registered } of registrations(wireCases, "workerd", servers))
  test(name, async () => {
    const task: CaseTask = { name: registered.case.name, server, tls, servers };
    expect(await ask("case", task)).toEqual({ error: "" });
  });
