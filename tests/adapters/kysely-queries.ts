// Queries over pgz-edge/kysely: rows, counts, values, errors, migrations. Each case gets a place of its own
// (kysely-place.ts).
import type { Migration, MigrationResultSet } from "kysely/migration";
import { assert } from "../integration/assert.ts";
import { withTemporal, type TemporalValue } from "../support/temporal.ts";
import { equal, failure, inPlace, names, type Cases } from "./kysely-place.ts";

export const queries: Cases = {
  "a query returns rows, and the counts of changed rows": inPlace(async (place) => {
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

  "values are those that users of Kysely with pg expect": inPlace(async (place) => {
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

  "dates are Temporal's with option dates, both ways": inPlace((place) =>
    withTemporal(async ({ Instant, PlainDate }) => {
      const { sql } = place.modules.kysely;
      const db = place.db({ query: { dates: "temporal" } });
      const at = Instant.from("2024-02-29T12:00:00.25Z");
      const { rows } = await sql<Record<string, TemporalValue>>`
        select ${at}::timestamptz as at, ${PlainDate.from("2024-02-29")}::date as day`.execute(db);
      const [row] = rows;
      equal([String(row!.at), String(row!.day)], ["2024-02-29T12:00:00.25Z", "2024-02-29"]);
      equal(row!.at![Symbol.toStringTag], "Temporal.Instant");
    }),
  ),

  "options apply to every query": inPlace(async (place) => {
    const db = place.db({ query: { int8: "bigint", dates: "string", maxRows: 2 } });
    const { sql } = place.modules.kysely;
    const { rows } = await sql`select 5::int8 as n, '2024-02-29'::date as day`.execute(db);
    equal(rows, [{ n: 5n, day: "2024-02-29" }]);
    await assert.code(sql`select generate_series(1, 3)`.execute(db), "RESPONSE_TOO_LARGE");
  }),

  "an error is the driver's, with all fields of the server": inPlace(async (place) => {
    const db = place.db();
    const { pgz } = place.modules;
    await db.insertInto("item").values({ name: "a" }).execute();
    const error = await failure(db.insertInto("item").values({ name: "a" }).execute());
    assert(error instanceof pgz.PostgresError && error.isUniqueViolation, String(error));
    const { code, table, constraint, detail, query } = error as unknown as Record<string, unknown>;
    equal([code, table, constraint, detail], ["23505", "item", "item_name_key", "Key (name)=(a) already exists."]);
    equal(query, 'insert into "item" ("name") values ($1)');
  }),

  "migrations run up and down, and the introspector works": inPlace(async (place) => {
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
    const up = await Promise.all([migrator, other].map((one) => told(() => one.migrateToLatest())));
    const both = ["1_table: Success", "2_several_statements: Success"];
    equal(up.map(({ results }) => results).flat(), both, JSON.stringify(up));
    const tables = await undisturbed(() => db.introspection.getTables());
    const made = tables.find(({ name, schema }) => name === "made" && schema === place.schema);
    equal(
      made?.columns.map(({ name, dataType, isNullable }) => [name, dataType, isNullable]),
      [
        ["id", "int4", false],
        ["name", "text", true],
      ],
    );
    for (const name of both.reverse())
      equal(await told(() => migrator.migrateDown()), { error: undefined, results: [name] });
    // A migration that fails is undone completely.
    migrations["1_table"] = {
      async up(migrating) {
        await migrating.schema.createTable("half").addColumn("id", "integer").execute();
        await kysely.sql`select 1 / 0`.execute(migrating);
      },
    };
    const failed = await told(() => migrator.migrateToLatest());
    equal(failed, {
      error: "22012: division by zero",
      results: ["1_table: Error", "2_several_statements: NotExecuted"],
    });
    const left = await undisturbed(() => db.introspection.getTables());
    equal(
      left.some(({ name, schema }) => name === "half" && schema === place.schema),
      false,
    );
  }),
};

/** Returns Kysely's report of the migrations, so that a failing comparison shows the error. */
async function told(migrate: () => Promise<MigrationResultSet>): Promise<{ error: unknown; results: unknown }> {
  const { error, results } = await undisturbed(async () => {
    const { error, results } = await migrate();
    if (!results) throw error; // no migration has begun
    return { error, results };
  });
  const { code, message } = (error ?? {}) as { code?: string; message?: string };
  return {
    error: error && `${code}: ${message}`,
    results: results.map(({ migrationName, status }) => `${migrationName}: ${status}`),
  };
}

/**
 * Kysely's introspector, with which each run of migrations begins, reads every schema of the database. Its query calls
 * functions that fail, over pg too, if another test has dropped a schema since the query's snapshot: 3F000, rarely
 * 42P01 or 42703. Then it is run again.
 */
async function undisturbed<T>(work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await work();
    } catch (error) {
      const isDropped = /^(3F000|42P01|42703)$/.test((error as { code: string }).code);
      if (!isDropped || tries === 50) throw error;
    }
  }
}
