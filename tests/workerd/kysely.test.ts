// pgz-edge/kysely in workerd: the cases of tests/adapters, and a client per request.
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { cases } from "../adapters/kysely-cases.ts";
import { testServers } from "../integration/servers.ts";
import { startWorker } from "./host.mjs";

const server = testServers().servers[0]!;
const url = `${server.url.split("?")[0]}?sslmode=disable`;
const entry = fileURLToPath(new URL("fixture/kysely-worker.ts", import.meta.url));

let worker: Awaited<ReturnType<typeof startWorker>>;
beforeAll(async () => {
  worker = await startWorker({ entry });
});
afterAll(() => worker?.stop());

const ask = async (name: string): Promise<unknown> =>
  (await fetch(worker.url, { method: "POST", body: JSON.stringify({ name, url }) })).json();

for (const name of Object.keys(cases)) test(name, async () => expect(await ask(name)).toBe(null));

test("each request has a client of its own", async () => {
  for (let request = 0; request < 5; request++) expect(await ask("worker")).toEqual([{ n: 7 }]);
});
