// `pgz-edge/drizzle-v1/migrator`: runs the migrations that drizzle-kit has written, with drizzle-orm 1.0. It reads
// files, so it is for Node, Deno and Bun.
//
// Knows Drizzle's migrator. Must not know how a statement runs.
import { readMigrationFiles, type MigrationConfig, type MigratorInitFailResponse } from "drizzle-orm-v1/migrator";
import { migrate as run } from "drizzle-orm-v1/pg-core/async";
import type { AnyRelations } from "drizzle-orm-v1/relations";
import type { PgzDatabase } from "./drizzle/v1-database.ts";

/**
 * Runs all migrations of the folder that have not yet run on the database, in one transaction.
 *
 * @example
 * await migrate(drizzle(client), { migrationsFolder: "drizzle" });
 */
export function migrate<TRelations extends AnyRelations>(
  db: PgzDatabase<TRelations>,
  config: MigrationConfig,
): Promise<void | MigratorInitFailResponse> {
  return run(readMigrationFiles(config), db, config);
}
