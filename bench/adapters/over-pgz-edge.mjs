// The libraries over this driver.
import { drizzle as drizzleOver } from "../../dist/drizzle.js";
import { PgzDialect } from "../../dist/kysely.js";
import pg from "../../dist/pg.js";
import { PrismaPgz } from "../../dist/prisma.js";
import { drizzle, facade, kysely, prisma } from "./operations.mjs";

/** `createPool` comes from the runtime's build. */
export function overPgzEdge({ createPool }) {
  const poolOf = (url) => createPool(url, { max: 1 });
  return {
    facade: facade(pg),
    kysely: kysely((url) => new PgzDialect({ pool: poolOf(url) })),
    drizzle: drizzle((url) => {
      const pool = poolOf(url);
      return { db: drizzleOver(pool), end: () => pool.close() };
    }),
    prisma: prisma((url) => new PrismaPgz({ connectionString: url, max: 1 })),
  };
}
