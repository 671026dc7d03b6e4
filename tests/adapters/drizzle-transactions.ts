// Transactions with Drizzle: savepoints, conflicts, and the statement to which an error belongs.
import { assert } from "../integration/assert.ts";
import { codeOf, failure, type Cases, type World } from "./drizzle-world.ts";

const equal = assert.deepEqual;

export const transactions = ({
  users,
  posts,
  options,
  inDb,
  wrapped,
  withId,
  orm: { eq, gt, sql, DrizzleQueryError, TransactionRollbackError },
}: World): Cases => ({
  "a transaction commits, or rolls back and rejects with the thrown error": inDb(async (db) => {
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

  "a transaction has relations, prepared statements, counts and its own settings": inDb(async (db) => {
    await db.transaction(async (tx) => {
      await tx.setTransaction({ isolationLevel: "repeatable read", accessMode: "read only", deferrable: true });
      const { rows } = await tx.execute(sql`select current_setting('transaction_read_only') as r`);
      equal(rows, [{ r: "on" }]);
      const ada = await tx.query.users.findFirst({ with: { posts: true }, where: withId(users.id, 1) });
      equal([ada?.posts.length, await tx.$count(posts, gt(posts.id, 1))], [2, 2]);
      const one = tx
        .select({ id: posts.id })
        .from(posts)
        .where(eq(posts.id, sql.placeholder("id")))
        .prepare("one");
      equal(await one.execute({ id: 2 }), [{ id: 2 }]);
    });
  }),

  "an error belongs to the statement that failed: a savepoint, its release, COMMIT, or none": inDb(
    async (db, kit, name) => {
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
      // Without a login there is no statement to name.
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
    },
  ),

  "transaction options inside the driver's own transaction are refused": inDb(async (db, kit) => {
    await db.$client.transaction(async (transaction) => {
      const inner = kit.adapter.drizzle(transaction, options);
      equal(await inner.transaction((tx) => tx.$count(users)), 2);
      const refused = failure(inner.transaction((tx) => tx.$count(users), { isolationLevel: "serializable" }));
      equal(((await refused) as { code?: string }).code, "INVALID_OPTION");
      equal(await inner.$count(users), 2);
    });
  }),

  "nested transactions are savepoints": inDb(async (db) => {
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

  "a transaction is retried after a conflict, with Drizzle's or the application's own error in between": inDb(
    async (db) => {
      let runs = 0;
      const rename = (name: string, own: boolean, options: { retry?: boolean | number }) => {
        runs = 0;
        return db.transaction(
          async (tx) => {
            await tx.select().from(users);
            if (runs++ === 0) await db.update(users).set({ active: false }).where(eq(users.id, 1));
            await tx
              .update(users)
              .set({ name })
              .where(eq(users.id, 1))
              .catch((cause: unknown) => {
                throw own ? new Error("could not rename", { cause }) : cause;
              });
          },
          { isolationLevel: "repeatable read", ...options },
        );
      };
      for (const [name, own, retry] of [
        ["Ada L.", false, true],
        ["Ada K.", true, 2],
      ] as const) {
        await rename(name, own, { retry });
        equal(runs, 2);
        equal(await db.select({ name: users.name }).from(users).where(eq(users.id, 1)), [{ name }]);
      }
      equal(codeOf(wrapped(await failure(rename("Ada", false, {})))), "40001");
    },
  ),

  "an error of COMMIT is Drizzle's too": inDb(async (db) => {
    await db.execute("alter table posts alter constraint posts_author_id_fkey deferrable initially deferred");
    const error = wrapped(await failure(db.transaction((tx) => tx.insert(posts).values({ authorId: 77, title: "x" }))));
    equal([error.query, codeOf(error)], ["commit", "23503"]);
  }),
});
