// What code under test does in a transaction that is rolled back: written once, run on Node, Deno and Bun.
import { driverCases } from "./testing-driver-cases.ts";
import { libraryCases } from "./testing-library-cases.ts";
import { pgCases } from "./testing-pg-cases.ts";
import { Place, type Modules, type Side } from "./testing-world.ts";

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
