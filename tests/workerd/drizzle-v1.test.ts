// pgz-edge/drizzle-v1 in workerd: the cases of tests/adapters, without nodejs_compat.
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { cases } from "../adapters/drizzle-v1-cases.ts";
import { testServers } from "../integration/servers.ts";
import { startWorker } from "./host.mjs";

const server = testServers().servers[0]!;
const url = `${server.url.split("?")[0]}?sslmode=disable`;
const entry = fileURLToPath(new URL("fixture/drizzle-v1-worker.ts", import.meta.url));

let worker: Awaited<ReturnType<typeof startWorker>>;
beforeAll(async () => {
  worker = await startWorker({ entry, alias: { "drizzle-orm": "drizzle-orm-v1" } });
});
afterAll(() => worker?.stop());

for (const name of Object.keys(cases))
  test(name, async () => {
    const answer = await fetch(worker.url, { method: "POST", body: JSON.stringify({ name, url }) });
    expect(await answer.json()).toBe(null);
  });
