// Prisma's client over pgz-edge/prisma in workerd: the cases of tests/adapters/prisma return what they return on Node.
import { writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { cases, type Client } from "../adapters/prisma/cases.ts";
import { tables } from "../adapters/prisma/tables.ts";
import { testServers } from "../integration/servers.ts";
import { textOf } from "./fixture/prisma-worker.ts";
import { startWorker } from "./host.mjs";

const { PrismaPgz } = (await import("../../dist/prisma.js" as string)) as typeof import("../../js/adapters/prisma.ts");
const { generate } = (await import("../adapters/prisma/generate.mjs" as string)) as {
  generate: (runtime: string) => string;
};
const { PrismaClient } = (await import(generate("nodejs"))) as { PrismaClient: new (options: object) => Client };

const server = testServers().servers[0]!;
const schema = "prisma_workerd";
const url = `${server.url.split("?")[0]}?sslmode=disable&options=-c%20search_path%3D${schema}`;
const fixture = fileURLToPath(new URL("fixture/prisma-worker.ts", import.meta.url));

let worker: Awaited<ReturnType<typeof startWorker>>;
let here: Client;
beforeAll(async () => {
  const client = generate("workerd");
  const entry = path.join(path.dirname(client), "worker.ts");
  writeFileSync(
    entry,
    `import { PrismaClient } from ${JSON.stringify(client)};
     import { worker } from ${JSON.stringify(fixture)};
     export default worker(PrismaClient);`,
  );
  worker = await startWorker({ entry, options: { compatibilityFlags: ["nodejs_compat"] } });
  here = new PrismaClient({ adapter: new PrismaPgz(url, { schema }) });
  const adapter = await new PrismaPgz(url).connect();
  await adapter.executeScript(tables(schema));
  await adapter.dispose();
});
afterAll(async () => {
  await here?.$executeRawUnsafe(`drop schema ${schema} cascade`);
  await here?.$disconnect();
  await worker?.stop();
});

test.each(Object.entries(cases))("%s", async (name, run) => {
  const answer = await fetch(worker.url, { method: "POST", body: JSON.stringify({ name, url, schema }) });
  const text = await answer.text();
  expect(answer.status, text).toBe(200);
  await here.$executeRawUnsafe(`truncate "User", "Post", "Thing" restart identity cascade`);
  expect(JSON.parse(text)).toEqual(JSON.parse(textOf(await run(here))));
});
