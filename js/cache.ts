// `pgz-edge/cache`: answers that a cache in front stores, and that the database's commits purge.
export { cached, type CachedOptions, type CacheInvalidator } from "./cache/cached.ts";
export {
  invalidatorObject,
  type InvalidatorObject,
  type InvalidatorObjectOptions,
  type ObjectState,
} from "./cache/durable-object.ts";
export {
  Invalidator,
  type Admitted,
  type FillClosing,
  type FillName,
  type FillOpening,
  type InvalidatorOptions,
  type InvalidatorStats,
  type Life,
  type Opened,
  type Refusal,
  type Refused,
  type Remembered,
} from "./cache/invalidator.ts";
export type { Dependency } from "./cache/dependencies.ts";
export type { Purge } from "./cache/purges.ts";
