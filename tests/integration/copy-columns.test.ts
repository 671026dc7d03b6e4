// Another session alters a column while COPY is on its way: the data name no types, so the columns that were described
// must be those that COPY meets.
import net from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { until } from "../support/until.mjs";
import { runtime, testServers } from "./servers.ts";

const { createClient } = (await import(`../../dist/${runtime}.js`)) as typeof import("../../js/index.ts");
const url = `${testServers().servers[0]!.url.split("?")[0]}?sslmode=disable`;
const { hostname, port } = new URL(url);
const table = `copied_columns_${runtime}`;
const side = createClient(url);
const other = createClient(url);

/** What happens when a COPY of the client comes by, before it goes on to the server. */
let meanwhile: () => Promise<unknown>;

const proxy = net.createServer((client) => {
  const server = net.connect(Number(port), hostname);
  let last: Promise<unknown> = Promise.resolve();
  client.on("data", (data) => {
    if (data.includes("copy (") || data.includes('copy "')) last = last.then(() => meanwhile());
    last = last.then(() => server.write(data));
  });
  server.pipe(client);
  client.on("close", () => server.destroy());
  for (const socket of [client, server]) socket.on("error", () => {});
});

beforeAll(() => new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve)));
afterAll(async () => {
  await side.exec(`drop table if exists ${table}`);
  await Promise.all([side.close(), other.close()]);
  proxy.close();
});

test.each([
  ["copyFromRows", true],
  ["copyToRows", false],
] as const)("a column's type is the same from its description to the end of %s", async (_, isIn) => {
  await side.simple(`drop table if exists ${table}; create table ${table} (v int4)`);
  if (!isIn) await side.exec(`insert into ${table} values (42)`);
  const proxied = new URL(url);
  proxied.host = `127.0.0.1:${(proxy.address() as net.AddressInfo).port}`;
  const client = createClient(proxied.href);
  let altering: Promise<unknown> | undefined;
  meanwhile = async () => {
    // A float4 has as many bytes.
    altering ??= other.exec(`alter table ${table} alter v type float4`);
    let isOver = false;
    void altering.finally(() => (isOver = true));
    const waits = `select from pg_locks where relation = '${table}'::regclass and not granted`;
    await until(async () => isOver || (await side.exec(waits)).rowCount === 1, "the ALTER waits, or is over");
  };
  if (isIn) expect(await client.copyFromRows(table, ["v"], [[42]])).toEqual({ command: "COPY", rowCount: 1 });
  else for await (const row of client.copyToRows(`select v from ${table}`)) expect(row).toEqual({ v: 42 });
  await altering;
  expect((await side.query(`select v::text as v from ${table}`)).rows).toEqual([{ v: "42" }]);
  await client.close();
});
