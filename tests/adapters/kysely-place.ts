// The setting of a Kysely case: the modules as its runtime has them, and a schema of its own with a table `item`.
//
// Knows how a Kysely is made and ended. Must not know what a case tests.
import type { Generated, Kysely as Database, KyselyConfig } from "kysely";
import { assert } from "../integration/assert.ts";

export const equal = assert.deepEqual;

/** The modules as the runtime has them. */
export interface Modules {
  readonly kysely: typeof import("kysely");
  readonly migration: Pick<typeof import("kysely/migration"), "Migrator">;
  readonly pgz: typeof import("../../js/index.ts");
  readonly adapter: typeof import("../../js/adapters/kysely.ts");
}

interface Tables {
  item: { id: Generated<number>; name: string; amount: number | null };
}

export type Db = Database<Tables>;

export type Cases = Record<string, (modules: Modules, url: string) => Promise<void>>;

/** Everything that a case uses, in a schema of its own, with a table `item`. */
export class Place {
  readonly schema = `kysely_${Math.random().toString(36).slice(2, 12)}`;
  readonly modules: Modules;
  readonly #url: string;
  readonly #ends: (() => Promise<unknown>)[] = [];

  constructor(modules: Modules, url: string) {
    this.modules = modules;
    this.#url = url;
  }

  get #options() {
    return { applicationName: this.schema, startup: { search_path: this.schema } };
  }

  pool(options: object = {}) {
    const pool = this.modules.pgz.createPool(this.#url, { ...this.#options, ...options });
    this.#ends.push(() => pool.close());
    return pool;
  }

  client(options: object = {}) {
    const client = this.modules.pgz.createClient(this.#url, { ...this.#options, ...options });
    this.#ends.push(() => client.close());
    return client;
  }

  db(
    config: Partial<import("../../js/adapters/kysely.ts").PgzDialectConfig> = {},
    options: Partial<KyselyConfig> = {},
  ) {
    const { kysely, adapter } = this.modules;
    const source = config.client || config.pool ? {} : { pool: this.pool() };
    const dialect = new adapter.PgzDialect({ ...source, ...config } as never);
    const db = new kysely.Kysely<Tables>({ dialect, ...options });
    this.#ends.push(() => db.destroy());
    return db;
  }

  async end(): Promise<void> {
    for (const end of this.#ends.reverse()) await end();
  }
}

export const inPlace = (work: (place: Place) => Promise<void>) => async (modules: Modules, url: string) => {
  const place = new Place(modules, url);
  const admin = place.client();
  await admin.simple(
    `create schema ${place.schema};
     create table ${place.schema}.item (id serial primary key, name text not null unique, amount int4)`,
  );
  try {
    await work(place);
  } finally {
    await admin.exec(`drop schema ${place.schema} cascade`);
    await place.end();
  }
};

/** Returns the error with which a promise rejects. */
export const failure = (work: Promise<unknown>): Promise<Error & Record<string, unknown>> => assert.rejects(work);

export const names = async (db: Db) =>
  (await db.selectFrom("item").select("name").orderBy("name").execute()).map(({ name }) => name);

/** Counts the running statements of this place's other sessions that have this text. */
export async function running({ schema }: Place, db: Db, text: string, { kysely }: Modules): Promise<number> {
  const { rows } = await kysely.sql<{ n: number }>`select count(*)::int4 as n from pg_stat_activity
    where application_name = ${schema} and state = 'active' and pid <> pg_backend_pid() and query like ${`%${text}%`}`.execute(
    db,
  );
  return rows[0]!.n;
}
