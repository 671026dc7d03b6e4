// The cases of cluster-cases.ts on this runtime.
import { afterAll, beforeAll, test } from "vitest";
import { runtime } from "../integration/servers.ts";
import { logFile } from "../servers/index.mjs";
import { startStandbys, type ClusterOfServers } from "../servers/standbys.mjs";
import { cases, run, type Setting } from "./cluster-cases.ts";

const pgz = (await import(`../../dist/${runtime}.js` as string)) as Setting["pgz"];
const { createCluster } = (await import("../../dist/cluster.js" as string)) as Pick<Setting, "createCluster">;

let servers: ClusterOfServers;
beforeAll(async () => void (servers = await startStandbys({ count: 1, log: logFile(`cluster-${runtime}`) })));
afterAll(() => servers?.stop());

for (const [name, work] of Object.entries(cases))
  test(`${runtime}: ${name}`, () => {
    const urls = [servers.primary, ...servers.standbys].map(({ url }) => url);
    return run(work, { pgz, createCluster, urls, table: `cluster_${runtime}` });
  });
