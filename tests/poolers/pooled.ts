// Shared parts of the pooler tests in Node: the servers, the seed, and the tenants' tables, which are created and
// dropped on the server directly.
import type * as pgz from "../../js/index.ts";
import type { Server } from "../integration/context.ts";
import { isRelease } from "../support/release.ts";
import { testServers } from "../integration/servers.ts";
import { createTenant, schemasOf, type Load } from "./workload.ts";

/** More than the poolers have server connections, so that tenants share each connection. */
export const TENANTS = isRelease ? 20 : 8;

/** Repeats an order when PGZ_SEED is set. Each failure names the seed. */
export const seed = Number(process.env["PGZ_SEED"] ?? Math.floor(Math.random() * 1e6));

const { servers, pgbouncer: found } = testServers();
if (found === undefined) throw new Error("PgBouncer was not started: run the tests with `node tests/run.mjs`");
export const pgbouncer: Server = found;
/** The server behind the pooler. */
export const direct: Server = servers.find(({ own }) => own)!;

export const driver = (await import("../../dist/node.js" as string)) as typeof pgz;

export const plain = (server: Pick<Server, "url">): pgz.Options & { connectionString: string } => ({
  connectionString: server.url,
  sslmode: "disable",
});

/** `server` is where the tables are created. */
export async function withTenants<T>(
  load: Load,
  lanes: number,
  work: () => Promise<T>,
  server: Pick<Server, "url"> = direct,
): Promise<T> {
  const admin = await driver.connect(plain(server));
  const numbers = Array.from({ length: TENANTS }, (_, number) => number);
  try {
    await admin.simple(numbers.map((number) => createTenant(load, number, lanes)).join("\n"));
    return await work();
  } finally {
    for (const number of numbers)
      await admin.exec(`drop schema if exists ${schemasOf(load, number, lanes).join()} cascade`);
    await admin.close();
  }
}
