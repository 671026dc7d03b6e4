// pgz-edge/cluster in workerd: the cases of tests/adapters, each in a request of its own, so that sockets belong to a
// request and the knowledge of the servers to the isolate.
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { cases } from "../adapters/cluster-cases.ts";
import { logFile } from "../servers/index.mjs";
import { startStandbys, type ClusterOfServers } from "../servers/standbys.mjs";
import { startWorker } from "./host.mjs";

const entry = fileURLToPath(new URL("fixture/cluster-worker.ts", import.meta.url));

let servers: ClusterOfServers;
let worker: Awaited<ReturnType<typeof startWorker>>;
beforeAll(async () => {
  servers = await startStandbys({ count: 1, log: logFile("cluster-workerd") });
  worker = await startWorker({ entry });
});
afterAll(async () => {
  await worker?.stop();
  await servers?.stop();
});

for (const name of Object.keys(cases))
  test(name, async () => {
    const urls = [servers.primary, ...servers.standbys].map(({ url }) => url);
    expect(await (await fetch(worker.url, { method: "POST", body: JSON.stringify({ name, urls }) })).json()).toBe(null);
  });
