// Cases of `pgz-edge/testing` for code that uses Drizzle, Kysely or Prisma.
import { code, equal, names, INSERT, type Case, type Item } from "./testing-world.ts";

export const libraryCases: Record<string, Case> = {
  "Drizzle: over the driver's pool, and over the facade's": async (place) => {
    const { drizzle, drizzlePg, drizzleOrm, testing } = place.modules;
    const { sql } = drizzleOrm;
    const run = async (db: ReturnType<typeof drizzle> | ReturnType<typeof drizzlePg>) => {
      const add = (to: Pick<typeof db, "execute">, name: string) =>
        to.execute(sql`insert into item (name) values (${name})`);
      await add(db, "a");
      equal(
        await add(db, "a").then(
          () => "none",
          (error: { cause: { code: string } }) => error.cause.code,
        ),
        "23505",
      );
      await db.transaction(
        async (tx) => {
          await add(tx, "b");
          await tx
            .transaction(async (nested) => {
              await add(nested, "c");
              nested.rollback();
            })
            .catch(() => {});
        },
        { isolationLevel: "serializable" },
      );
      await db
        .transaction(async (tx) => {
          await add(tx, "d");
          throw new Error("back");
        })
        .catch(() => {});
      const { rows } = (await db.execute(sql`select name from item order by id`)) as unknown as { rows: Item[] };
      equal(
        rows.map(({ name }) => name),
        ["a", "b"],
      );
    };
    await testing.withRollback(place.pool, (db) => run(drizzle(db)));
    await testing.withRollback(place.client(), (db) => run(drizzle(db) as never));
    await testing.withRollback(place.pgPool(), (db) => run(drizzlePg(db as never)));
    equal(await place.stored(), []);
  },

  "Kysely: over the driver's pool and client, and over the facade's": async (place) => {
    const { kysely, kyselyAdapter, testing } = place.modules;
    type Tables = { item: { id: import("kysely").Generated<number>; name: string } };
    const run = async (dialect: import("kysely").Dialect) => {
      const db = new kysely.Kysely<Tables>({ dialect });
      const add = (to: Pick<typeof db, "insertInto">, name: string) => to.insertInto("item").values({ name }).execute();
      await add(db, "a");
      equal(await code(add(db, "a")), "23505");
      await db.transaction().execute((tx) => add(tx, "b"));
      await db
        .transaction()
        .setIsolationLevel("serializable")
        .execute(async (tx) => {
          await add(tx, "c");
          throw new Error("back");
        })
        .catch(() => {});
      const open = await db.startTransaction().execute();
      await add(open, "d");
      const at = await open.savepoint("s").execute();
      await add(at, "e");
      await (await at.rollbackToSavepoint("s").execute()).commit().execute();
      await db.connection().execute((one) => add(one, "f"));
      await kysely.sql`insert into item (name) values ('g')`.execute(db);
      const rows = await db.selectFrom("item").select("name").orderBy("id").execute();
      equal(
        rows.map(({ name }) => name),
        ["a", "b", "d", "f", "g"],
      );
      const streamed: unknown[] = [];
      for await (const row of db.selectFrom("item").selectAll().stream(2)) streamed.push(row);
      equal(streamed.length, 5);
      await db.destroy();
    };
    const { PgzDialect } = kyselyAdapter;
    await testing.withRollback(place.pool, (pool) => run(new PgzDialect({ pool })));
    await testing.withRollback(place.client(), (client) => run(new PgzDialect({ client })));
    const cursor = ((await import("pg-cursor" as string)) as { default: unknown }).default;
    await testing.withRollback(place.pgPool(), (pool) =>
      run(new kysely.PostgresDialect({ pool: pool as never, cursor: cursor as never })),
    );
    equal(await place.stored(), []);
  },

  "Prisma's adapter: over the driver's pool": async (place) => {
    const { prisma, testing } = place.modules;
    await testing.withRollback(place.pool, async (pool) => {
      const adapter = await new prisma.PrismaPgz(pool).connect();
      const add = (to: Pick<typeof adapter, "executeRaw">, name: string) =>
        to.executeRaw({ sql: INSERT, args: [name], argTypes: [{ scalarType: "string", arity: "scalar" }] });
      await add(adapter, "a");
      const kept = await adapter.startTransaction("SERIALIZABLE");
      await add(kept, "b");
      await kept.commit();
      const undone = await adapter.startTransaction();
      await add(undone, "c");
      await undone.rollback();
      equal(await names(pool), ["a", "b"]);
    });
    equal(await place.stored(), []);
  },
};
