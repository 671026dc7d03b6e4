// pgz-edge/websocket in workerd: the cases of tests/adapters by ws:, and by wss: with the certificate that workerd is
// configured to trust.
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { cases } from "../adapters/websocket-cases.ts";
import { testServers } from "../integration/servers.ts";
import { startWorker } from "./host.mjs";

const { servers, webSockets } = testServers();
const { url, tls, caFile } = servers[0]!;
const entry = fileURLToPath(new URL("fixture/websocket-worker.ts", import.meta.url));

let worker: Awaited<ReturnType<typeof startWorker>>;
beforeAll(async () => {
  worker = await startWorker({ entry, ...(caFile && { caFile }) });
});
afterAll(() => worker?.stop());

describe.each(Object.entries(webSockets))("%s", (_, proxy) => {
  for (const name of Object.keys(cases))
    test(name, async () => {
      const body = JSON.stringify({ name, proxy, url: `${url.split("?")[0]}?sslmode=disable`, tls });
      expect(await (await fetch(worker.url, { method: "POST", body })).json()).toBe(null);
    });
});
