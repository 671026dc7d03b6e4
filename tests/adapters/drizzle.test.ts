// The cases of drizzle-cases.ts on this runtime, with the build that users get; migrations; and the values of each
// column type beside those of drizzle-orm/node-postgres.
import { fileURLToPath } from "node:url";
import { getTableColumns, sql } from "drizzle-orm";
import { drizzle as drizzleOverPg } from "drizzle-orm/node-postgres";
import * as core from "drizzle-orm/pg-core";
import pg from "pg";
import { expect, test } from "vitest";
import { runtime, testServers } from "../integration/servers.ts";
import { cases } from "./drizzle-cases.ts";
import { typesOf } from "./drizzle-types.ts";

const built = (name: string) => import(`../../dist/${name}.js` as string) as Promise<unknown>;
const adapter = (await built("drizzle")) as typeof import("../../js/adapters/drizzle.ts");
const driver = (await built(runtime)) as typeof import("../../js/index.ts");
const { migrate } = (await built("drizzle-migrator")) as typeof import("../../js/adapters/drizzle-migrator.ts");

const servers = testServers().servers.map(({ name, url }) => ({
  name,
  url: `${url.split("?")[0]}?sslmode=disable`,
}));
const { table, fill, pairs } = typesOf(core, { getTableColumns, sql }, (column) => column.array().array());
const migrationsFolder = fileURLToPath(new URL("drizzle-migrations", import.meta.url));

for (const { name, url } of servers) {
  for (const [title, run] of Object.entries(cases))
    test(`${runtime}, ${name}: ${title}`, () => run({ adapter, driver, url }));

  test(`${runtime}, ${name}: migrations run once, whole or not at all`, async () => {
    const schema = `dzm_${Math.random().toString(36).slice(2)}`;
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
    const schema = `dzt_${Math.random().toString(36).slice(2)}`;
    await using client = await driver.connect(url, { startup: { search_path: schema, TimeZone: "UTC" } });
    const other = new pg.Client({ connectionString: url, options: `-c search_path=${schema} -c TimeZone=UTC` });
    await other.connect();
    try {
      await client.exec(`create schema ${schema}`);
      const ours = adapter.drizzle(client, { schema: { table } });
      const theirs = drizzleOverPg(other, { schema: { table } });
      for (const statement of fill) await ours.execute(statement);
      for (const [title, ask] of Object.entries(pairs)) {
        const [mine, his] = [await ask(ours), await ask(theirs as never)];
        expect(his.length, title).toBeGreaterThan(1);
        expect(mine, title).toEqual(his);
      }
    } finally {
      await other.end();
      await client.exec(`drop schema ${schema} cascade`);
    }
  });
}
