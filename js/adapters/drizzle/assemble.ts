// The steps of `drizzle(…)` that are the same for both releases of drizzle-orm.
//
// Knows what Drizzle's own drivers add to a database. Must not know the database's class.
import type { PgzClient } from "./runner.ts";

/** Returns Drizzle's own logger for `true`, and none for `false`. */
export function loggerOf<Logger>(given: boolean | Logger | undefined, makeDefault: () => Logger): Logger | undefined {
  if (typeof given === "boolean") return given ? makeDefault() : undefined;
  return given;
}

/** A cache of Drizzle's. */
interface Cache {
  readonly onMutate: unknown;
}

/** Adds the members that programs use with every driver's database: `db.$client`, and `db.$cache.invalidate(…)`. */
export function withClientAndCache<Database extends object>(
  db: Database,
  client: PgzClient,
  cache: Cache | undefined,
): Database {
  const $cache = cache && Object.assign(cache, { invalidate: cache.onMutate });
  return Object.assign(db, { $client: client, $cache });
}
