// Queries with Drizzle, one at a time: an application's selects, changes and execute calls.
import { assert } from "../integration/assert.ts";
import { withTemporal, type TemporalValue } from "../support/temporal.ts";
import { codeOf, failure, type Cases, type World } from "./drizzle-world.ts";

const equal = assert.deepEqual;

export const queries = ({
  users,
  posts,
  options,
  inDb,
  wrapped,
  byId,
  withId,
  core: { customType, pgTable, text },
  orm: { eq, sql },
}: World): Cases => ({
  "select, insert, update, delete and returning work": inDb(async (db) => {
    const [eve] = await db
      .insert(users)
      .values({ name: "Eve", data: { tags: ["a", "b"] }, joinedAt: new Date("2024-02-29T12:00:00.250Z") })
      .returning();
    equal(eve, {
      id: 3,
      name: "Eve",
      active: true,
      joinedAt: new Date("2024-02-29T12:00:00.250Z"),
      data: { tags: ["a", "b"] },
    });
    equal(await db.update(users).set({ active: false }).where(eq(users.id, 3)).returning({ id: users.id }), [
      { id: 3 },
    ]);
    equal(await db.select({ name: users.name }).from(users).where(eq(users.active, false)).orderBy(users.id), [
      { name: "Bob" },
      { name: "Eve" },
    ]);
    equal((await db.delete(users).where(eq(users.id, 3))).rowCount, 1);
    equal(await db.$count(users), 2);
  }),

  "a column of Temporal's is a custom type": inDb((db) =>
    withTemporal(async ({ Instant }) => {
      // As docs/drizzle.md writes it.
      const instant = customType<{ data: TemporalValue; driverData: string }>({
        dataType: () => "timestamptz",
        fromDriver: (text) => Instant.from(text),
        toDriver: String,
      });
      const joined = pgTable("users", { name: text("name"), joinedAt: instant("joined_at") });
      await db.insert(joined).values({ name: "Eve", joinedAt: Instant.from("2024-02-29T12:00:00.25Z") });
      const isEve = eq(joined.joinedAt, Instant.from("2024-02-29T12:00:00.25Z"));
      const [eve] = await db.select().from(joined).where(isEve);
      equal([eve?.name, String(eve?.joinedAt)], ["Eve", "2024-02-29T12:00:00.25Z"]);
      equal(eve?.joinedAt?.[Symbol.toStringTag], "Temporal.Instant");
    }),
  ),

  "joins group columns by table, with null for a missing row": inDb(async (db) => {
    const rows = await db.select().from(posts).leftJoin(users, eq(posts.authorId, users.id)).orderBy(posts.id);
    equal(
      rows.map(({ posts: post, users: user }) => [post.title, post.at, user && user.name]),
      [
        ["One", "2024-02-29 12:00:00.25", "Ada"],
        ["Two", null, "Ada"],
        ["None", null, null],
      ],
    );
    const named = await db
      .select({ title: posts.title, author: { name: users.name, posts: sql<string>`count(*) over ()` } })
      .from(posts)
      .innerJoin(users, eq(posts.authorId, users.id))
      .orderBy(posts.id);
    equal(named[0], { title: "One", author: { name: "Ada", posts: "2" } });
  }),

  "findMany and findFirst return related rows": inDb(async (db) => {
    const found = await db.query.users.findMany({
      with: { posts: { orderBy: byId(posts.id) } },
      orderBy: byId(users.id),
    });
    equal(
      // The value comes from JSON, where 0.45 leaves the server's T.
      found.map(({ name, posts }) => [name, posts.map(({ title, at }) => [title, at?.replace("T", " ") ?? null])]),
      [
        [
          "Ada",
          [
            ["One", "2024-02-29 12:00:00.25"],
            ["Two", null],
          ],
        ],
        ["Bob", []],
      ],
    );
    equal(found[0]!.joinedAt, new Date(0));
    const first = await db.query.posts.findFirst({ with: { author: true }, where: withId(posts.id, 1) });
    equal([first?.title, first?.at, first?.author?.name], ["One", "2024-02-29 12:00:00.25", "Ada"]);
  }),

  "prepared statements accept placeholders": inDb(async (db) => {
    const byName = db
      .select({ id: users.id })
      .from(users)
      .where(eq(users.name, sql.placeholder("name")))
      .prepare("by_name");
    equal([await byName.execute({ name: "Ada" }), await byName.execute({ name: "Bob" })], [[{ id: 1 }], [{ id: 2 }]]);
  }),

  "execute returns rows and counts, and runs several statements in one text": inDb(async (db) => {
    const one = await db.execute<{ a: number; at: string }>(
      sql`select ${1}::int4 as a, timestamptz '2024-02-29 12:00+00' as at, interval '1 day' as i`,
    );
    equal([one.rows, one.rowCount, one.command], [[{ a: 1, at: "2024-02-29 12:00:00+00", i: "1 day" }], 1, "SELECT"]);
    const several = (await db.execute("select 1 as a; select 2 as b")) as unknown as { rows: unknown[] }[];
    equal(
      several.map(({ rows }) => rows),
      [[{ a: 1 }], [{ b: 2 }]],
    );
  }),

  "errors are Drizzle's, with the server's error as cause": inDb(async (db) => {
    const error = wrapped(await failure(db.insert(users).values({ name: "Ada" })));
    equal(codeOf(error), "23505");
  }),

  "a mock builds SQL without a connection": async ({ adapter }) => {
    const db = adapter.drizzle.mock(options);
    equal(db.select({ id: users.id }).from(users).toSQL(), { sql: 'select "id" from "users"', params: [] });
    await failure(db.select().from(users).execute());
  },

  "a scope of the driver is a database with its own settings": inDb(async (db, kit) => {
    const tenant = kit.adapter.drizzle(db.$client.scope({ settings: { "app.tenant": "7" } }), options);
    const asked = sql`select current_setting('app.tenant', true) as tenant`;
    equal((await tenant.execute(asked)).rows, [{ tenant: "7" }]);
    equal(await tenant.transaction(async (tx) => (await tx.execute(asked)).rows), [{ tenant: "7" }]);
    equal(await tenant.select({ id: users.id }).from(users).limit(1), [{ id: 1 }]);
    // The semicolons are in quotes and comments.
    const quoted = sql.raw(`select 'a; b' as "c; d", $x$; e$x$ as f -- ; g
        /* ; h */`);
    equal((await tenant.execute(quoted)).rows, [{ "c; d": "a; b", f: "; e" }]);
  }),

  "a logger sees each statement, and an undefined value is refused": async ({ adapter, url }) => {
    const logged: unknown[] = [];
    const logger = { logQuery: (text: string, params: unknown[]) => void logged.push([text, params]) };
    const db = adapter.drizzle(url, { logger });
    try {
      await db.transaction((tx) => tx.execute(sql`select ${"x"}::text`));
      equal(logged, [["select $1::text", ["x"]]]);
      const missing = db.execute(sql`select ${sql.param(undefined)}::text`);
      equal(codeOf(wrapped(await failure(missing))), "INVALID_PARAMETER");
    } finally {
      await db.$client.close();
    }
  },
});
