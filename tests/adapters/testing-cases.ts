// What code under test does in a transaction that is rolled back: written once, run on Node, Deno and Bun.
import type { Difference } from "../integration/context.ts";
import { driverCases } from "./testing-driver-cases.ts";
import { libraryCases } from "./testing-library-cases.ts";
import { pgCases } from "./testing-pg-cases.ts";
import { Place, type Modules, type Side } from "./testing-world.ts";

/** The cases that depend on a runtime. The others are about SQL and the order of calls. */
export const differ: Record<string, Difference> = {
  "a test's writes are rolled back, whether it returns or throws": "engine",
  "a transaction ends by its signal and by its timeout": "timers",
  "loops, cursors and streams are statements of their own": "streams",
  "a lost connection fails the test, and the next test gets another": "sockets",
  "pg: callbacks work, and transactions of several clients at the same time": "modules",
  "pg: a query that outlives its test is cancelled, and the client goes on": "sockets",
};

export const cases: Record<string, (modules: Modules, url: string, side: Side) => Promise<void>> = Object.fromEntries(
  Object.entries({ ...driverCases, ...pgCases, ...libraryCases }).map(([name, run]) => [
    name,
    async (modules: Modules, url: string, side: Side) => {
      const place = new Place(modules, url, side);
      await place.begin();
      try {
        await run(place);
      } finally {
        await place.end();
      }
    },
  ]),
);
