// Signals over pgz-edge/kysely: the effect on a query, a stream, and a call that waits for a connection.
import { until } from "../support/until.mjs";
import { equal, failure, inPlace, names, running, type Cases, type Db } from "./kysely-place.ts";

export const aborts: Cases = {
  "an abort ignores the query, cancels it, or ends the session": inPlace(async (place) => {
    const pool = place.pool();
    const db = place.db({ pool });
    const { kysely } = place.modules;
    const reason = new Error("the user has left");
    const aborted = async (name: string, seconds: number, options: object, on: Db = db) => {
      const controller = new AbortController();
      const slow = kysely.sql`with delayed as (select pg_sleep(${seconds}))
        insert into item (name) select ${name} from delayed`;
      const work = slow.execute(on, { signal: controller.signal, ...options });
      await until(async () => (await running(place, db, "delayed", place.modules)) === 1);
      controller.abort(reason);
      equal(await failure(work), reason);
    };
    await aborted("ignored", 1, {});
    await until(async () => (await names(db)).includes("ignored"));
    await aborted("cancelled", 30, { inflightQueryAbortStrategy: "cancel query" });
    await until(async () => (await running(place, db, "delayed", place.modules)) === 0);
    await until(async () => pool.stats().acquired === 0);
    const { total } = pool.stats();
    await aborted("killed", 30, { inflightQueryAbortStrategy: "kill session" });
    await until(async () => pool.stats().total === total - 1);
    await aborted("always", 30, {}, place.db({ pool, cancelOnAbort: true }));
    await until(async () => (await running(place, db, "delayed", place.modules)) === 0);
    equal(await names(db), ["ignored"]);
  }),

  "a kill is a cancel and a close, and a statement that catches the cancel continues": inPlace(async (place) => {
    const db = place.db();
    const { sql } = place.modules.kysely;
    // A cancel is signalled twice, to the process and to its group: the second signal may come in a handler, or later.
    await sql`create function stubborn() returns void language plpgsql as $$ begin
      for run in 1..3 loop
        begin
          begin
            if run = 1 then perform pg_sleep(30); end if;
            insert into item (name) values ('went on');
            return;
          exception when query_canceled then null; end;
        exception when query_canceled then null; end;
      end loop;
    end $$`.execute(db);
    const controller = new AbortController();
    const killed = sql`select stubborn()`.execute(db, {
      signal: controller.signal,
      inflightQueryAbortStrategy: "kill session",
    });
    const asleep = sql`select 1 from pg_stat_activity
      where application_name = ${place.schema} and query = 'select stubborn()' and wait_event = 'PgSleep'`;
    await until(async () => (await asleep.execute(db)).rows.length === 1);
    const reason = new Error("the user has left");
    controller.abort(reason);
    equal(await failure(killed), reason);
    await until(async () => (await names(db)).includes("went on"));
  }),

  "an abort of a stream stops its statement": inPlace(async (place) => {
    const pool = place.pool();
    const db = place.db({ pool });
    const { sql } = place.modules.kysely;
    const controller = new AbortController();
    const reason = new Error("the user has left");
    const error = await failure(
      (async () => {
        const slow = db.selectNoFrom([
          sql`pg_sleep(0.05)`.as("s"),
          sql<number>`generate_series(1, 1000)`.as("stopped"),
          sql`repeat('x', 10000)`.as("wide"), // the server sends 8 kB at a time
        ]);
        for await (const row of slow.stream({ chunkSize: 1, signal: controller.signal }))
          if (row.stopped === 2) controller.abort(reason);
      })(),
    );
    equal(error, reason);
    await until(async () => (await running(place, db, "stopped", place.modules)) === 0);
    await until(async () => pool.stats().acquired === 0);
  }),

  "an abort ends the wait for a connection": inPlace(async (place) => {
    const pool = place.pool({ max: 1 });
    const db = place.db({ pool });
    await db.connection().execute(async () => {
      const error = await failure(
        db
          .selectFrom("item")
          .selectAll()
          .execute({ signal: AbortSignal.timeout(20) }),
      );
      equal(error.name, "TimeoutError");
      await until(async () => pool.stats().waiting === 0);
    });
    equal(await names(db), []);
  }),

  "a kill inside a transaction rolls it back": inPlace(async (place) => {
    const db = place.db();
    const { sql } = place.modules.kysely;
    const error = await failure(
      db.transaction().execute(async (trx) => {
        await trx.insertInto("item").values({ name: "a" }).execute();
        await sql`select pg_sleep(5)`.execute(trx, {
          signal: AbortSignal.timeout(20),
          inflightQueryAbortStrategy: "kill session",
        });
      }),
    );
    equal(error.name, "TimeoutError");
    equal(await names(db), []);
  }),
};
