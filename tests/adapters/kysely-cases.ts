// What an application does with Kysely over pgz-edge/kysely: written once, run on Node, Deno, Bun and in workerd.
//
// Each case gets Kysely, the driver, the dialect and a URL.
import type { Generated, Kysely as Database, KyselyConfig, LogEvent } from "kysely";
import type { Migration } from "kysely/migration";
import { assert } from "../integration/assert.ts";

const equal = assert.deepEqual;

/** The modules as the runtime has them. */
export interface Modules {
  readonly kysely: typeof import("kysely");
  readonly migration: Pick<typeof import("kysely/migration"), "Migrator">;
  readonly pgz: typeof import("../../js/index.ts");
  readonly adapter: typeof import("../../js/adapters/kysely.ts");
}

interface Tables {
  item: { id: Generated<number>; name: string; amount: number | null };
}

type Db = Database<Tables>;

/** Everything that a case uses, in a schema of its own, with a table `item`. */
class Place {
  readonly schema = `kysely_${Math.random().toString(36).slice(2, 12)}`;
  readonly modules: Modules;
  readonly #url: string;
  readonly #ends: (() => Promise<unknown>)[] = [];

  constructor(modules: Modules, url: string) {
    this.modules = modules;
    this.#url = url;
  }

  get #options() {
    return { applicationName: this.schema, startup: { search_path: this.schema } };
  }

  pool(options: object = {}) {
    const pool = this.modules.pgz.createPool(this.#url, { ...this.#options, ...options });
    this.#ends.push(() => pool.close());
    return pool;
  }

  client(options: object = {}) {
    const client = this.modules.pgz.createClient(this.#url, { ...this.#options, ...options });
    this.#ends.push(() => client.close());
    return client;
  }

  db(
    config: Partial<import("../../js/adapters/kysely.ts").PgzDialectConfig> = {},
    options: Partial<KyselyConfig> = {},
  ) {
    const { kysely, adapter } = this.modules;
    const source = config.client || config.pool ? {} : { pool: this.pool() };
    const dialect = new adapter.PgzDialect({ ...source, ...config } as never);
    const db = new kysely.Kysely<Tables>({ dialect, ...options });
    this.#ends.push(() => db.destroy());
    return db;
  }

  async end(): Promise<void> {
    for (const end of this.#ends.reverse()) await end();
  }
}

const inPlace = (work: (place: Place) => Promise<void>) => async (modules: Modules, url: string) => {
  const place = new Place(modules, url);
  const admin = place.client();
  await admin.simple(
    `create schema ${place.schema};
     create table ${place.schema}.item (id serial primary key, name text not null unique, amount int4)`,
  );
  try {
    await work(place);
  } finally {
    await admin.exec(`drop schema ${place.schema} cascade`);
    await place.end();
  }
};

/** What a promise rejects with. */
const failure = (work: Promise<unknown>): Promise<Error & Record<string, unknown>> => assert.rejects(work);

const names = async (db: Db) =>
  (await db.selectFrom("item").select("name").orderBy("name").execute()).map(({ name }) => name);

const later = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Statements of this place's other sessions that run and have this text in them. */
async function running({ schema }: Place, db: Db, text: string, { kysely }: Modules): Promise<number> {
  const { rows } = await kysely.sql<{ n: number }>`select count(*)::int4 as n from pg_stat_activity
    where application_name = ${schema} and state = 'active' and pid <> pg_backend_pid() and query like ${`%${text}%`}`.execute(
    db,
  );
  return rows[0]!.n;
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; !(await holds()); tries++) {
    assert(tries < 200, "it never came to hold");
    await later(20);
  }
}

export const cases: Record<string, (modules: Modules, url: string) => Promise<void>> = {
  "rows, and counts of what was changed": inPlace(async (place) => {
    const db = place.db();
    const { sql } = place.modules.kysely;
    const rows = ["a", "b", "c"].map((name, index) => ({ name, amount: index || null }));
    equal(await db.insertInto("item").values(rows).returning(["id", "name"]).execute(), [
      { id: 1, name: "a" },
      { id: 2, name: "b" },
      { id: 3, name: "c" },
    ]);
    const inserted = await db.insertInto("item").values({ name: "d" }).executeTakeFirstOrThrow();
    equal(inserted.numInsertedOrUpdatedRows, 1n);
    const updated = await db.updateTable("item").set({ amount: 7 }).where("id", "in", [1, 2]).executeTakeFirstOrThrow();
    equal(updated.numUpdatedRows, 2n);
    const merged = await db
      .mergeInto("item as target")
      .using("item as source", "source.id", "target.id")
      .whenMatched()
      .thenUpdateSet({ amount: 9 })
      .executeTakeFirstOrThrow();
    equal(merged.numChangedRows, 4n);
    const deleted = await db.deleteFrom("item").where("name", "=", "d").executeTakeFirstOrThrow();
    equal(deleted.numDeletedRows, 1n);
    equal((await sql`select 1 as one`.execute(db)).numAffectedRows, undefined);
    equal(await names(db), ["a", "b", "c"]);
  }),

  "values are those that Kysely's users of pg expect": inPlace(async (place) => {
    const db = place.db();
    const { sql } = place.modules.kysely;
    const at = new Date("2024-02-29T12:00:00.250Z");
    // The first run may read the server's text.
    for (let run = 0; run < 2; run++) {
      const { rows } =
        await sql`select ${7}::int4 as i, ${2n ** 60n}::int8 as big, 1.50::numeric as n, 0.5::float8 as f,
        true as b, ${at}::timestamptz as at, '2024-02-29 12:00:00.25'::timestamp as local, '2024-02-29'::date as day,
        ${{ a: [1, null] }}::jsonb as j, ${[1, 2]}::int4[] as list, ${["x,y", null]}::text[] as texts,
        ${new Uint8Array([0, 255])}::bytea as bytes, '03:04:05'::time as t, null::text as nothing`.execute(db);
      equal(rows, [
        {
          i: 7,
          big: "1152921504606846976",
          n: "1.50",
          f: 0.5,
          b: true,
          at,
          local: at,
          day: new Date("2024-02-29T00:00:00Z"),
          j: { a: [1, null] },
          list: [1, 2],
          texts: ["x,y", null],
          bytes: new Uint8Array([0, 255]),
          t: "03:04:05",
          nothing: null,
        },
      ]);
    }
  }),

  "options of every query": inPlace(async (place) => {
    const db = place.db({ query: { int8: "bigint", dates: "string", maxRows: 2 } });
    const { sql } = place.modules.kysely;
    const { rows } = await sql`select 5::int8 as n, '2024-02-29'::date as day`.execute(db);
    equal(rows, [{ n: 5n, day: "2024-02-29" }]);
    await assert.rejects(sql`select generate_series(1, 3)`.execute(db), { code: "RESPONSE_TOO_LARGE" });
  }),

  "a stream, which may be left": inPlace(async (place) => {
    const pool = place.pool({ max: 1 });
    const db = place.db({ pool });
    const { sql } = place.modules.kysely;
    const numbers = db.selectNoFrom(sql<number>`generate_series(1, 10000)`.as("n"));
    let sum = 0;
    for await (const { n } of numbers.stream(500)) sum += n;
    equal(sum, 50_005_000);
    for (let round = 0; round < 3; round++) for await (const { n } of numbers.stream()) if (n === 150) break;
    equal(await names(db), []);
    await assert.rejects(
      (async () => {
        for await (const _ of db.selectNoFrom(sql`1 / (3 - generate_series(1, 9))`.as("n")).stream());
      })(),
      { code: "22012" },
    );
    await until(async () => pool.stats().acquired === 0);
    equal(pool.stats().connects, 1);
  }),

  "a stream in a transaction, which goes on when it is left": inPlace(async (place) => {
    const db = place.db();
    const { sql } = place.modules.kysely;
    const seen = await db.transaction().execute(async (trx) => {
      await trx.insertInto("item").values({ name: "before" }).execute();
      const numbers = trx.selectNoFrom(sql<number>`generate_series(1, 1000)`.as("n"));
      let count = 0;
      for await (const _ of numbers.stream(64)) count++;
      for await (const { n } of numbers.stream(10)) if (n === 15) break;
      await trx.insertInto("item").values({ name: "behind" }).execute();
      return count;
    });
    equal(seen, 1000);
    equal(await names(db), ["before", "behind"]);
  }),

  "transactions with level and access mode": inPlace(async (place) => {
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
    await assert.rejects(
      db
        .transaction()
        .setAccessMode("read only")
        .execute((trx) => trx.insertInto("item").values({ name: "refused" }).execute()),
      { code: "25006" },
    );
    equal(await names(db), ["kept"]);
  }),

  "savepoints of a controlled transaction": inPlace(async (place) => {
    const db = place.db();
    const trx = await db.startTransaction().execute();
    await trx.insertInto("item").values({ name: "first" }).execute();
    const inner = await trx.savepoint('a"b').execute();
    await assert.rejects(inner.insertInto("item").values({ name: "first" }).execute(), { code: "23505" });
    await inner.rollbackToSavepoint('a"b').execute();
    const again = await trx.savepoint("second").execute();
    await again.insertInto("item").values({ name: "second" }).execute();
    await again.releaseSavepoint("second").execute();
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

  "what COMMIT itself refuses": inPlace(async (place) => {
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

  "an abort ignores the query, cancels it, or kills the session": inPlace(async (place) => {
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
        ]);
        for await (const row of slow.stream({ chunkSize: 1, signal: controller.signal }))
          if (row.stopped === 2) controller.abort(reason);
      })(),
    );
    equal(error, reason);
    await until(async () => (await running(place, db, "stopped", place.modules)) === 0);
    await until(async () => pool.stats().acquired === 0);
  }),

  "an abort ends the waiting for a connection": inPlace(async (place) => {
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

  "a kill inside of a transaction rolls it back": inPlace(async (place) => {
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

  "migrations up and down, and the introspector": inPlace(async (place) => {
    const db = place.db();
    const { kysely, migration } = place.modules;
    const migrations: Record<string, Migration> = {
      "1_table": {
        async up(migrating) {
          await migrating.schema
            .createTable("made")
            .addColumn("id", "integer", (id) => id.primaryKey())
            .execute();
        },
        down: (migrating) => migrating.schema.dropTable("made").execute(),
      },
      "2_several_statements": {
        async up(migrating) {
          await kysely.sql`alter table made add name text; create index made_name on made (name);
            comment on table made is 'a; b'`.execute(migrating);
        },
        down: (migrating) => migrating.schema.alterTable("made").dropColumn("name").execute(),
      },
    };
    const options = { provider: { getMigrations: async () => migrations }, migrationTableSchema: place.schema };
    const migrator = new migration.Migrator({ db: db as never, ...options });
    const other = new migration.Migrator({ db: place.db() as never, ...options });
    const up = await Promise.all([migrator.migrateToLatest(), other.migrateToLatest()]);
    equal(
      up.map(({ error }) => error),
      [undefined, undefined],
    );
    equal(up[0]!.results!.length + up[1]!.results!.length, 2);
    const tables = await db.introspection.getTables();
    const made = tables.find(({ name, schema }) => name === "made" && schema === place.schema);
    equal(
      made?.columns.map(({ name, dataType, isNullable }) => [name, dataType, isNullable]),
      [
        ["id", "int4", false],
        ["name", "text", true],
      ],
    );
    equal((await migrator.migrateDown()).error, undefined);
    equal((await migrator.migrateDown()).results?.[0]?.status, "Success");
    // One that fails is undone whole.
    migrations["1_table"] = {
      async up(migrating) {
        await migrating.schema.createTable("half").addColumn("id", "integer").execute();
        await kysely.sql`select 1 / 0`.execute(migrating);
      },
    };
    const failed = await migrator.migrateToLatest();
    equal((failed.error as { code?: string }).code, "22012");
    equal(
      (await db.introspection.getTables()).some(({ name, schema }) => name === "half" && schema === place.schema),
      false,
    );
  }),

  "an error is the driver's, with all that the server said": inPlace(async (place) => {
    const db = place.db();
    const { pgz } = place.modules;
    await db.insertInto("item").values({ name: "a" }).execute();
    const error = await failure(db.insertInto("item").values({ name: "a" }).execute());
    assert(error instanceof pgz.PostgresError && error.isUniqueViolation, String(error));
    const { code, table, constraint, detail, query } = error as unknown as Record<string, unknown>;
    equal([code, table, constraint, detail], ["23505", "item", "item_name_key", "Key (name)=(a) already exists."]);
    equal(query, 'insert into "item" ("name") values ($1)');
  }),

  "one client: queries wait for each other and for a transaction": inPlace(async (place) => {
    const client = place.client();
    const db = place.db({ client: async () => client });
    const { sql } = place.modules.kysely;
    const order: string[] = [];
    await Promise.all([
      db.transaction().execute(async (trx) => {
        await trx.insertInto("item").values({ name: "a" }).execute();
        await later(30);
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

  "many transactions beside each other": inPlace(async (place) => {
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

  "options that nobody knows are refused": inPlace(async (place) => {
    const { adapter, pgz } = place.modules;
    const refused = (config: object, code: string) => {
      try {
        new adapter.PgzDialect(config as never);
      } catch (error) {
        return equal([error instanceof pgz.UsageError, (error as { code?: string }).code], [true, code]);
      }
      throw new Error("it was not refused");
    };
    refused({ pool: place.pool(), cursor: class {} }, "UNKNOWN_OPTION");
    refused({}, "INVALID_OPTION");
    refused({ pool: place.pool(), client: place.client() }, "INVALID_OPTION");
    await assert.rejects(
      place
        .db()
        .transaction()
        .setIsolationLevel("snapshot")
        .execute(async () => {}),
      { code: "INVALID_OPTION" },
    );
  }),

  "destroy ends the pool": inPlace(async (place) => {
    const pool = place.pool();
    const db = place.db({ pool: () => pool });
    equal(await names(db), []);
    await db.destroy();
    equal(pool.stats().state, "closed");
    assert.match((await failure(names(db))).message, /destroyed/);
  }),
};
