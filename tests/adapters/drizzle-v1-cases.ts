// What an application does with Drizzle 1.0, over pgz-edge/drizzle-v1: written once, run on Node, Deno, Bun and in
// workerd.
import { date, numeric, pgTable, point, timestamp } from "drizzle-orm-v1/pg-core";
import { sharedCases } from "./drizzle-shared-cases.ts";
import { release } from "./drizzle-v1-release.ts";
import { codeOf, failure, TABLES, worldOf, type Cases, type Kit } from "./drizzle-world.ts";
import { assert } from "../integration/assert.ts";

const world = worldOf(release);
const { users, posts, options, inDb, withId, wrapped } = world;
const { eq, sql } = release.orm;

/** The adapter with its own types. */
const mine = (adapter: Kit["adapter"]) => adapter as unknown as typeof import("../../js/adapters/drizzle-v1.ts");

export const cases: Cases = {
  ...sharedCases(world),

  "a transaction sees the snapshot of another": inDb(async (db) =>
    db.transaction(
      async (tx) => {
        const { rows } = await tx.execute<{ id: string }>(sql`select pg_export_snapshot() as id`);
        await db.delete(posts);
        const config = { isolationLevel: "repeatable read", snapshot: rows[0]!.id } as const;
        assert.deepEqual(await db.transaction((other) => other.$count(posts), config), 3);
      },
      { isolationLevel: "repeatable read" },
    ),
  ),

  "SQL has no casts: arrays of every type come decoded": async ({ adapter, driver, url }) => {
    const things = pgTable("things", {
      prices: numeric().array(),
      days: date().array(),
      place: point(),
      at: timestamp().array(),
    });
    const asked: string[] = [];
    const logger = { logQuery: (text: string) => void asked.push(text) };
    await using client = await driver.connect(url);
    const db = mine(adapter).drizzle({ client, logger });
    await client.simple(`create temp table things (prices numeric[], days date[], place point, at timestamp[]);
      insert into things values ('{1.50,NULL}', '{2024-02-29}', '(1,2)', '{2024-02-29 12:00}')`);
    assert.deepEqual(await db.select().from(things), [
      { prices: ["1.50", null], days: ["2024-02-29"], place: [1, 2], at: [new Date("2024-02-29T12:00:00Z")] },
    ]);
    assert.deepEqual(asked, ['select "prices", "days", "place", "at" from "things"']);
  },

  "the user's own codecs work, and so does code that Drizzle generates": async ({ adapter, driver, url }) => {
    await using client = await driver.connect(url, { startup: { search_path: "pg_temp" } });
    await client.simple(TABLES.replaceAll("create table", "create temp table"));
    const shouted = { ...mine(adapter).pgzCodecs, text: { normalize: (text: string) => text.toUpperCase() } };
    const own = adapter.drizzle(client, { ...options, codecs: shouted } as typeof options);
    assert.deepEqual(await own.select({ name: users.name }).from(users).where(eq(users.id, 1)), [{ name: "ADA" }]);
    const jit = adapter.drizzle(client, { ...options, jit: true } as typeof options);
    const found = await jit.query.users.findFirst({ with: { posts: true }, where: withId(users.id, 1) });
    assert.deepEqual([found?.joinedAt, found?.posts.length], [new Date(0), 2]);
  },

  "errors name the parameters only when Drizzle is told to": inDb(async (db) => {
    const error = wrapped(await failure(db.insert(users).values({ name: "Ada" })));
    assert.deepEqual([codeOf(error), error.params], ["23505", undefined]);
  }),
};
