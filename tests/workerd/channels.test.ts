// Tracing channels in workerd with nodejs_compat, which brings node:diagnostics_channel: the cases of
// tests/integration/cases/channels.ts. The newest workerd runs them with an old compatibility date too, where
// `hasSubscribers` is a method.
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { channels } from "../integration/cases/channels.ts";
import { testServers } from "../integration/servers.ts";
import { startWorker } from "./host.mjs";
import type { Task } from "./fixture/worker.ts";

const servers = testServers();
const server = servers.servers[0]!;
const entry = fileURLToPath(new URL("fixture/worker.ts", import.meta.url));
const dates = process.env["PGZ_TEST_WORKERD"] === "node-20" ? [{}] : [{ compatibilityDate: "2026-04-01" }, {}];

test.each(dates)("channels work in workerd with nodejs_compat, %j", async (date) => {
  const options = { compatibilityFlags: ["nodejs_compat"], ...date };
  const worker = await startWorker({ entry, caFile: server.caFile, options });
  try {
    for (const name of Object.keys(channels)) {
      const task: Task = { name, server, tls: false, servers };
      const response = await fetch(worker.url, { method: "POST", body: JSON.stringify(task) });
      expect(await response.json(), name).toEqual({ ok: true });
    }
  } finally {
    await worker.stop();
  }
});
