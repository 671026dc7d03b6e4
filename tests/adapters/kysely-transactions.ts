// Transactions over pgz-edge/kysely: BEGIN, COMMIT, ROLLBACK and savepoints, as Kysely asks for them.
import type { LogEvent } from "kysely";
import { assert } from "../integration/assert.ts";
import { pause } from "../support/until.mjs";
import { equal, failure, inPlace, names, type Cases, type Db } from "./kysely-place.ts";

export const transactions: Cases = {
  "transactions have their isolation level and access mode": inPlace(async (place) => {
    const db = place.db();
    const { sql } = place.modules.kysely;
    const settings = (trx: Db) =>
      sql`select current_setting('transaction_isolation') as level, current_setting('transaction_read_only') as ro`
        .execute(trx)
        .then(({ rows }) => rows[0]);
    const serializable = db.transaction().setIsolationLevel("serializable").setAccessMode("read only");
    equal(await serializable.execute(settings), { level: "serializable", ro: "on" });
    equal(await db.transaction().execute(settings), { level: "read committed", ro: "off" });
    await db.transaction().execute((trx) => trx.insertInto("item").values({ name: "kept" }).execute());
    const undo = new Error("undo");
    const undone = db.transaction().execute(async (trx) => {
      await trx.insertInto("item").values({ name: "undone" }).execute();
      throw undo;
    });
    equal(await failure(undone), undo);
    await assert.code(
      db
        .transaction()
        .setAccessMode("read only")
        .execute((trx) => trx.insertInto("item").values({ name: "refused" }).execute()),
      "25006",
    );
    equal(await names(db), ["kept"]);
  }),

  "a controlled transaction has savepoints": inPlace(async (place) => {
    const db = place.db();
    const trx = await db.startTransaction().execute();
    await trx.insertInto("item").values({ name: "first" }).execute();
    const inner = await trx.savepoint('a"b').execute();
    await assert.code(inner.insertInto("item").values({ name: "first" }).execute(), "23505");
    await inner.rollbackToSavepoint('a"b').execute();
    const again = await trx.savepoint("second").execute();
    await again.insertInto("item").values({ name: "second" }).execute();
    await again.releaseSavepoint("second").execute();
    // The server would cut the name to that of another savepoint.
    await assert.code(again.savepoint("s".repeat(64)).execute(), "INVALID_QUERY");
    equal(await names(db), []);
    await trx.commit().execute();
    equal(await names(db), ["first", "second"]);
    const undone = await db.startTransaction().setIsolationLevel("repeatable read").execute();
    await undone.deleteFrom("item").execute();
    await undone.rollback().execute();
    equal(await names(db), ["first", "second"]);
  }),

  "a COMMIT that rolls back is an error": inPlace(async (place) => {
    const pool = place.pool({ max: 1 });
    const db = place.db({ pool });
    const { kysely, pgz } = place.modules;
    const error = await failure(
      db.transaction().execute(async (trx) => {
        await trx.insertInto("item").values({ name: "a" }).execute();
        await trx
          .insertInto("item")
          .values({ name: "a" })
          .execute()
          .catch(() => {});
      }),
    );
    assert(error instanceof kysely.AbortedTransactionError, String(error));
    assert(kysely.isAbortedTransactionError(error));
    assert(error.cause instanceof pgz.PgzError);
    equal((error.cause as { code?: string }).code, "TRANSACTION_ROLLED_BACK");
    equal(await names(db), []);
    equal(pool.stats().connects, 1);
  }),

  "an error of COMMIT itself is the driver's": inPlace(async (place) => {
    const db = place.db();
    const { kysely, pgz } = place.modules;
    const { sql } = kysely;
    await sql`create table later (id int4 unique deferrable initially deferred)`.execute(db);
    const error = await failure(db.transaction().execute((trx) => sql`insert into later values (1), (1)`.execute(trx)));
    assert(error instanceof pgz.PostgresError && error.isUniqueViolation, String(error));
    equal((await sql`select * from later`.execute(db)).rows, []);
  }),

  "BEGIN costs no round trip, and the log shows it": inPlace(async (place) => {
    const client = place.client();
    const logged: string[] = [];
    const log = (event: LogEvent) => void logged.push(`${event.level}: ${event.query.sql}`);
    const db = place.db({ client }, { log });
    const add = (name: string) => db.transaction().execute((trx) => trx.insertInto("item").values({ name }).execute());
    await add("a");
    await add("b");
    const before = client.stats().flights;
    await add("c");
    equal(client.stats().flights - before, 2);
    equal(logged.slice(-3), ["query: begin", 'query: insert into "item" ("name") values ($1)', "query: commit"]);
    await failure(add("c"));
    equal(logged.slice(-2), ['error: insert into "item" ("name") values ($1)', "query: rollback"]);
  }),

  "a transaction's time is that of its first statement": inPlace(async (place) => {
    const db = place.db();
    const { sql } = place.modules.kysely;
    const before = await sql<{ at: Date }>`select clock_timestamp() as at`.execute(db);
    await db.transaction().execute(async (trx) => {
      await pause(200);
      const { rows } = await sql<{ at: Date }>`select now() as at`.execute(trx);
      assert(rows[0]!.at.getTime() - before.rows[0]!.at.getTime() >= 190, "BEGIN has left at once");
    });
  }),

  "BEGIN and COMMIT can be written by hand on one connection": inPlace(async (place) => {
    const db = place.db();
    const { sql } = place.modules.kysely;
    await db.connection().execute(async (one) => {
      await sql`begin`.execute(one);
      await one.insertInto("item").values({ name: "kept" }).execute();
      equal((await sql`commit`.execute(one)).rows, [{ command: "COMMIT" }]);
      await sql`begin`.execute(one);
      await one.insertInto("item").values({ name: "undone" }).execute();
      await assert.code(sql`select 1 / 0`.execute(one), "22012");
      equal((await sql`commit`.execute(one)).rows, [{ command: "ROLLBACK" }]);
      await sql`begin`.execute(one);
      await one.insertInto("item").values({ name: "left" }).execute();
      // There are so many rows that the cancel arrives before the last: reading the rest makes room for the error.
      for await (const _ of one.selectNoFrom(sql`generate_series(1, 2000000000)`.as("n")).stream(10)) break;
      await assert.code(sql`select 1`.execute(one), "25P02");
    });
    equal(await names(db), ["kept"]);
  }),

  "a query by itself that begins or ends a transaction is refused, as by the pool": inPlace(async (place) => {
    const pool = place.pool();
    const { sql, CompiledQuery } = place.modules.kysely;
    for (const db of [place.db({ pool }), place.db({ pool }, { log: () => {} })]) {
      await assert.code(sql`begin`.execute(db), "TRANSACTION_OPEN");
      await assert.code(sql`begin; insert into item (name) values ('lost')`.execute(db), "TRANSACTION_OPEN");
      await assert.code(sql`commit`.execute(db), "TRANSACTION_FINISHED");
      await assert.code(sql`rollback`.execute(db), "TRANSACTION_FINISHED");
      await assert.code(sql`begin; select 1 / 0`.execute(db), "22012");
      equal(await names(db), []);
      await sql`begin; insert into item (name) values ('kept'); commit`.execute(db);
      await sql`truncate item`.execute(db);
      // Code that acquires a connection itself may go on in its transaction.
      await db.getExecutor().provideConnection(async (one) => {
        await one.executeQuery(CompiledQuery.raw("begin"));
        await one.executeQuery(CompiledQuery.raw("insert into item (name) values ('kept')"));
        await one.executeQuery(CompiledQuery.raw("commit"));
      });
      equal(await names(db), ["kept"]);
      await sql`delete from item`.execute(db);
    }
    equal(pool.stats().acquired, 0);
    const alone = place.db({ client: place.client() });
    await sql`begin`.execute(alone);
    equal((await sql`rollback`.execute(alone)).rows, [{ command: "ROLLBACK" }]);
  }),

  "many transactions run in parallel": inPlace(async (place) => {
    const db = place.db({ pool: place.pool({ max: 4 }) });
    const settled = await Promise.allSettled(
      Array.from({ length: 40 }, (_, index) =>
        db.transaction().execute(async (trx) => {
          await trx
            .insertInto("item")
            .values({ name: String(index).padStart(2, "0") })
            .execute();
          if (index % 2) throw new Error("undo");
        }),
      ),
    );
    equal(settled.filter(({ status }) => status === "rejected").length, 20);
    equal((await names(db)).length, 20);
  }),
};
