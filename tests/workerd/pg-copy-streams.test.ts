// pgz-edge/pg-copy-streams in workerd, with nodejs_compat for node:stream: the cases of tests/adapters.
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { cases } from "../adapters/pg-copy-streams-cases.ts";
import { testServers } from "../integration/servers.ts";
import { startWorker } from "./host.mjs";

const server = testServers().servers[0]!;
const plain = (url: string) => `${url.split("?")[0]}?sslmode=disable`;
const entry = fileURLToPath(new URL("fixture/pg-copy-streams-worker.ts", import.meta.url));

let worker: Awaited<ReturnType<typeof startWorker>>;
beforeAll(async () => {
  worker = await startWorker({ entry, options: { compatibilityFlags: ["nodejs_compat"] } });
});
afterAll(() => worker?.stop());

for (const name of Object.keys(cases))
  test(name, async () => {
    const body = JSON.stringify({ name, url: plain(server.url), superuserUrl: plain(server.superuserUrl) });
    const answer = await fetch(worker.url, { method: "POST", body });
    expect(await answer.json()).toBe(null);
  });
