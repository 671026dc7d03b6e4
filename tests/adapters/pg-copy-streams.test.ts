// The cases of pg-copy-streams-cases.ts on this runtime, with the build that users get.
import { test } from "vitest";
import { runtime, testServers } from "../integration/servers.ts";
import { cases } from "./pg-copy-streams-cases.ts";

const pg = (await import("../../dist/pg.js" as string)) as typeof import("../../js/adapters/pg.ts");
const copy = (await import(
  "../../dist/pg-copy-streams.js" as string
)) as typeof import("../../js/adapters/pg-copy-streams.ts");
const plain = (url: string) => `${url.split("?")[0]}?sslmode=disable`;

for (const { name: server, url, superuserUrl } of testServers().servers)
  for (const [name, run] of Object.entries(cases))
    test(`${runtime}, ${server}: ${name}`, () => run({ pg, copy, url: plain(url), superuserUrl: plain(superuserUrl) }));
