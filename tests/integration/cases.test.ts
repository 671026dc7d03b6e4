// Runs every case of cases/ on this runtime (Node, Deno or Bun, whichever runs vitest), with the build that its users
// get. workerd's turn is in tests/workerd/integration.test.ts.
import { test } from "vitest";
import { cases } from "./cases/index.ts";
import { context } from "./context.ts";
import { registrations } from "./registrations.ts";
import { runtime, testServers } from "./servers.ts";

const servers = testServers();
const driver = (await import(`../../dist/${runtime}.js`)) as typeof import("../../js/index.ts");

for (const registration of registrations(cases, runtime, servers)) {
  test(registration.name, () => registration.case.run(context(runtime, driver, registration, servers)));
}
