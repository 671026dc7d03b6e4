// The sources of a dialect: a pool or one client, its options, and its end.
import type { DatabaseConnection } from "kysely";
import { assert } from "../integration/assert.ts";
import { pause } from "../support/until.mjs";
import { equal, failure, inPlace, names, type Cases } from "./kysely-place.ts";

export const sources: Cases = {
  "with one client, queries wait for each other and for a transaction": inPlace(async (place) => {
    const client = place.client();
    const db = place.db({ client: async () => client });
    const { sql } = place.modules.kysely;
    const order: string[] = [];
    await Promise.all([
      db.transaction().execute(async (trx) => {
        await trx.insertInto("item").values({ name: "a" }).execute();
        await pause(30);
        order.push("transaction");
      }),
      names(db).then((found) => order.push(...found)),
      sql`select 1`.execute(db).then(() => order.push("query")),
    ]);
    equal(order, ["transaction", "a", "query"]);
    const kill = sql`select 1`.execute(db, {
      signal: new AbortController().signal,
      inflightQueryAbortStrategy: "kill session",
    });
    assert.match((await failure(kill)).message, /cancel query/);
    const cancelled = sql`select pg_sleep(5)`.execute(db, {
      signal: AbortSignal.timeout(20),
      inflightQueryAbortStrategy: "cancel query",
    });
    equal((await failure(cancelled)).name, "TimeoutError");
    equal(await names(db), ["a"]);
    await db.destroy();
    equal(client.stats().state, "closed");
  }),

  "unknown options are refused": inPlace(async (place) => {
    const { adapter, pgz } = place.modules;
    const refused = async (config: object, code: string) => {
      const error = await assert.code((async () => new adapter.PgzDialect(config as never))(), code);
      assert(error instanceof pgz.UsageError, String(error));
    };
    await refused({ pool: place.pool(), cursors: class {} }, "UNKNOWN_OPTION");
    await refused({}, "INVALID_OPTION");
    await refused({ pool: place.pool(), client: place.client() }, "INVALID_OPTION");
    await assert.code(
      place
        .db()
        .transaction()
        .setIsolationLevel("snapshot")
        .execute(async () => {}),
      "INVALID_OPTION",
    );
  }),

  "a single query needs no lease, and everything else takes one": inPlace(async (place) => {
    const { kysely } = place.modules;
    const pool = place.pool();
    let leases = 0;
    const counting = {
      ...{ query: pool.query.bind(pool), simple: pool.simple.bind(pool), transaction: pool.transaction.bind(pool) },
      ...{ close: () => pool.close(), acquire: (options: object) => (leases++, pool.acquire(options)) },
    };
    const db = place.db({ pool: counting });
    const leased = async (work: () => Promise<unknown>) => {
      leases = 0;
      await work();
      return leases;
    };
    const item = db.selectFrom("item").selectAll();
    equal(await leased(() => item.execute()), 0);
    equal(await leased(() => db.insertInto("item").values({ name: "a" }).execute()), 0);
    equal(await leased(() => kysely.sql`select 1`.execute(db)), 1);
    equal(await leased(() => item.execute({ signal: new AbortController().signal })), 1);
    equal(await leased(() => db.transaction().execute((trx) => trx.selectFrom("item").selectAll().execute())), 1);
    equal(await leased(() => db.connection().execute((one) => one.selectFrom("item").selectAll().execute())), 1);
    const read = async () => {
      for await (const _ of item.stream());
    };
    equal(await leased(read), 1);
    // Such a connection may run several queries: from the second query on they share a session.
    const several = (count: number) =>
      db.getExecutor().provideConnection(async (connection) => {
        for (let query = 0; query < count; query++) await connection.executeQuery(item.compile());
      });
    equal([await leased(() => several(1)), await leased(() => several(2)), await leased(() => several(4))], [0, 1, 1]);
    equal(pool.stats().acquired, 0);
    // Kysely's log shows how long a query took, without the wait for a connection.
    const logged = place.db({ pool: counting }, { log: () => {} });
    await logged.selectFrom("item").selectAll().execute();
    equal(await leased(() => logged.selectFrom("item").selectAll().execute()), 1);
  }),

  "several queries on one connection share a session": inPlace(async (place) => {
    const db = place.db();
    const { kysely } = place.modules;
    const { sql } = kysely;
    const settings = () => db.selectNoFrom(sql<string>`current_setting('app.tenant', true)`.as("tenant"));
    await db.connection().execute(async (one) => {
      const pid = () => one.selectNoFrom(sql<number>`pg_backend_pid()`.as("pid")).executeTakeFirstOrThrow();
      const first = await pid();
      const others = [1, 2].map(() => sql`select pg_sleep(0.1)`.execute(db)); // they take the idle connections
      equal(await pid(), first);
      await Promise.all(others);
    });
    // Kysely's executor, and drivers around this one, ask for a connection without a purpose.
    const seen = await db.getExecutor().provideConnection(async (one) => {
      await one.executeQuery(kysely.CompiledQuery.raw("set app.tenant = 'seven'"));
      const { rows } = await one.executeQuery(settings().compile());
      return rows;
    });
    equal(seen, [{ tenant: "seven" }]);
    equal((await settings().executeTakeFirst())?.tenant || "", "");
    const set = db.selectNoFrom(sql`set_config('app.tenant', 'eight', false)`.as("set")).compile();
    const kept = async (one: DatabaseConnection) => {
      await one.executeQuery(set);
      return (await one.executeQuery(settings().compile())).rows;
    };
    equal(await db.getExecutor().provideConnection(kept, {}), [{ tenant: "eight" }]);
  }),

  "options of PostgresDialect are refused with advice": inPlace(async (place) => {
    const { adapter } = place.modules;
    for (const [option, advice] of [
      ["cursor", /streams need none/],
      ["controlClient", /an abort needs no connection/],
      ["onCreateConnection", /afterConnect/],
      ["onReserveConnection", /beforeAcquire/],
    ] as const) {
      const config = { pool: place.pool(), [option]: () => {} } as never;
      assert.match((await failure((async () => new adapter.PgzDialect(config))())).message, advice);
    }
  }),

  "a source that is not our pool or client is refused": inPlace(async (place) => {
    const { adapter, kysely } = place.modules;
    const poolOfPg = { connect() {}, query() {}, end() {}, options: {} };
    const wrong: [object, RegExp][] = [
      [{ pool: poolOfPg }, /createPool.*PostgresDialect/],
      [{ pool: place.client() }, /createPool/],
      [{ client: place.pool() }, /createClient/],
      [{ client: poolOfPg }, /createClient/],
    ];
    for (const [config, message] of wrong) {
      const [[name, source]] = Object.entries(config) as [[string, object]];
      const error = await failure((async () => new adapter.PgzDialect(config as never))());
      equal(error.code, "INVALID_OPTION");
      assert.match(error.message, message);
      const dialect = new adapter.PgzDialect({ [name]: () => source } as never);
      const db = new kysely.Kysely({ dialect });
      const later = await failure(kysely.sql`select 1`.execute(db));
      equal(later.code, "INVALID_OPTION");
      assert.match(later.message, message);
    }
  }),

  "destroy ends the pool": inPlace(async (place) => {
    const pool = place.pool();
    const db = place.db({ pool: () => pool });
    equal(await names(db), []);
    await db.destroy();
    equal(pool.stats().state, "closed");
    assert.match((await failure(names(db))).message, /destroyed/);
    const unused = place.pool();
    await place.db({ pool: unused }).destroy();
    equal(unused.stats().state, "open");
  }),
};
