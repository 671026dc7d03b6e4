// The cases of changes-cases.ts on this runtime, over each PostgreSQL of the run.
import { beforeAll, describe, test } from "vitest";
import { ofAdapter } from "../integration/registrations.ts";
import { runtime, testServers } from "../integration/servers.ts";
import { cases, differ, run, type Setting } from "./changes-cases.ts";
import { ownDatabase } from "./own-database.ts";

const pgz = (await import(`../../dist/${runtime}.js` as string)) as typeof import("../../js/index.ts");
const { changes } = (await import("../../dist/changes.js" as string)) as typeof import("../../js/changes.ts");

const own = testServers().servers.filter((server) => server.own);
describe.each(own.map((server) => [server.name, server] as const))("PostgreSQL %s", (_, { superuserUrl }) => {
  let setting: Setting;
  beforeAll(async () => {
    const url = await ownDatabase(pgz, `${superuserUrl}?sslmode=disable`);
    setting = { pgz, changes, url } as unknown as Setting;
  });
  for (const [name, work] of ofAdapter(cases, differ, runtime)) test(`${runtime}: ${name}`, () => run(work, setting));
});
