// What an application does with Drizzle, over pgz-edge/drizzle: written once, run on Node, Deno, Bun and in workerd.
//
// Each case gets the adapter, the driver and a URL. That values are those of drizzle-orm/node-postgres is compared in
// drizzle.test.ts.
import { and, DrizzleQueryError, eq, gt, relations, sql, TransactionRollbackError } from "drizzle-orm";
import { Cache, type MutationOption } from "drizzle-orm/cache/core";
import { bigint, boolean, date, integer, jsonb, numeric, pgTable, serial, text, timestamp } from "drizzle-orm/pg-core";
import { inputCases } from "./drizzle-input-cases.ts";
import { assert } from "../integration/assert.ts";

const equal = assert.deepEqual;

export interface Kit {
  readonly adapter: typeof import("../../js/adapters/drizzle.ts");
  readonly driver: typeof import("../../js/index.ts");
  readonly url: string;
}

const users = pgTable("users", {
  id: serial("id").primaryKey(),
  name: text("name").notNull().unique(),
  active: boolean("active").notNull().default(true),
  joinedAt: timestamp("joined_at", { withTimezone: true }).notNull().default(new Date(0)),
  data: jsonb("data").$type<{ tags: string[] }>(),
});
const posts = pgTable("posts", {
  id: serial("id").primaryKey(),
  authorId: integer("author_id").references(() => users.id),
  title: text("title").notNull(),
  at: timestamp("at", { mode: "string" }),
});
const usersRelations = relations(users, ({ many }) => ({ posts: many(posts) }));
const postsRelations = relations(posts, ({ one }) => ({
  author: one(users, { fields: [posts.authorId], references: [users.id] }),
}));
const schema = { users, posts, usersRelations, postsRelations };

const TABLES = `create table users (id serial primary key, name text not null unique, active bool not null default true,
    joined_at timestamptz not null default 'epoch', data jsonb);
  create table posts (id serial primary key, author_id int4 references users, title text not null, at timestamp);
  insert into users (name, active, data) values ('Ada', true, '{"tags":["x"]}'), ('Bob', false, null);
  insert into posts (author_id, title, at) values (1, 'One', '2024-02-29 12:00:00.25'), (1, 'Two', null),
    (null, 'None', null)`;

const open = ({ adapter, driver, url }: Kit, name: string, observer: object = {}) => {
  const pool = driver.createPool(url, { startup: { search_path: name }, max: 3, observer });
  return { pool, db: adapter.drizzle(pool, { schema }) };
};
type Db = ReturnType<typeof open>["db"];

/** A database with the tables, in a schema of its own. */
const withDb = async (kit: Kit, work: (db: Db, name: string) => Promise<void>, observer?: object) => {
  const name = `dz_${Math.random().toString(36).slice(2)}`;
  const { pool, db } = open(kit, name, observer);
  try {
    await pool.simple(`create schema ${name}; ${TABLES}`);
    await work(db, name);
  } finally {
    await pool.simple(`drop schema ${name} cascade`);
    await pool.close();
  }
};

const failure = async (work: Promise<unknown>): Promise<Error> =>
  work.then(
    () => {
      throw new Error("it did not fail");
    },
    (error: Error) => error,
  );

/** That it is Drizzle's. */
const wrapped = (error: Error): DrizzleQueryError => {
  assert(error instanceof DrizzleQueryError, String(error));
  return error as DrizzleQueryError;
};

/** What the server said, in Drizzle's error. */
const codeOf = (error: Error) => (error.cause as { code?: string } | undefined)?.code;

