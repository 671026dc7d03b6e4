// The libraries of CASE=adapters, each over both drivers: `libraries[library][driver](url)` gives
//
//   one(id)      the row with that key, as an array of one
//   many(count)  so many rows, in order
//   end()
//
// The rows are what the library gives its user, and must be the same under both drivers.
import { PrismaPg } from "@prisma/adapter-pg";
import { asc, eq } from "drizzle-orm";
import { drizzle as drizzleOverPg } from "drizzle-orm/node-postgres";
import { boolean, doublePrecision, integer, pgTable, text, timestamp } from "drizzle-orm/pg-core";
import { Kysely, PostgresDialect } from "kysely-0.29";
import pg from "pg";
import { drizzle } from "../../dist/drizzle.js";
import { PgzDialect } from "../../dist/kysely.js";
import { createPool } from "../../dist/node.js";
import ours from "../../dist/pg.js";
import { PrismaPgz } from "../../dist/prisma.js";

export const MANY = 10_000;
export const TABLE = `
  drop table if exists people;
  create table people (id int4 primary key, name text not null, email text not null, active bool not null,
    score float8 not null, created_at timestamptz not null);
  insert into people select n, 'Person ' || n, 'person' || n || '@example.com', n % 3 = 0, n / 7.0,
    timestamptz '2026-01-01 00:00:00Z' + n * interval '1 second' from generate_series(1, ${MANY}) n;
  analyze people;`;

const facade = ({ Pool }) => {
  return async (connectionString) => {
    const pool = new Pool({ connectionString, max: 1 });
    return {
      one: async (id) => (await pool.query("select * from people where id = $1", [id])).rows,
      many: async (count) => (await pool.query("select * from people order by id limit $1", [count])).rows,
      end: () => pool.end(),
    };
  };
};

const poolOfPg = (connectionString) => new pg.Pool({ connectionString, max: 1 });
const poolOfOurs = (url) => createPool(url, { max: 1 });

const kysely = (dialectOf) => async (url) => {
  const db = new Kysely({ dialect: dialectOf(url) });
  const people = db.selectFrom("people").selectAll();
  return {
    one: (id) => people.where("id", "=", id).execute(),
    many: (count) => people.orderBy("id").limit(count).execute(),
    end: () => db.destroy(),
  };
};

const people = pgTable("people", {
  id: integer().primaryKey(),
  name: text().notNull(),
  email: text().notNull(),
  active: boolean().notNull(),
  score: doublePrecision().notNull(),
  createdAt: timestamp("created_at", { withTimezone: true }).notNull(),
});

const orm = (open) => async (url) => {
  const { db, end } = open(url);
  return {
    one: async (id) => await db.select().from(people).where(eq(people.id, id)),
    many: async (count) => await db.select().from(people).orderBy(asc(people.id)).limit(count),
    end,
  };
};

/** The adapter by itself: what Prisma's client does with its rows is the same over both. */
const prisma = (factoryOf) => async (url) => {
  const adapter = await factoryOf(url).connect();
  const int = { scalarType: "int", arity: "scalar" };
  const rows = async (sql, value) => (await adapter.queryRaw({ sql, args: [value], argTypes: [int] })).rows;
  return {
    one: (id) => rows("select * from people where id = $1", id),
    many: (count) => rows("select * from people order by id limit $1", count),
    end: () => adapter.dispose(),
  };
};

export const libraries = {
  facade: { "pgz-edge": facade(ours), pg: facade(pg) },
  kysely: {
    "pgz-edge": kysely((url) => new PgzDialect({ pool: poolOfOurs(url) })),
    pg: kysely((url) => new PostgresDialect({ pool: poolOfPg(url) })),
  },
  drizzle: {
    "pgz-edge": orm((url) => {
      const pool = poolOfOurs(url);
      return { db: drizzle(pool), end: () => pool.close() };
    }),
    pg: orm((url) => {
      const pool = poolOfPg(url);
      return { db: drizzleOverPg(pool), end: () => pool.end() };
    }),
  },
  prisma: {
    "pgz-edge": prisma((url) => new PrismaPgz({ connectionString: url, max: 1 })),
    pg: prisma((connectionString) => new PrismaPg({ connectionString, max: 1 })),
  },
};
