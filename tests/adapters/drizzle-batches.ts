// Features that Drizzle itself lacks, batches and loops; and a cache beside them.
import type { MutationOption } from "drizzle-orm/cache/core";
import { assert } from "../integration/assert.ts";
import { codeOf, failure, type Cases, type World, type Db } from "./drizzle-world.ts";

const equal = assert.deepEqual;

export const batches = ({
  users,
  posts,
  options,
  inDb,
  withDb,
  wrapped,
  withId,
  Cache,
  orm: { and, eq, gt, sql },
}: World): Cases => ({
  "a batch returns all results in one call of the driver, and runs completely or not at all": async (kit) => {
    const kinds: string[] = [];
    const observer = { onQueryStart: ({ kind }: { kind: string }) => void kinds.push(kind) };
    const work = async (db: Db) => {
      kinds.length = 0;
      const [inserted, changed, found, raw, first] = await db.batch([
        db.insert(users).values({ name: "Eve" }).returning(),
        db.update(users).set({ active: true }).where(eq(users.id, 2)),
        db.select({ name: users.name, at: users.joinedAt }).from(users).orderBy(users.id),
        db.execute<{ n: number }>(sql`select ${7}::int4 as n`),
        db.query.users.findFirst({ with: { posts: true }, where: withId(users.id, 1) }),
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

  "an error of a batch's COMMIT belongs to no statement": inDb(async (db) => {
    await db.execute("alter table posts alter constraint posts_author_id_fkey deferrable initially deferred");
    const failing = db.batch([db.insert(posts).values({ authorId: 77, title: "x" }), db.select().from(users)]);
    const error = wrapped(await failure(failing));
    equal([error.query, codeOf(error), await db.$count(posts)], ["commit", "23503", 3]);
  }),

  "a cache is asked, and is told of every write": inDb(async (plain, kit) => {
    const kept = new Map<string, unknown>();
    const told: unknown[] = [];
    class Memory extends Cache {
      override strategy(): "all" {
        return "all";
      }
      // A cache elsewhere has no access to our classes, so this one has none.
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
    const db = kit.adapter.drizzle(plain.$client, { ...options, cache: new Memory() });
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

  "iterator yields rows one by one, decoded, and leaving the loop frees the connection": inDb(async (db) => {
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
});
