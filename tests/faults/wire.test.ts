// The cases of wire-cases.ts on this runtime (Node, Deno or Bun, whichever runs vitest), against each real server.
import { test } from "vitest";
import { context } from "../integration/context.ts";
import { registrations } from "../integration/registrations.ts";
import { runtime, testServers } from "../integration/servers.ts";
import { wireCases } from "./wire-cases.ts";

const servers = testServers();
const driver = (await import(`../../dist/${runtime}.js`)) as typeof import("../../js/index.ts");

for (const registration of registrations(wireCases, runtime, servers)) {
  test(registration.name, () => registration.case.run(context(runtime, driver, registration, servers)));
}