export const cases: Record<string, (kit: Kit) => Promise<void>> = {
  ...inputCases,

  "select, insert, update, delete and returning": (kit) =>
    withDb(kit, async (db) => {
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

  "joins: groups by table, and null where there was no row": (kit) =>
    withDb(kit, async (db) => {
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

  "relations: findMany and findFirst with what belongs to them": (kit) =>
    withDb(kit, async (db) => {
      const found = await db.query.users.findMany({ with: { posts: { orderBy: posts.id } }, orderBy: users.id });
      equal(
        found.map(({ name, posts }) => [name, posts.map(({ title, at }) => [title, at])]),
        [
          [
            "Ada",
            [
              ["One", "2024-02-29T12:00:00.25"],
              ["Two", null],
            ],
          ],
          ["Bob", []],
        ],
      );
      equal(found[0]!.joinedAt, new Date(0));
      const first = await db.query.posts.findFirst({ with: { author: true }, where: eq(posts.id, 1) });
      equal([first?.title, first?.at, first?.author?.name], ["One", "2024-02-29 12:00:00.25", "Ada"]);
    }),

  "prepared statements with placeholders": (kit) =>
    withDb(kit, async (db) => {
      const byName = db
        .select({ id: users.id })
        .from(users)
        .where(eq(users.name, sql.placeholder("name")))
        .prepare("by_name");
      equal([await byName.execute({ name: "Ada" }), await byName.execute({ name: "Bob" })], [[{ id: 1 }], [{ id: 2 }]]);
    }),

  "execute: rows, counts, and several statements in one text": (kit) =>
    withDb(kit, async (db) => {
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

  "errors are Drizzle's, with the server's as cause": (kit) =>
    withDb(kit, async (db) => {
      const error = wrapped(await failure(db.insert(users).values({ name: "Ada" })));
      equal([codeOf(error), error.params.includes("Ada")], ["23505", true]);
    }),

  "a transaction commits, or rolls back and rejects with what was thrown": (kit) =>
    withDb(kit, async (db) => {
      const config = { isolationLevel: "serializable", accessMode: "read write" } as const;
      const id = await db.transaction(async (tx) => {
        const [row] = await tx.insert(users).values({ name: "Eve" }).returning({ id: users.id });
        const { rows } = await tx.execute(sql`select current_setting('transaction_isolation') as level`);
        equal(rows, [{ level: "serializable" }]);
        return row!.id;
      }, config);
      equal(id, 3);
      const thrown = new Error("no");
      const work = db.transaction(async (tx) => {
        await tx.delete(posts);
        throw thrown;
      });
      assert((await failure(work)) === thrown);
      const rolledBack = await failure(db.transaction(async (tx) => tx.rollback()));
      assert(rolledBack instanceof TransactionRollbackError, String(rolledBack));
      const readOnly = db.transaction((tx) => tx.delete(posts), { accessMode: "read only" });
      equal(codeOf(await failure(readOnly)), "25006");
      equal([await db.$count(posts), await db.$count(users)], [3, 3]);
    }),

  "a transaction has relations, prepared statements, counts, and settings of its own": (kit) =>
    withDb(kit, async (db) => {
      await db.transaction(async (tx) => {
        await tx.setTransaction({ isolationLevel: "repeatable read", accessMode: "read only", deferrable: true });
        const { rows } = await tx.execute(sql`select current_setting('transaction_read_only') as r`);
        equal(rows, [{ r: "on" }]);
        const ada = await tx.query.users.findFirst({ with: { posts: true }, where: eq(users.id, 1) });
        equal([ada?.posts.length, await tx.$count(posts, gt(posts.id, 1))], [2, 2]);
        const one = tx
          .select({ id: posts.id })
          .from(posts)
          .where(eq(posts.id, sql.placeholder("id")))
          .prepare("one");
        equal(await one.execute({ id: 2 }), [{ id: 2 }]);
      });
    }),

  "an error is of the statement that failed: a savepoint's, its release, COMMIT, or none": (kit) =>
    withDb(kit, async (db, name) => {
      const savepoint = db.transaction(async (tx) => {
        await failure(tx.execute(sql`select 1 / 0`));
        await tx.transaction((deeper) => deeper.select().from(users));
      });
      const error = wrapped(await failure(savepoint));
      equal([error.query, codeOf(error)], ["savepoint", "25P02"]);
      const release = db.transaction((tx) =>
        tx.transaction(async (deeper) => void (await failure(deeper.execute(sql`select 1 / 0`)))),
      );
      const released = wrapped(await failure(release));
      equal([released.query, codeOf(released)], ["release savepoint", "25P02"]);
      const swallowed = db.transaction(async (tx) => void (await failure(tx.execute(sql`select 1 / 0`))));
      equal(((await failure(swallowed)) as { code?: string }).code, "TRANSACTION_ROLLED_BACK");
      // There is no statement to name where nobody could log in.
      const nobody = kit.adapter.drizzle(
        kit.driver.createPool(kit.url, { startup: { search_path: name }, database: `no_${name}` }),
      );
      try {
        const refused = await failure(nobody.transaction((tx) => tx.execute(sql`select 1`)));
        assert(!(refused instanceof DrizzleQueryError), String(refused));
        equal((refused as { code?: string }).code, "3D000");
        equal(codeOf(wrapped(await failure(nobody.execute(sql`select 1`)))), "3D000");
      } finally {
        await nobody.$client.close();
      }
    }),

  "a conflict is recognised inside an application's own error": (kit) =>
    withDb(kit, async (db) => {
      let runs = 0;
      const work = db.transaction(
        async (tx) => {
          await tx.select().from(users);
          if (runs++ === 0) await db.update(users).set({ active: false }).where(eq(users.id, 1));
          await tx
            .update(users)
            .set({ name: "Ada L." })
            .where(eq(users.id, 1))
            .catch((cause: unknown) => {
              throw new Error("could not rename", { cause });
            });
        },
        { isolationLevel: "repeatable read", retry: 2 },
      );
      await work;
      equal(runs, 2);
    }),

  "options of a transaction inside the driver's own are refused": (kit) =>
    withDb(kit, async (db) => {
      await db.$client.transaction(async (transaction) => {
        const inner = kit.adapter.drizzle(transaction, { schema });
        equal(await inner.transaction((tx) => tx.$count(users)), 2);
        const refused = failure(inner.transaction((tx) => tx.$count(users), { isolationLevel: "serializable" }));
        equal(((await refused) as { code?: string }).code, "INVALID_OPTION");
        equal(await inner.$count(users), 2);
      });
    }),

  "nested transactions are savepoints": (kit) =>
    withDb(kit, async (db) => {
      await db.transaction(async (tx) => {
        await tx.insert(users).values({ name: "Eve" });
        const inner = await failure(
          tx.transaction(async (deeper) => {
            await deeper.insert(users).values({ name: "Fay" });
            await deeper.insert(users).values({ name: "Fay" });
          }),
        );
        equal(codeOf(inner), "23505");
        await tx.transaction((deeper) => deeper.insert(users).values({ name: "Gil" }));
      });
      const names = await db.select({ name: users.name }).from(users).where(gt(users.id, 2)).orderBy(users.id);
      equal(names, [{ name: "Eve" }, { name: "Gil" }]);
    }),

  "a transaction is retried after a conflict, with Drizzle's errors in between": (kit) =>
    withDb(kit, async (db) => {
      let runs = 0;
      const isolationLevel = "repeatable read" as const;
      await db.transaction(
        async (tx) => {
          await tx.select().from(users);
          if (runs++ === 0) await db.update(users).set({ active: false }).where(eq(users.id, 1));
          await tx.update(users).set({ name: "Ada L." }).where(eq(users.id, 1));
        },
        { isolationLevel, retry: true },
      );
      equal(runs, 2);
      equal(await db.select({ name: users.name }).from(users).where(eq(users.id, 1)), [{ name: "Ada L." }]);
      const conflict = db.transaction(
        async (tx) => {
          await tx.select().from(users);
          await db.update(users).set({ active: true }).where(eq(users.id, 1));
          await tx.update(users).set({ name: "Ada" }).where(eq(users.id, 1));
        },
        { isolationLevel },
      );
      const error = wrapped(await failure(conflict));
      equal(codeOf(error), "40001");
    }),

  "an error of COMMIT is Drizzle's too": (kit) =>
    withDb(kit, async (db) => {
      await db.execute("alter table posts alter constraint posts_author_id_fkey deferrable initially deferred");
      const error = wrapped(
        await failure(db.transaction((tx) => tx.insert(posts).values({ authorId: 77, title: "x" }))),
      );
      equal([error.query, codeOf(error)], ["commit", "23503"]);
    }),

  "batch: all results in one call of the driver, and all or none": async (kit) => {
    const kinds: string[] = [];
    const observer = { onQueryStart: ({ kind }: { kind: string }) => void kinds.push(kind) };
    const work = async (db: Db) => {
      kinds.length = 0;
      const [inserted, changed, found, raw, first] = await db.batch([
        db.insert(users).values({ name: "Eve" }).returning(),
        db.update(users).set({ active: true }).where(eq(users.id, 2)),
        db.select({ name: users.name, at: users.joinedAt }).from(users).orderBy(users.id),
        db.execute<{ n: number }>(sql`select ${7}::int4 as n`),
        db.query.users.findFirst({ with: { posts: true }, where: eq(users.id, 1) }),
      ]);
      equal(kinds, ["batch"]);
      equal([inserted[0]?.name, changed.rowCount, raw.rows], ["Eve", 1, [{ n: 7 }]]);
      equal(found[2], { name: "Eve", at: new Date(0) });
      equal(first?.posts.length, 2);
      const error = wrapped(
        await failure(db.batch([db.delete(posts), db.insert(users).values({ name: "Ada" }), db.select().from(users)])),
      );
      equal([codeOf(error), error.query.startsWith("insert"), await db.$count(posts)], ["23505", true, 3]);
      await db.transaction(async (tx) => {
        const [counted] = await tx.batch([tx.select({ id: users.id }).from(users), tx.delete(posts)]);
        equal(counted.length, 3);
      });
      equal(await db.$count(posts), 0);
    };
    await withDb(kit, work, observer);
  },

  "batch: an error of its COMMIT is no statement's": (kit) =>
    withDb(kit, async (db) => {
      await db.execute("alter table posts alter constraint posts_author_id_fkey deferrable initially deferred");
      const failing = db.batch([db.insert(posts).values({ authorId: 77, title: "x" }), db.select().from(users)]);
      const error = wrapped(await failure(failing));
      equal([error.query, codeOf(error), await db.$count(posts)], ["commit", "23503", 3]);
    }),

  "a cache is asked, and told of every write": (kit) =>
    withDb(kit, async (plain) => {
      const kept = new Map<string, unknown>();
      const told: unknown[] = [];
      class Memory extends Cache {
        override strategy(): "all" {
          return "all";
        }
        // As a cache elsewhere has it: without our classes.
        override get(key: string): Promise<unknown[] | undefined> {
          const found = kept.get(key) as string | undefined;
          return Promise.resolve(found === undefined ? undefined : (JSON.parse(found) as unknown[]));
        }
        override put(key: string, response: unknown): Promise<void> {
          kept.set(key, JSON.stringify(response));
          return Promise.resolve();
        }
        override onMutate({ tables }: MutationOption): Promise<void> {
          told.push(tables);
          kept.clear();
          return Promise.resolve();
        }
      }
      const db = kit.adapter.drizzle(plain.$client, { schema, cache: new Memory() });
      const ask = () => db.select().from(users).where(eq(users.id, 1));
      const [first] = await ask();
      await plain.update(users).set({ name: "other" }).where(eq(users.id, 1));
      equal([await ask(), kept.size], [[first], 1]);
      equal(first?.joinedAt, new Date(0));
      await db.update(users).set({ name: "Ada" }).where(eq(users.id, 1));
      for await (const { id } of db.iterator(db.insert(posts).values({ title: "x" }).returning())) equal(id, 4);
      await db.batch([db.delete(posts).where(eq(posts.id, 4)), db.select().from(users)]);
      equal(told, [["users"], ["posts"], ["posts"]]);
    }),

  "iterator: rows one by one, decoded; leaving the loop frees the connection": (kit) =>
    withDb(kit, async (db) => {
      await db.execute(sql`insert into users (name) select 'u' || i from generate_series(1, 5000) i`);
      let count = 0;
      for await (const user of db.iterator(db.select().from(users).orderBy(users.id))) {
        if (count++ === 0) equal([user.name, user.joinedAt, user.data], ["Ada", new Date(0), { tags: ["x"] }]);
      }
      equal(count, 5002);
      const after = db
        .select({ id: users.id })
        .from(users)
        .where(and(gt(users.id, sql.placeholder("id")), eq(users.active, true)))
        .orderBy(users.id)
        .prepare("after");
      for (let round = 0; round < 5; round++)
        for await (const { id } of db.iterator(after, { id: 10 })) {
          equal(id, 11);
          break;
        }
      const found: string[] = [];
      for await (const user of db.iterator(db.query.users.findMany({ with: { posts: true }, limit: 2 })))
        found.push(`${user.name} ${user.posts.length}`);
      equal(found.sort(), ["Ada 2", "Bob 0"]);
      const raw: unknown[] = [];
      for await (const row of db.iterator(db.execute(sql`select 1 as a union all select 2 order by 1`))) raw.push(row);
      equal(raw, [{ a: 1 }, { a: 2 }]);
      const failing = async () => {
        for await (const _ of db.iterator(db.execute(sql`select 1 / (2 - i) from generate_series(1, 2) i`)));
      };
      equal(codeOf(await failure(failing())), "22012");
      await db.transaction(async (tx) => {
        const ids: number[] = [];
        for await (const { id } of tx.iterator(tx.select({ id: users.id }).from(users).limit(3))) ids.push(id);
        equal(ids.length, 3);
      });
    }),

  "a scope of the driver is a database with settings of its own": (kit) =>
    withDb(kit, async (db) => {
      const tenant = kit.adapter.drizzle(db.$client.scope({ settings: { "app.tenant": "7" } }), { schema });
      const asked = sql`select current_setting('app.tenant', true) as tenant`;
      equal((await tenant.execute(asked)).rows, [{ tenant: "7" }]);
      equal(await tenant.transaction(async (tx) => (await tx.execute(asked)).rows), [{ tenant: "7" }]);
      equal(await tenant.select({ id: users.id }).from(users).limit(1), [{ id: 1 }]);
      // The semicolons are in quotes and comments.
      const quoted = sql.raw(`select 'a; b' as "c; d", $x$; e$x$ as f -- ; g
        /* ; h */`);
      equal((await tenant.execute(quoted)).rows, [{ "c; d": "a; b", f: "; e" }]);
    }),

  "the client's own settings do not change Drizzle's values": async ({ adapter, driver, url }) => {
    const options = { int8: "number", dates: "date", numeric: "number", duplicates: "error" } as const;
    await using client = await driver.connect(url, { ...options, columnNames: "camelCase" });
    const db = adapter.drizzle({ client });
    const { rows } = await db.execute(sql`select 9007199254740993::int8 as a, 1.50 as n, date '2024-02-29' as a_day`);
    equal(rows, [{ a: "9007199254740993", n: "1.50", a_day: "2024-02-29" }]);
  },

  "the client's own parsers do, and columns take what they give": async ({ adapter, driver, url }) => {
    const types = {
      timestamptz: (text: string) => new Date(text),
      timestamp: (text: string) => new Date(`${text}Z`),
      date: (text: string) => new Date(text),
      int8: BigInt,
      numeric: Number,
      text: (text: string) => text.toUpperCase(),
    } as unknown as Record<string, (value: unknown) => unknown>;
    await using client = await driver.connect(url, { types: types as never });
    const db = adapter.drizzle(client);
    const table = pgTable("parsed", {
      zoned: timestamp({ withTimezone: true }),
      stamp: timestamp(),
      stampText: timestamp("stamp_text", { mode: "string" }),
      day: date({ mode: "date" }),
      big: bigint({ mode: "bigint" }),
      number: bigint({ mode: "number" }),
      exact: numeric(),
      name: text(),
    });
    await client.simple(`create temp table parsed (zoned timestamptz, stamp timestamp, stamp_text timestamp, day date,
      big int8, number int8, exact numeric, name text);
      insert into parsed values ('2024-02-29 12:00+00', '2024-02-29 12:00', '2024-02-29 12:00', '2024-02-29', 7, 8, 1.5,
      'ada')`);
    equal(await db.select().from(table), [
      {
        zoned: new Date("2024-02-29T12:00:00Z"),
        stamp: new Date("2024-02-29T12:00:00Z"),
        stampText: "2024-02-29 12:00:00.000",
        day: new Date("2024-02-29T00:00:00Z"),
        big: 7n,
        number: 8,
        exact: "1.5",
        name: "ADA",
      },
    ]);
  },

  "a mock builds SQL and has no connection": async ({ adapter }) => {
    const db = adapter.drizzle.mock({ schema });
    equal(db.select({ id: users.id }).from(users).toSQL(), { sql: 'select "id" from "users"', params: [] });
    await failure(db.select().from(users).execute());
  },

  "casing, logger, undefined, and a connection string": async ({ adapter, url }) => {
    const logged: unknown[] = [];
    const logger = { logQuery: (text: string, params: unknown[]) => void logged.push([text, params]) };
    const db = adapter.drizzle(url, { casing: "snake_case", logger });
    try {
      const people = pgTable("people", { firstName: text(), lastSeen: timestamp() });
      const asked = db.select().from(people).where(eq(people.firstName, "Ada"));
      equal(asked.toSQL().sql, `select "first_name", "last_seen" from "people" where "people"."first_name" = $1`);
      await db.transaction((tx) => tx.execute(sql`select ${"x"}::text`));
      equal(logged, [["select $1::text", ["x"]]]);
      const missing = db.execute(sql`select ${sql.param(undefined)}::text`);
      equal(codeOf(wrapped(await failure(missing))), "INVALID_PARAMETER");
    } finally {
      await db.$client.close();
    }
  },
};
