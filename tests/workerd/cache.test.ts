// pgz-edge/cache in workerd: `cached` in a Worker that has a client per request, the invalidator in a Durable Object.
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ownDatabase } from "../adapters/own-database.ts";
import { testServers } from "../integration/servers.ts";
import { until } from "../support/until.mjs";
import { startWorker, type Worker } from "./host.mjs";
import { fileURLToPath } from "node:url";

const { superuserUrl } = testServers().servers.find(({ own }) => own)!;
const driver = (await import("../../dist/node.js" as string)) as typeof import("../../js/index.ts");
const SETUP = readFileSync(new URL("../../js/cache/cache.sql", import.meta.url), "utf8");
const SLOT = "cache_workerd";

let db: InstanceType<typeof driver.Client>;
let worker: Worker;
beforeAll(async () => {
  const url = await ownDatabase(driver, `${superuserUrl}?sslmode=disable`);
  db = driver.createClient(url);
  await db.simple(SETUP);
  await db.simple(`create table products (id int4 primary key, name text); insert into products values (1, 'a');
    create publication cache_workerd for table products`);
  await db.query("select pg_create_logical_replication_slot($1, 'pgoutput')", [SLOT]);
  worker = await startWorker({
    entry: fileURLToPath(new URL("fixture/cache.ts", import.meta.url)),
    options: {
      compatibilityFlags: ["no_nodejs_compat"],
      bindings: { DATABASE_URL: url },
      durableObjects: { INVALIDATIONS: { className: "Invalidations", useSQLite: true } },
    },
  });
});
afterAll(async () => {
  await worker?.stop();
  const active = "select from pg_replication_slots where slot_name = $1 and active";
  await until(async () => (await db.query(active, [SLOT])).rows.length === 0);
  await db.query("select pg_drop_replication_slot($1)", [SLOT]);
  await db.close();
});

const get = async (path: string, etag?: string) => {
  const response = await fetch(
    new URL(path, worker.url),
    etag === undefined ? {} : { headers: { "if-none-match": etag } },
  );
  return { status: response.status, headers: response.headers, text: await response.text() };
};
const isStored = async () => (await get("/rows?id=1")).headers.has("cdn-cache-control");
const purged = async () => (JSON.parse((await get("/state")).text) as { purged: string[] }).purged;

test("an answer is stored once the object follows the database, confirmed, and purged by a commit", async () => {
  await until(isStored);
  const { headers, text } = await get("/rows?id=1");
  expect(text).toBe('{"id":1,"name":"a"}\n');
  const [tag] = headers.get("cache-tag")!.split(",");
  const etag = headers.get("etag")!;
  await until(async () => (await get("/rows?id=1", etag)).status === 304);
  const before = (await purged()).filter((one) => one === tag).length;
  await db.exec("update products set name = 'b'");
  await until(async () => (await purged()).filter((one) => one === tag).length > before);
  expect((await get("/rows?id=1", etag)).text).toBe('{"id":1,"name":"b"}\n');
});

test("an object that the platform ends starts again by its alarm, and purges everything", async () => {
  await until(isStored);
  const all = async () => (await purged()).filter((tag) => tag === "pg").length;
  const before = await all();
  await get("/evict");
  await until(async () => (await all()) > before);
  await until(isStored);
  const sessions =
    "select from pg_stat_activity where datname = current_database() and backend_type = 'client backend'";
  await until(async () => (await db.query(sessions)).rows.length <= 3, "each request closes its client");
});
