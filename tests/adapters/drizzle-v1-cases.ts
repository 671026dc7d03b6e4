// What an application does with Drizzle 1.0, over pgz-edge/drizzle-v1: written once, run on Node, Deno, Bun and in
// workerd. What does not depend on Drizzle's version is in drizzle-cases.ts.
import { DrizzleQueryError, eq, gt, sql } from "drizzle-orm-v1";
import { Cache, type MutationOption } from "drizzle-orm-v1/cache/core";
import {
  boolean,
  date,
  integer,
  jsonb,
  numeric,
  pgTable,
  point,
  serial,
  text,
  timestamp,
} from "drizzle-orm-v1/pg-core";
import { defineRelations } from "drizzle-orm-v1/relations";
import { inputCases } from "./drizzle-input-cases.ts";
import { assert } from "../integration/assert.ts";

const equal = assert.deepEqual;

export interface Kit {
  readonly adapter: typeof import("../../js/adapters/drizzle-v1.ts");
  readonly driver: typeof import("../../js/index.ts");
  readonly url: string;
}

const users = pgTable("users", {
  id: serial().primaryKey(),
  name: text().notNull().unique(),
  active: boolean().notNull().default(true),
  joinedAt: timestamp("joined_at", { withTimezone: true }).notNull().default(new Date(0)),
  data: jsonb().$type<{ tags: string[] }>(),
});
const posts = pgTable("posts", {
  id: serial().primaryKey(),
  authorId: integer("author_id").references(() => users.id),
  title: text().notNull(),
  at: timestamp({ mode: "string" }),
});
const relations = defineRelations({ users, posts }, (r) => ({
  users: { posts: r.many.posts() },
  posts: { author: r.one.users({ from: r.posts.authorId, to: r.users.id }) },
}));

const TABLES = `create table users (id serial primary key, name text not null unique, active bool not null default true,
    joined_at timestamptz not null default 'epoch', data jsonb);
  create table posts (id serial primary key, author_id int4 references users, title text not null, at timestamp);
  insert into users (name, active, data) values ('Ada', true, '{"tags":["x"]}'), ('Bob', false, null);
  insert into posts (author_id, title, at) values (1, 'One', '2024-02-29 12:00:00.25'), (1, 'Two', null),
    (null, 'None', null)`;

const open = ({ adapter, driver, url }: Kit, name: string, observer: object) => {
  const pool = driver.createPool(url, { startup: { search_path: name }, max: 3, observer });
  return { pool, db: adapter.drizzle(pool, { relations }) };
};
type Db = ReturnType<typeof open>["db"];

