// What the tests of both releases of drizzle-orm check beside their cases, each in a schema of its own: migrations, and
// the values of each column type beside those over drizzle-orm/node-postgres.
import pg from "pg";
import { expect } from "vitest";
import type { Client } from "../../js/index.ts";
import type { typesOf } from "./drizzle-types.ts";

export interface Place {
  readonly driver: typeof import("../../js/index.ts");
  readonly url: string;
}

interface Database {
  execute(query: unknown): PromiseLike<{ rows: unknown[] }>;
  select(): { from(table: unknown): PromiseLike<unknown[]> };
  insert(table: unknown): { values(rows: unknown): PromiseLike<unknown> };
}

async function inSchema(
  { driver, url }: Place,
  startup: Record<string, string>,
  work: (client: Client, schema: string) => Promise<void>,
): Promise<void> {
  const schema = `dz_${Math.random().toString(36).slice(2)}`;
  await using client = await driver.connect(url, { startup: { search_path: schema, ...startup } });
  await client.exec(`create schema ${schema}`);
  try {
    await work(client, schema);
  } finally {
    await client.exec(`drop schema ${schema} cascade`);
  }
}

export const migrationsRunOnce = (
  place: Place,
  drizzle: (client: Client) => unknown,
  migrate: (db: never, options: { migrationsFolder: string; migrationsSchema: string }) => Promise<unknown>,
  migrationsFolder: string,
) =>
  inSchema(place, {}, async (client, migrationsSchema) => {
    const db = drizzle(client) as Database;
    for (let run = 0; run < 2; run++) await migrate(db as never, { migrationsFolder, migrationsSchema });
    expect((await db.execute("select * from migrated")).rows).toEqual([{ id: 1, name: "a;b" }]);
    expect((await db.execute("select id from __drizzle_migrations")).rows).toEqual([{ id: 1 }, { id: 2 }]);
  });

export const valuesOverBoth = (
  place: Place,
  { table, fill, pairs }: ReturnType<typeof typesOf>,
  drizzle: (client: Client) => unknown,
  drizzleOverPg: (client: pg.Client) => unknown,
) =>
  inSchema(place, { TimeZone: "UTC" }, async (client, schema) => {
    const options = `-c search_path=${schema} -c TimeZone=UTC`;
    const other = new pg.Client({ connectionString: place.url, options });
    await other.connect();
    try {
      const [ours, theirs] = [drizzle(client), drizzleOverPg(other)] as [Database, Database];
      for (const statement of fill) await ours.execute(statement);
      for (const [title, ask] of Object.entries(pairs)) {
        const [mine, his] = [await ask(ours as never), await ask(theirs as never)];
        expect(his.length, title).toBeGreaterThan(1);
        expect(mine, title).toEqual(his);
      }
      // Both drivers must store what Drizzle's columns make of the values.
      const values = (await ours.select().from(table)) as { key: number }[];
      await ours.insert(table).values(values.map((row) => ({ ...row, key: row.key + 10 })));
      await theirs.insert(table).values(values.map((row) => ({ ...row, key: row.key + 20 })));
      const { rows } = await client.query<unknown[]>(
        "select t.key, to_jsonb(t) - 'key', t::text from all_types t where key > 10 order by key",
        { rowMode: "array" },
      );
      const [byOurs, byTheirs] = [10, 20].map((from) =>
        rows
          .filter(([key]) => (key as number) > from && (key as number) < from + 10)
          .map(([, json, text]) => [json, (text as string).replace(/\d+/, "")]),
      );
      expect(byOurs).toHaveLength(3);
      expect(byOurs).toEqual(byTheirs);
    } finally {
      await other.end();
    }
  });
