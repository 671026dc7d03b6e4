// What an application does with Drizzle 0.45, over pgz-edge/drizzle: written once, run on Node, Deno, Bun and in
// workerd.
//
// Each case gets the adapter, the driver and a URL. drizzle.test.ts compares the values with those of
// drizzle-orm/node-postgres.
import { eq } from "drizzle-orm";
import { numeric, pgTable, text, timestamp } from "drizzle-orm/pg-core";
import { release } from "./drizzle-release.ts";
import { sharedCases } from "./drizzle-shared-cases.ts";
import { codeOf, failure, worldOf, type Cases } from "./drizzle-world.ts";
import { assert } from "../integration/assert.ts";

const world = worldOf(release);
const { users, inDb, wrapped } = world;

export const cases: Cases = {
  ...sharedCases(world),

  "errors name the parameters": inDb(async (db) => {
    const error = wrapped(await failure(db.insert(users).values({ name: "Ada" })));
    assert.deepEqual([codeOf(error), error.params.includes("Ada")], ["23505", true]);
  }),

  // 1.0 has no decoder of its own for these, and returns what a parser returns.
  "columns of text take what the client's own parsers give": async ({ adapter, driver, url }) => {
    const types = { timestamp: (text: string) => new Date(`${text}Z`), numeric: Number };
    await using client = await driver.connect(url, { types: types as never });
    const table = pgTable("parsed", { stamp: timestamp({ mode: "string" }), exact: numeric() });
    await client.simple(`create temp table parsed (stamp timestamp, exact numeric);
      insert into parsed values ('2024-02-29 12:00', 1.5)`);
    const rows = await adapter.drizzle(client).select().from(table);
    assert.deepEqual(rows, [{ stamp: "2024-02-29 12:00:00.000", exact: "1.5" }]);
  },

  "columns are named in the chosen case": ({ adapter }) => {
    const db = adapter.drizzle.mock({ casing: "snake_case" });
    const people = pgTable("people", { firstName: text(), lastSeen: timestamp() });
    const asked = db.select().from(people).where(eq(people.firstName, "Ada"));
    assert.equal(asked.toSQL().sql, `select "first_name", "last_seen" from "people" where "people"."first_name" = $1`);
    return Promise.resolve();
  },
};
