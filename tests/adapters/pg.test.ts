// The cases of cases.ts on this runtime, with the build that users get.
import { test } from "vitest";
import { runtime, testServers } from "../integration/servers.ts";
import { cases } from "./cases.ts";

const pg = (await import("../../dist/pg.js" as string)) as typeof import("../../js/adapters/pg.ts");

for (const server of testServers().servers)
  for (const [name, run] of Object.entries(cases))
    test(`${runtime}, ${server.name}: ${name}`, () => run(pg, `${server.url.split("?")[0]}?sslmode=disable`));
