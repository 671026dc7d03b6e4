// pgz-edge/changes in workerd, with its wasm as a module: the cases of tests/adapters.
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { cases, differ } from "../adapters/changes-cases.ts";
import { ownDatabase } from "../adapters/own-database.ts";
import { ofAdapter } from "../integration/registrations.ts";
import { testServers } from "../integration/servers.ts";
import { startWorker } from "./host.mjs";

const { superuserUrl } = testServers().servers.find(({ own }) => own)!;
const entry = fileURLToPath(new URL("fixture/changes-worker.ts", import.meta.url));

const driver = (await import("../../dist/node.js" as string)) as typeof import("../../js/index.ts");
let worker: Awaited<ReturnType<typeof startWorker>>;
let url: string;
beforeAll(async () => {
  url = await ownDatabase(driver, `${superuserUrl}?sslmode=disable`);
  worker = await startWorker({ entry });
});
afterAll(() => worker?.stop());

for (const [name] of ofAdapter(cases, differ, "workerd"))
  test(name, async () => {
    const body = JSON.stringify({ name, url });
    expect(await (await fetch(worker.url, { method: "POST", body })).json()).toBe(null);
  });
