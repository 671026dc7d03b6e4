// Runs every integration case inside workerd: once in the newest, and once in the one for Node 20 (tests/run.mjs runs
// this file twice and sets PGZ_TEST_WORKERD).
import { test } from "vitest";
import { cases } from "../integration/cases/index.ts";
import { registrations } from "../integration/registrations.ts";
import { testServers } from "../integration/servers.ts";
import type { Task } from "./fixture/worker.ts";
import { useWorker } from "./use-worker.ts";

const servers = testServers();
const caFile = servers.servers.find((server) => server.caFile !== undefined)?.caFile;
const { ask } = useWorker("fixture/worker.ts", { caFile });

for (const { name, server, tls, ...registered } of registrations(cases, "workerd", servers))
  test(name, async () => {
    const task: Task = { name: registered.case.name, server, tls, servers };
    const { ok, error } = await ask<{ ok: boolean; error?: string }>("", task);
    if (!ok) throw new Error(error);
  });