/** A database with the tables, in a schema of its own. */
const withDb = async (kit: Kit, work: (db: Db) => Promise<void>, observer: object = {}) => {
  const name = `dz1_${Math.random().toString(36).slice(2)}`;
  const { pool, db } = open(kit, name, observer);
  try {
    await pool.simple(`create schema ${name}; ${TABLES}`);
    await work(db);
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
      equal((await db.delete(users).where(eq(users.id, 3))).rowCount, 1);
      equal(await db.$count(users), 2);
      const byName = db
        .select({ id: users.id })
        .from(users)
        .where(eq(users.name, sql.placeholder("name")))
        .prepare("by_name");
      equal([await byName.execute({ name: "Ada" }), await byName.execute({ name: "Bob" })], [[{ id: 1 }], [{ id: 2 }]]);
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
    }),

  "relations: findMany and findFirst with what belongs to them": (kit) =>
    withDb(kit, async (db) => {
      const found = await db.query.users.findMany({
        with: { posts: { orderBy: { id: "asc" } } },
        orderBy: { id: "asc" },
      });
      equal(
        found.map(({ name, joinedAt, posts }) => [name, joinedAt, posts.map(({ title }) => title)]),
        [
          ["Ada", new Date(0), ["One", "Two"]],
          ["Bob", new Date(0), []],
        ],
      );
      const first = await db.query.posts.findFirst({ with: { author: true }, where: { id: 1 } });
      equal([first?.title, first?.at, first?.author?.name], ["One", "2024-02-29 12:00:00.25", "Ada"]);
    }),

  "transactions: isolation, savepoints, retry, rollback": (kit) =>
    withDb(kit, async (db) => {
      let runs = 0;
      await db.transaction(
        async (tx) => {
          await tx.select().from(users);
          if (runs++ === 0) await db.update(users).set({ active: false }).where(eq(users.id, 1));
          await tx.update(users).set({ name: "Ada L." }).where(eq(users.id, 1));
          const inner = await failure(tx.transaction((deeper) => deeper.insert(users).values({ name: "Bob" })));
          assert(inner instanceof DrizzleQueryError, String(inner));
          equal(codeOf(inner), "23505");
          await tx.transaction((deeper) => deeper.insert(users).values({ name: "Gil" }));
        },
        { isolationLevel: "repeatable read", retry: true },
      );
      equal(runs, 2);
      const thrown = new Error("no");
      const work = db.transaction(async (tx) => {
        await tx.delete(posts);
        throw thrown;
      });
      assert((await failure(work)) === thrown);
      equal([await db.$count(posts), await db.$count(users, gt(users.id, 2))], [3, 1]);
    }),

  "a transaction sees the snapshot of another": (kit) =>
    withDb(kit, (db) =>
      db.transaction(
        async (tx) => {
          const { rows } = await tx.execute<{ id: string }>(sql`select pg_export_snapshot() as id`);
          await db.delete(posts);
          const config = { isolationLevel: "repeatable read", snapshot: rows[0]!.id } as const;
          equal(await db.transaction((other) => other.$count(posts), config), 3);
        },
        { isolationLevel: "repeatable read" },
      ),
    ),

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
        db.query.users.findFirst({ with: { posts: true }, where: { id: 1 } }),
      ]);
      equal(kinds, ["batch"]);
      equal([inserted[0]?.name, changed.rowCount, raw.rows], ["Eve", 1, [{ n: 7 }]]);
      equal(found[2], { name: "Eve", at: new Date(0) });
      equal(first?.posts.length, 2);
      const error = await failure(db.batch([db.delete(posts), db.insert(users).values({ name: "Ada" })]));
      assert(error instanceof DrizzleQueryError, String(error));
      equal([codeOf(error), await db.$count(posts)], ["23505", 3]);
    };
    await withDb(kit, work, observer);
  },

  "iterator: rows one by one, decoded; leaving the loop frees the connection": (kit) =>
    withDb(kit, async (db) => {
      await db.execute(sql`insert into users (name) select 'u' || i from generate_series(1, 5000) i`);
      let count = 0;
      for await (const user of db.iterator(db.select().from(users).orderBy(users.id))) {
        if (count++ === 0) equal([user.name, user.joinedAt, user.data], ["Ada", new Date(0), { tags: ["x"] }]);
      }
      equal(count, 5002);
      for (let round = 0; round < 5; round++)
        for await (const { id } of db.iterator(db.select().from(users).orderBy(users.id))) {
          equal(id, 1);
          break;
        }
      const found: string[] = [];
      for await (const user of db.iterator(db.query.users.findMany({ with: { posts: true }, limit: 2 })))
        found.push(`${user.name} ${user.posts.length}`);
      equal(found.sort(), ["Ada 2", "Bob 0"]);
      const failing = async () => {
        for await (const _ of db.iterator(db.execute(sql`select 1 / (2 - i) from generate_series(1, 2) i`)));
      };
      equal(codeOf(await failure(failing())), "22012");
    }),

  "an error is of the statement that failed: a savepoint's, its release, a batch's COMMIT": (kit) =>
    withDb(kit, async (db) => {
      const savepoint = () =>
        db.transaction(async (tx) => {
          await failure(tx.execute(sql`select 1 / 0`));
          await tx.transaction((deeper) => deeper.select().from(users));
        });
      const release = () =>
        db.transaction((tx) =>
          tx.transaction(async (deeper) => void (await failure(deeper.execute(sql`select 1 / 0`)))),
        );
      await db.execute("alter table posts alter constraint posts_author_id_fkey deferrable initially deferred");
      const commit = () => db.batch([db.insert(posts).values({ authorId: 77, title: "x" }), db.select().from(users)]);
      for (const [work, query, code] of [
        [savepoint, "savepoint", "25P02"],
        [release, "release savepoint", "25P02"],
        [commit, "commit", "23503"],
      ] as const) {
        const error = await failure(work());
        assert(error instanceof DrizzleQueryError, String(error));
        equal([(error as DrizzleQueryError).query, codeOf(error)], [query, code]);
      }
    }),

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
    const db = adapter.drizzle({ client, logger });
    await client.simple(`create temp table things (prices numeric[], days date[], place point, at timestamp[]);
      insert into things values ('{1.50,NULL}', '{2024-02-29}', '(1,2)', '{2024-02-29 12:00}')`);
    equal(await db.select().from(things), [
      { prices: ["1.50", null], days: ["2024-02-29"], place: [1, 2], at: [new Date("2024-02-29T12:00:00Z")] },
    ]);
    equal(asked, ['select "prices", "days", "place", "at" from "things"']);
  },

  "codecs of the user's own, and code that Drizzle generates": async ({ adapter, driver, url }) => {
    await using client = await driver.connect(url, { startup: { search_path: "pg_temp" } });
    await client.simple(TABLES.replaceAll("create table", "create temp table"));
    const shouted = { ...adapter.pgzCodecs, text: { normalize: (text: string) => text.toUpperCase() } };
    const own = adapter.drizzle(client, { relations, codecs: shouted as never });
    equal(await own.select({ name: users.name }).from(users).where(eq(users.id, 1)), [{ name: "ADA" }]);
    const jit = adapter.drizzle(client, { relations, jit: true });
    const found = await jit.query.users.findFirst({ with: { posts: true }, where: { id: 1 } });
    equal([found?.joinedAt, found?.posts.length], [new Date(0), 2]);
  },

  "a cache is asked, and told of every write": (kit) =>
    withDb(kit, async (plain) => {
      const kept = new Map<string, string>();
      const told: unknown[] = [];
      class Memory extends Cache {
        override strategy(): "all" {
          return "all";
        }
        // As a cache elsewhere has it: without our classes.
        override get(key: string): Promise<unknown[] | undefined> {
          const found = kept.get(key);
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
      const db = kit.adapter.drizzle(plain.$client, { relations, cache: new Memory() });
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

  "execute: rows, counts, several statements in one text, and a scope of the driver": (kit) =>
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
      const tenant = kit.adapter.drizzle(db.$client.scope({ settings: { "app.tenant": "7" } }), { relations });
      const asked = sql`select current_setting('app.tenant', true) as tenant, ';x' as semicolon`;
      equal((await tenant.execute(asked)).rows, [{ tenant: "7", semicolon: ";x" }]);
    }),

  "errors name the parameters only where Drizzle is told to": async (kit) =>
    withDb(kit, async (db) => {
      const error = await failure(db.insert(users).values({ name: "Ada" }));
      assert(error instanceof DrizzleQueryError, String(error));
      equal([codeOf(error), (error as DrizzleQueryError).params], ["23505", undefined]);
    }),
};
