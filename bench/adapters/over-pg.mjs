// The libraries over `pg`, as their documentation shows.
import { PrismaPg } from "@prisma/adapter-pg";
import { drizzle as drizzleOver } from "drizzle-orm/node-postgres";
import { PostgresDialect } from "kysely";
import pg from "pg";
import { drizzle, facade, kysely, prisma } from "./operations.mjs";

const poolOf = (connectionString) => new pg.Pool({ connectionString, max: 1 });

export const overPg = {
  facade: facade(pg),
  kysely: kysely((url) => new PostgresDialect({ pool: poolOf(url) })),
  drizzle: drizzle((url) => {
    const pool = poolOf(url);
    return { db: drizzleOver(pool), end: () => pool.end() };
  }),
  prisma: prisma((connectionString) => new PrismaPg({ connectionString, max: 1 })),
};
