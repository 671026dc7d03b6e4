// What `drizzle(…)` makes alike of its options, for both releases of drizzle-orm.
//
// Knows what Drizzle's own drivers put beside a database. Must not know of which classes it is.
import type { PgzClient } from "./runner.ts";

/** Drizzle's own logger for `true`, none for `false`. */
export function loggerOf<Logger>(given: boolean | Logger | undefined, makeDefault: () => Logger): Logger | undefined {
  if (typeof given === "boolean") return given ? makeDefault() : undefined;
  return given;
}

/** A cache of Drizzle's. */
interface Cache {
  readonly onMutate: unknown;
}

/** With what programs ask of every driver's database: `db.$client`, and `db.$cache.invalidate(…)`. */
export function assembled<Database extends object>(
  db: Database,
  client: PgzClient,
  cache: Cache | undefined,
): Database {
  const $cache = cache && Object.assign(cache, { invalidate: cache.onMutate });
  return Object.assign(db, { $client: client, $cache });
}
