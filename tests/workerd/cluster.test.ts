// pgz-edge/cluster in workerd: the cases of tests/adapters, each in a request of its own, so that sockets belong to a
// request and the knowledge of the servers to the isolate.
import { afterAll, beforeAll } from "vitest";
import { cases } from "../adapters/cluster-cases.ts";
import { logFile } from "../servers/index.mjs";
import { startStandbys, type ClusterOfServers } from "../servers/standbys.mjs";
import { adapterCases } from "./use-worker.ts";

let servers: ClusterOfServers;
beforeAll(async () => void (servers = await startStandbys({ count: 1, log: logFile("cluster-workerd") })));
afterAll(() => servers?.stop());

adapterCases("cluster", Object.keys(cases), () => ({
  urls: [servers.primary, ...servers.standbys].map(({ url }) => url),
}));
