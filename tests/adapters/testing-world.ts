// Where a case of `pgz-edge/testing` runs: a schema of its own with a table `item`, which must be empty at the case's
// end. `stored` asks a connection that is not the test's.
//
// Must not know the cases.
import type { Client, Pool } from "../../js/index.ts";
import { assert } from "../integration/assert.ts";

export const equal = assert.deepEqual;

/** The modules as the runtime has them. */
export interface Modules {
  readonly pgz: typeof import("../../js/index.ts");
  readonly testing: typeof import("../../js/testing.ts");
  readonly pg: typeof import("../../js/adapters/pg.ts");
  readonly drizzle: typeof import("../../js/adapters/drizzle.ts").drizzle;
  readonly drizzleOrm: typeof import("drizzle-orm");
  readonly drizzlePg: typeof import("drizzle-orm/node-postgres").drizzle;
  readonly kysely: typeof import("kysely");
  readonly kyselyAdapter: typeof import("../../js/adapters/kysely.ts");
  readonly prisma: typeof import("../../js/adapters/prisma.ts");
}

/** Runs SQL as a superuser. */
export type Side = (sql: string) => Promise<void>;

/** A schema with two tables. Everything that a case creates is closed at its end. */
export class Place {
  readonly modules: Modules;
  readonly schema = `testing_${Math.random().toString(36).slice(2, 12)}`;
  readonly pool: Pool;
  readonly #url: string;
  readonly side: Side;
  readonly #outside: Client;
  readonly #ends: (() => Promise<unknown>)[] = [];

  constructor(modules: Modules, url: string, side: Side) {
    this.modules = modules;
    this.#url = url;
    this.side = side;
    const options = { applicationName: this.schema, startup: { search_path: this.schema } };
    this.pool = modules.pgz.createPool(url, options);
    this.#outside = modules.pgz.createClient(url, { startup: { search_path: this.schema } });
    this.#ends.push(() => this.pool.close());
  }

  async begin(): Promise<void> {
    await this.#outside.simple(
      `create schema ${this.schema};
       create table item (id serial primary key, name text not null unique);
       create table part (item int references item deferrable initially deferred)`,
    );
  }

  client(): Client {
    const client = this.modules.pgz.createClient(this.#url, { startup: { search_path: this.schema } });
    this.#ends.push(() => client.close());
    return client;
  }

  /** A pool of the facade. */
  pgPool() {
    const options = `-c search_path=${this.schema}`;
    const pool = new this.modules.pg.Pool({ connectionString: this.#url, options });
    this.#ends.push(() => pool.end());
    return pool;
  }

  async pgClient() {
    const options = `-c search_path=${this.schema}`;
    const client = new this.modules.pg.Client({ connectionString: this.#url, options });
    await client.connect();
    this.#ends.push(() => client.end());
    return client;
  }

  /** Returns the names of the items that every session sees. */
  async stored(): Promise<unknown[]> {
    const { rows } = await this.#outside.query<{ name: string }>("select name from item order by id");
    return rows.map(({ name }) => name);
  }

  /** Returns whether a statement of the case waits in `pg_sleep`. */
  async sleeps(): Promise<boolean> {
    const { rows } = await this.#outside.query<{ n: number }>(
      "select count(*)::int4 as n from pg_stat_activity where wait_event = 'PgSleep' and application_name = $1",
      [this.schema],
    );
    return rows[0]!.n > 0;
  }

  async outside(text: string): Promise<void> {
    await this.#outside.simple(text);
  }

  /** Creates a role that the login role may assume. */
  async role(): Promise<string> {
    const role = `${this.schema}_${this.#ends.length}`;
    await this.side(`create role ${role}; grant ${role} to ${decodeURIComponent(new URL(this.#url).username)}`);
    this.#ends.push(() => this.side(`drop owned by ${role}; drop role ${role}`));
    await this.outside(`grant usage on schema ${this.schema} to ${role}; grant select on item to ${role}`);
    return role;
  }

  async end(): Promise<void> {
    for (const end of this.#ends.reverse()) await end();
    await this.#outside.simple(`drop schema ${this.schema} cascade`);
    await this.#outside.close();
  }
}

export type Case = (place: Place) => Promise<void>;
export type Item = { name: string };

/** Adds an item, by a text that every library takes. */
export const INSERT = "insert into item (name) values ($1)";
export const names = async (db: Pick<Pool, "query">) =>
  (await db.query<Item>("select name from item order by id")).rows.map(({ name }) => name);

export const code = async (work: Promise<unknown>): Promise<unknown> =>
  await work.then(
    () => "no error",
    (error: { code?: unknown }) => error.code,
  );
