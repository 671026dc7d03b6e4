// The cases of drizzle-v1-cases.ts on this runtime, with what the package publishes; migrations; and the values of each
// column type beside those of drizzle-orm 1.0's own node-postgres.
import { fileURLToPath } from "node:url";
import { getTableColumns, sql } from "drizzle-orm-v1";
import { drizzle as drizzleOverPg } from "drizzle-orm-v1/node-postgres";
import * as core from "drizzle-orm-v1/pg-core";
import { defineRelations } from "drizzle-orm-v1/relations";
import pg from "pg";
import { afterAll, expect, test } from "vitest";
import { runtime, testServers } from "../integration/servers.ts";
import { cases } from "./drizzle-v1-cases.ts";
import { DrizzleProject } from "./drizzle-v1-project.ts";
import { typesOf } from "./drizzle-types.ts";

const project = new DrizzleProject();
afterAll(() => project.remove());
const adapter = (await project.load("drizzle-v1")) as typeof import("../../js/adapters/drizzle-v1.ts");
const { migrate } = (await project.load(
  "drizzle-v1-migrator",
)) as typeof import("../../js/adapters/drizzle-v1-migrator.ts");
const driver = (await project.load(runtime)) as typeof import("../../js/index.ts");

const migrationsFolder = fileURLToPath(new URL("drizzle-v1-migrations", import.meta.url));
const { table, fill, pairs } = typesOf(
  core as never,
  { getTableColumns, sql } as never,
  (column) => (column as unknown as { array(dimensions: string): object }).array("[][]"),
  { key: "asc" },
);
const relations = defineRelations({ table: table as never });

for (const server of testServers().servers) {
  const { name } = server;
  const url = `${server.url.split("?")[0]}?sslmode=disable`;
  for (const [title, run] of Object.entries(cases))
    test(`${runtime}, ${name}: ${title}`, () => run({ adapter: adapter as never, driver, url }));

  test(`${runtime}, ${name}: migrations run once`, async () => {
    const schema = `dzm1_${Math.random().toString(36).slice(2)}`;
    await using client = await driver.connect(url, { startup: { search_path: schema } });
    await client.exec(`create schema ${schema}`);
    try {
      const db = adapter.drizzle(client);
      for (let run = 0; run < 2; run++) await migrate(db, { migrationsFolder, migrationsSchema: schema });
      expect((await db.execute(sql`select * from migrated`)).rows).toEqual([{ id: 1, name: "a;b" }]);
      expect((await db.execute(sql`select id from __drizzle_migrations`)).rows).toEqual([{ id: 1 }, { id: 2 }]);
    } finally {
      await client.exec(`drop schema ${schema} cascade`);
    }
  });

  test(`${runtime}, ${name}: values of each column type are those over pg`, async () => {
    const schema = `dzt1_${Math.random().toString(36).slice(2)}`;
    await using client = await driver.connect(url, { startup: { search_path: schema, TimeZone: "UTC" } });
    const other = new pg.Client({ connectionString: url, options: `-c search_path=${schema} -c TimeZone=UTC` });
    await other.connect();
    try {
      await client.exec(`create schema ${schema}`);
      const ours = adapter.drizzle(client, { relations } as never);
      const theirs = drizzleOverPg({ client: other, relations } as never);
      for (const statement of fill) await ours.execute(statement as never);
      for (const [title, ask] of Object.entries(pairs)) {
        const [mine, his] = [await ask(ours as never), await ask(theirs as never)];
        expect(his.length, title).toBeGreaterThan(1);
        expect(mine, title).toEqual(his);
      }
      // Both drivers must store what Drizzle's columns make of the values.
      const values = (await ours.select().from(table as never)) as { key: number }[];
      const moved = (by: number) => values.map((row) => ({ ...row, key: row.key + by })) as never;
      await ours.insert(table as never).values(moved(10));
      await theirs.insert(table as never).values(moved(20));
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
      await client.exec(`drop schema ${schema} cascade`);
    }
  });
}
