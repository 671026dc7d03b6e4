// The operations of CASE=adapters for each library, over either driver. `library(url)` returns
//
//   one(id)      the row with that key, as an array of one
//   many(count)  so many rows, in order
//   end()
//
// The rows are those that the library gives its user, and must be the same over both drivers. Must not import a driver:
// over-pgz-edge.mjs and over-pg.mjs do.
import { asc, eq } from "drizzle-orm";
import { boolean, doublePrecision, integer, pgTable, text, timestamp } from "drizzle-orm/pg-core";
import { Kysely } from "kysely";

export const MANY = 10_000;
/** The libraries. */
export const parts = ["facade", "kysely", "drizzle", "prisma"];
export const TABLE = `
  drop table if exists people;
  create table people (id int4 primary key, name text not null, email text not null, active bool not null,
    score float8 not null, created_at timestamptz not null);
  insert into people select n, 'Person ' || n, 'person' || n || '@example.com', n % 3 = 0, n / 7.0,
    timestamptz '2026-01-01 00:00:00Z' + n * interval '1 second' from generate_series(1, ${MANY}) n;
  analyze people;`;

/** Runs `times` operations in sequence. Returns the number of rows, and a hash of the last operation's rows. */
export async function operate(opened, { count, times }) {
  let rows = 0;
  let last;
  for (let at = 0; at < times; at++) {
    last = count === 1 ? await opened.one(1 + (at % 100)) : await opened.many(count);
    rows += last.length;
  }
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(JSON.stringify(last)));
  return { rows, hash: Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("") };
}

/** node-postgres' API, from either package. */
export const facade =
  ({ Pool }) =>
  async (connectionString) => {
    const pool = new Pool({ connectionString, max: 1 });
    return {
      one: async (id) => (await pool.query("select * from people where id = $1", [id])).rows,
      many: async (count) => (await pool.query("select * from people order by id limit $1", [count])).rows,
      end: () => pool.end(),
    };
  };

export const kysely = (dialectOf) => async (url) => {
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

export const drizzle = (open) => async (url) => {
  const { db, end } = open(url);
  return {
    one: async (id) => await db.select().from(people).where(eq(people.id, id)),
    many: async (count) => await db.select().from(people).orderBy(asc(people.id)).limit(count),
    end,
  };
};

/** The adapter alone. Prisma's client treats its rows in the same way over both drivers. */
export const prisma = (factoryOf) => async (url) => {
  const adapter = await factoryOf(url).connect();
  const int = { scalarType: "int", arity: "scalar" };
  const rows = async (sql, value) => (await adapter.queryRaw({ sql, args: [value], argTypes: [int] })).rows;
  return {
    one: (id) => rows("select * from people where id = $1", id),
    many: (count) => rows("select * from people order by id limit $1", count),
    end: () => adapter.dispose(),
  };
};
