// The cases of aws-cases.ts on this runtime, with the build that users get.
import { test } from "vitest";
import { runtime, testServers } from "../integration/servers.ts";
import { cases } from "./aws-cases.ts";

const pgz = (await import(`../../dist/${runtime}.js` as string)) as typeof import("../../js/index.ts");
const aws = (await import("../../dist/aws.js" as string)) as typeof import("../../js/adapters/aws.ts");
const url = `${testServers().servers[0]!.superuserUrl.split("?")[0]}?sslmode=disable`;

for (const [name, run] of Object.entries(cases)) test(`${runtime}: ${name}`, () => run({ pgz, aws, url }));
