// `pgz-edge/drizzle`: Drizzle ORM over the driver, for the released drizzle-orm 0.45 (docs/drizzle.md,
// docs/decisions/0027). drizzle-v1.ts is the same for 1.0.
//
// Exports, and nothing else.
export { drizzle, PgzDatabase } from "./drizzle/database.ts";
export type { DrizzleInput } from "./drizzle/database.ts";
export { PgzPreparedQuery, PgzSession, PgzTransaction } from "./drizzle/session.ts";
export type { PgzQueryResultHKT, SessionOptions } from "./drizzle/session.ts";
export type { IterableQuery, PgzClient, RawResult, RowOf, TransactionConfig } from "./drizzle/runner.ts";
