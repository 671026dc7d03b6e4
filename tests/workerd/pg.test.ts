// pgz-edge/pg in workerd, with nodejs_compat as `pg` itself needs it: the cases of tests/adapters, and a module-level
// pool that serves one request after another.
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { cases } from "../adapters/cases.ts";
import { testServers } from "../integration/servers.ts";
import { startWorker } from "./host.mjs";

const server = testServers().servers[0]!;
const url = `${server.url.split("?")[0]}?sslmode=disable`;
const entry = fileURLToPath(new URL("fixture/pg-worker.ts", import.meta.url));

let worker: Awaited<ReturnType<typeof startWorker>>;
beforeAll(async () => {
  worker = await startWorker({ entry, options: { compatibilityFlags: ["nodejs_compat"] } });
});
afterAll(() => worker?.stop());

const ask = async (name: string): Promise<unknown> =>
  (await fetch(worker.url, { method: "POST", body: JSON.stringify({ name, url }) })).json();

for (const name of Object.keys(cases)) test(name, async () => expect(await ask(name)).toBe(null));

test("a module-level pool answers in each request", async () => {
  for (let request = 0; request < 5; request++) expect(await ask("pool")).toEqual([{ a: 1 }]);
});
