// The cases of drizzle-v1-cases.ts on this runtime, with what the package publishes; migrations; and the values of each
// column type beside those of drizzle-orm 1.0's own node-postgres.
import { fileURLToPath } from "node:url";
import { getTableColumns, sql } from "drizzle-orm-v1";
import { drizzle as drizzleOverPg } from "drizzle-orm-v1/node-postgres";
import * as core from "drizzle-orm-v1/pg-core";
import { defineRelations } from "drizzle-orm-v1/relations";
import { afterAll, test } from "vitest";
import { runtime, testServers } from "../integration/servers.ts";
import { cases } from "./drizzle-v1-cases.ts";
import { migrationsRunOnce, valuesOverBoth } from "./drizzle-compared.ts";
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
const types = typesOf(
  core as never,
  { getTableColumns, sql } as never,
  (column) => (column as unknown as { array(dimensions: string): object }).array("[][]"),
  { key: "asc" },
);
const relations = defineRelations({ table: types.table as never });

for (const server of testServers().servers) {
  const { name } = server;
  const url = `${server.url.split("?")[0]}?sslmode=disable`;
  for (const [title, run] of Object.entries(cases))
    test(`${runtime}, ${name}: ${title}`, () => run({ adapter: adapter as never, driver, url }));

  test(`${runtime}, ${name}: migrations run once`, () =>
    migrationsRunOnce({ driver, url }, adapter.drizzle, migrate, migrationsFolder));

  test(`${runtime}, ${name}: values of each column type are those over pg`, () =>
    valuesOverBoth(
      { driver, url },
      types,
      (client) => adapter.drizzle(client, { relations } as never),
      (client) => drizzleOverPg({ client, relations } as never),
    ));
}
