// The cases of kysely-cases.ts on this runtime, with the build that users get.
import * as kysely from "kysely";
import * as migration from "kysely/migration";
import { test } from "vitest";
import { runtime, testServers } from "../integration/servers.ts";
import { cases } from "./kysely-cases.ts";

const pgz = (await import(`../../dist/${runtime}.js`)) as typeof import("../../js/index.ts");
const adapter = (await import("../../dist/kysely.js" as string)) as typeof import("../../js/adapters/kysely.ts");

for (const server of testServers().servers)
  for (const [name, run] of Object.entries(cases))
    test(`${runtime}, ${server.name}: ${name}`, () =>
      run({ kysely, migration, pgz, adapter }, `${server.url.split("?")[0]}?sslmode=disable`));
