// `pgz-edge/drizzle-v1`: Drizzle ORM over the driver, for drizzle-orm 1.0 (docs/drizzle.md, docs/decisions/0027).
//
// Exports, and nothing else.
export { drizzle, PgzDatabase } from "./drizzle/v1-database.ts";
export type { DrizzleInput } from "./drizzle/v1-database.ts";
export { PgzPreparedQuery, PgzSession, PgzTransaction } from "./drizzle/v1-session.ts";
export type { PgzQueryResultHKT, SessionOptions } from "./drizzle/v1-session.ts";
export { pgzCodecs } from "./drizzle/v1-codecs.ts";
export type { IterableQuery, PgzClient, RawResult, RowOf, TransactionConfig } from "./drizzle/runner.ts";
