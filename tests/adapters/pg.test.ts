// The cases of cases.ts on this runtime, with the build that users get, and a case that needs a socket of its own.
import { expect, test } from "vitest";
import { connect } from "../../js/runtime/node.ts";
import { runtime, testServers } from "../integration/servers.ts";
import { cases } from "./cases.ts";

const pg = (await import("../../dist/pg.js" as string)) as typeof import("../../js/adapters/pg.ts");
const urlOf = ({ url }: { url: string }) => `${url.split("?")[0]}?sslmode=disable`;

for (const server of testServers().servers)
  for (const [name, run] of Object.entries(cases))
    test(`${runtime}, ${server.name}: ${name}`, () => run(pg, urlOf(server)));

test(`${runtime}: a cancel that takes long to arrive does not meet the next query`, async () => {
  let sockets = 0;
  const late: typeof connect = async (options) => {
    if (++sockets > 1) await new Promise((resolve) => setTimeout(resolve, 300));
    return connect(options);
  };
  const client = new pg.Client({ connectionString: urlOf(testServers().servers[0]!), pgz: { connect: late } });
  await client.connect();
  const query = new pg.Query("select pg_sleep(0.05)");
  const ended = new Promise((resolve) => query.once("end", resolve));
  client.query(query);
  new pg.Client().cancel(client, query);
  const next = client.query("select pg_sleep(0.6), 1 as a");
  await ended;
  expect((await next).rows[0].a).toBe(1);
  expect(sockets).toBe(2);
  await client.end();
});
