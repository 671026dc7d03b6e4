// The cases of testing-cases.ts on this runtime, with the build that users get.
import * as drizzleOrm from "drizzle-orm";
import { drizzle as drizzlePg } from "drizzle-orm/node-postgres";
import * as kysely from "kysely";
import { test } from "vitest";
import { ofAdapter } from "../integration/registrations.ts";
import { runtime, testServers } from "../integration/servers.ts";
import { cases, differ } from "./testing-cases.ts";
import type { Modules } from "./testing-world.ts";

const built = async (name: string) => (await import(`../../dist/${name}.js`)) as never;
const { drizzle } = (await built("drizzle")) as typeof import("../../js/adapters/drizzle.ts");
const modules: Modules = {
  pgz: await built(runtime),
  testing: await built("testing"),
  pg: await built("pg"),
  prisma: await built("prisma"),
  kyselyAdapter: await built("kysely"),
  drizzle,
  drizzlePg,
  drizzleOrm,
  kysely,
};

const { servers, side } = testServers();

for (const server of servers.filter(({ own }) => own))
  for (const [name, run] of ofAdapter(cases, differ, runtime)) {
    const asSuperuser = async (sql: string) => {
      const body = JSON.stringify({ server: server.name, sql });
      const response = await fetch(`${side}/sql`, { method: "POST", body, headers: { connection: "close" } });
      const { error } = (await response.json()) as { error?: string };
      if (error !== undefined) throw new Error(error);
    };
    const url = `${server.url.split("?")[0]}?sslmode=disable`;
    test(`${runtime}, ${server.name}: ${name}`, () => run(modules, url, asSuperuser));
  }
