// The arguments that `drizzle(…)` accepts, the same for both releases of drizzle-orm: each form runs a query.
import { assert } from "../integration/assert.ts";
import type * as pgz from "../../js/index.ts";

interface Database {
  execute(text: string): PromiseLike<{ readonly rows: unknown[] }>;
  readonly $client: unknown;
}

interface Kit {
  readonly adapter: { drizzle(...given: never): unknown };
  readonly driver: typeof pgz;
  readonly url: string;
}

/** Imitates Hyperdrive's binding: an object of the runtime with its properties on the class. */
class Binding {
  readonly #url: string;
  constructor(url: string) {
    this.#url = url;
  }
  get connectionString(): string {
    return this.#url;
  }
}

const FORMS: Readonly<Record<string, (url: string) => unknown[]>> = {
  "a connection string": (url) => [url],
  "a connection string, and options": (url) => [url, { logger: false }],
  "a URL": (url) => [new URL(url)],
  "a binding such as Hyperdrive's": (url) => [new Binding(url)],
  "options with a connection": (url) => [{ connection: url, logger: false }],
};

export const inputCases: Readonly<Record<string, (kit: Kit) => Promise<void>>> = {
  ...Object.fromEntries(
    Object.entries(FORMS).map(([name, given]) => [
      `${name} makes a pool`,
      async ({ adapter, driver, url }: Kit) => {
        const db = adapter.drizzle(...(given(url) as never)) as Database;
        const pool = db.$client as pgz.Pool;
        try {
          assert(pool instanceof driver.Pool, "it has a pool");
          assert.deepEqual((await db.execute("select 7 as n")).rows, [{ n: 7 }]);
        } finally {
          await pool.close();
        }
      },
    ]),
  ),

  "drizzle() without a connection is refused": async ({ adapter }) => {
    for (const given of [[], [{}], [{ logger: true }], [7]])
      await assert.code((async () => adapter.drizzle(...(given as never)))(), "INVALID_OPTION");
  },
};
