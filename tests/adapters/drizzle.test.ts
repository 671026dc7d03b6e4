// The cases of drizzle-cases.ts on this runtime, with the build that users get; migrations; and the values of each
// column type beside those of drizzle-orm/node-postgres.
import { Buffer } from "node:buffer";
import { fileURLToPath } from "node:url";
import { getTableColumns, sql, type SQL } from "drizzle-orm";
import { drizzle as drizzleOverPg } from "drizzle-orm/node-postgres";
import * as core from "drizzle-orm/pg-core";
import pg from "pg";
import { expect, test } from "vitest";
import { runtime, testServers } from "../integration/servers.ts";
import { cases } from "./drizzle-cases.ts";
import { migrationsRunOnce, valuesOverBoth } from "./drizzle-compared.ts";
import { typesOf } from "./drizzle-types.ts";

const built = (name: string) => import(`../../dist/${name}.js` as string) as Promise<unknown>;
const adapter = (await built("drizzle")) as typeof import("../../js/adapters/drizzle.ts");
const driver = (await built(runtime)) as typeof import("../../js/index.ts");
const { migrate } = (await built("drizzle-migrator")) as typeof import("../../js/adapters/drizzle-migrator.ts");

const servers = testServers().servers.map(({ name, url }) => ({
  name,
  url: `${url.split("?")[0]}?sslmode=disable`,
}));
const types = typesOf(core, { getTableColumns, sql }, (column) => column.array().array());
const schema = { table: types.table };
const migrationsFolder = fileURLToPath(new URL("drizzle-migrations", import.meta.url));

/** Values without a column, whose type the server tells. */
const at = new Date("2024-02-29T12:00:00.250Z");
const PARAMETERS: readonly SQL[] = [
  sql`${1}`,
  sql`${1.5}`,
  sql`${10n}`,
  sql`${true}`,
  sql`${"text"}`,
  sql`${null}`,
  sql`${null}::int4`,
  sql`${"5"}::int4`,
  sql`${5}::text`,
  sql`${5}::int8`,
  sql`${5}::numeric`,
  sql`${0.1}::float8`,
  sql`${"t"}::bool`,
  sql`${at}::timestamptz`,
  sql`${at.toISOString()}::timestamp`,
  sql`${"2024-02-29"}::date`,
  sql`${"1 day"}::interval`,
  sql`${'{"a":1}'}::jsonb`,
  sql`${{ a: [1, null] }}::jsonb`,
  sql`${sql.param([1, 2])}::int4[]`,
  sql`${sql.param(["a,b", null, 'c"d'])}::text[]`,
  sql`2 = any(${sql.param([1, 2])}::int4[])`,
  sql`${sql.param(Buffer.from("0ff0", "hex"))}::bytea`,
  sql`array_length(array[${sql.join([sql`${1}::int4`, sql`${2}`], sql`, `)}], 1)`,
  sql`coalesce(${null}, ${"x"})`,
  sql`${"(1,2)"}::point`,
  sql`${"[1,5)"}::int4range`,
  sql`${"10.0.0.1"}::inet`,
  sql`${"550e8400-e29b-41d4-a716-446655440000"}::uuid`,
];

for (const { name, url } of servers) {
  for (const [title, run] of Object.entries(cases))
    test(`${runtime}, ${name}: ${title}`, () => run({ adapter, driver, url }));

  test(`${runtime}, ${name}: migrations run once, whole or not at all`, () =>
    migrationsRunOnce({ driver, url }, adapter.drizzle, migrate, migrationsFolder));

  test(`${runtime}, ${name}: values in sql are sent as over pg`, async () => {
    await using client = await driver.connect(url, { startup: { TimeZone: "UTC" } });
    const other = new pg.Client({ connectionString: url, options: "-c TimeZone=UTC" });
    await other.connect();
    try {
      const answers = async (db: { execute(query: SQL): Promise<{ rows: unknown[] }> }) => {
        const all: unknown[] = [];
        for (const query of PARAMETERS)
          all.push(
            await db.execute(sql`select ${query} as value`).then(
              ({ rows }) => rows,
              (error: Error) => (error.cause as { code?: string }).code,
            ),
          );
        return all;
      };
      expect(await answers(adapter.drizzle(client))).toEqual(await answers(drizzleOverPg(other)));
      // A value that does not fit its type is refused before it is sent.
      const codeOf = async (db: { execute(query: SQL): Promise<unknown> }) =>
        db.execute(sql`select ${"no"}::int4`).catch((error: Error) => (error.cause as { code?: string }).code);
      expect([await codeOf(adapter.drizzle(client)), await codeOf(drizzleOverPg(other))]).toEqual([
        "INVALID_PARAMETER",
        "22P02",
      ]);
    } finally {
      await other.end();
    }
  });

  test(`${runtime}, ${name}: values of each column type are those over pg`, () =>
    valuesOverBoth(
      { driver, url },
      types,
      (client) => adapter.drizzle(client, { schema }),
      (client) => drizzleOverPg(client, { schema }),
    ));
}
