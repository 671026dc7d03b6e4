// `pgz-edge/aws` in workerd: the cases of tests/adapters.
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { cases } from "../adapters/aws-cases.ts";
import { testServers } from "../integration/servers.ts";
import { startWorker } from "./host.mjs";

const url = `${testServers().servers[0]!.superuserUrl.split("?")[0]}?sslmode=disable`;
const entry = fileURLToPath(new URL("fixture/aws-worker.ts", import.meta.url));

let worker: Awaited<ReturnType<typeof startWorker>>;
beforeAll(async () => {
  worker = await startWorker({ entry });
});
afterAll(() => worker?.stop());

for (const name of Object.keys(cases))
  test(name, async () => {
    const body = JSON.stringify({ name, url });
    expect(await (await fetch(worker.url, { method: "POST", body })).json()).toBe(null);
  });
