// `pgz-edge/drizzle/migrator`: runs the migrations that drizzle-kit has written, with drizzle-orm 0.45. It reads files,
// so it is for Node, Deno and Bun.
//
// Knows Drizzle's migrator. Must not know how a statement runs.
import { readMigrationFiles, type MigrationConfig } from "drizzle-orm/migrator";
import type { PgDialect, PgSession } from "drizzle-orm/pg-core";
import type { PgzDatabase } from "./drizzle/database.ts";

/** Members that every Drizzle database has but does not declare. */
interface Migrating {
  readonly dialect: PgDialect;
  readonly session: PgSession;
}

/**
 * Runs all migrations of the folder that have not yet run on the database, in one transaction.
 *
 * @example
 * await migrate(drizzle(client), { migrationsFolder: "drizzle" });
 */
export async function migrate<TSchema extends Record<string, unknown>>(
  db: PgzDatabase<TSchema>,
  config: MigrationConfig,
): Promise<void> {
  const { dialect, session } = db as unknown as Migrating;
  await dialect.migrate(readMigrationFiles(config), session, config);
}
