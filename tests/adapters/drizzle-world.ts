// The tables of the Drizzle cases and a database with them. The cases are written once, for both releases of
// drizzle-orm: each passes in its modules (drizzle-release.ts, drizzle-v1-release.ts). Features of one release only are
// in drizzle-cases.ts and drizzle-v1-cases.ts.
//
// The types are those of 0.45: 1.0 has the same calls with other types.
import type * as Orm from "drizzle-orm";
import type { DrizzleQueryError } from "drizzle-orm";
import type * as CacheCore from "drizzle-orm/cache/core";
import type * as Core from "drizzle-orm/pg-core";
import type { relate } from "./drizzle-release.ts";
import { assert } from "../integration/assert.ts";

export interface Kit {
  readonly adapter: typeof import("../../js/adapters/drizzle.ts");
  readonly driver: typeof import("../../js/index.ts");
  readonly url: string;
}

export type Cases = Record<string, (kit: Kit) => Promise<void>>;

/** One release of drizzle-orm. */
export interface Release {
  readonly orm: Pick<
    typeof Orm,
    "and" | "DrizzleQueryError" | "eq" | "getTableColumns" | "gt" | "sql" | "TransactionRollbackError"
  >;
  readonly core: typeof Core;
  readonly Cache: typeof CacheCore.Cache;
  /** The options of `drizzle()` that tell relational queries about the tables. */
  readonly relate: typeof relate;
  /** The order by an id in a relational query, and its condition on an id. */
  readonly byId: (column: Core.PgColumn) => Core.PgColumn;
  readonly withId: (column: Core.PgColumn, id: number) => Orm.SQL;
}

export type Tables = ReturnType<typeof tablesOf>;

function tablesOf({ boolean, integer, jsonb, pgTable, serial, text, timestamp }: typeof Core) {
  const users = pgTable("users", {
    id: serial("id").primaryKey(),
    name: text("name").notNull().unique(),
    active: boolean("active").notNull().default(true),
    joinedAt: timestamp("joined_at", { withTimezone: true }).notNull().default(new Date(0)),
    data: jsonb("data").$type<{ tags: string[] }>(),
  });
  const posts = pgTable("posts", {
    id: serial("id").primaryKey(),
    authorId: integer("author_id").references(() => users.id),
    title: text("title").notNull(),
    at: timestamp("at", { mode: "string" }),
  });
  return { users, posts };
}

export const TABLES = `
  create table users (id serial primary key, name text not null unique, active bool not null default true,
    joined_at timestamptz not null default 'epoch', data jsonb);
  create table posts (id serial primary key, author_id int4 references users, title text not null, at timestamp);
  insert into users (name, active, data) values ('Ada', true, '{"tags":["x"]}'), ('Bob', false, null);
  insert into posts (author_id, title, at) values (1, 'One', '2024-02-29 12:00:00.25'), (1, 'Two', null),
    (null, 'None', null)`;

export type World = ReturnType<typeof worldOf>;
export type Db = Parameters<Parameters<World["withDb"]>[1]>[0];

export function worldOf(release: Release) {
  const tables = tablesOf(release.core);
  const options = release.relate(tables);

  const open = ({ adapter, driver, url }: Kit, name: string, observer: object) => {
    const pool = driver.createPool(url, { startup: { search_path: name }, max: 3, observer });
    return { pool, db: adapter.drizzle(pool, options) };
  };

  /** A database with the tables, in a schema of its own. */
  const withDb = async (
    kit: Kit,
    work: (db: ReturnType<typeof open>["db"], name: string) => Promise<void>,
    observer: object = {},
  ): Promise<void> => {
    const name = `dz_${Math.random().toString(36).slice(2)}`;
    const { pool, db } = open(kit, name, observer);
    try {
      await pool.simple(`create schema ${name}; ${TABLES}`);
      await work(db, name);
    } finally {
      await pool.simple(`drop schema ${name} cascade`);
      await pool.close();
    }
  };

  /** Returns a case with such a database. */
  const inDb =
    (work: (db: ReturnType<typeof open>["db"], kit: Kit, name: string) => Promise<void>) =>
    (kit: Kit): Promise<void> =>
      withDb(kit, (db, name) => work(db, kit, name));

  /** Returns the error as Drizzle's class, and fails if it is another. */
  const wrapped = (error: Error): DrizzleQueryError => {
    assert(error instanceof release.orm.DrizzleQueryError, String(error));
    return error as DrizzleQueryError;
  };

  return { ...release, ...tables, options, withDb, inDb, wrapped };
}

export const failure = (work: Promise<unknown>): Promise<Error> => assert.rejects(work);

/** Returns the server's code from Drizzle's error. */
export const codeOf = (error: Error) => (error.cause as { code?: string } | undefined)?.code;
