// `pgz-edge/cache`: answers that a cache in front stores, and that the database's commits purge.
export { cached } from "./cache/cached.ts";
export type { CachedOptions, CacheInvalidator } from "./cache/cached-options.ts";
export {
  invalidatorObject,
  type InvalidatorObject,
  type InvalidatorObjectOptions,
  type ObjectState,
} from "./cache/durable-object.ts";
export { Invalidator } from "./cache/invalidator.ts";
export type { InvalidatorOptions, InvalidatorStats } from "./cache/options.ts";
export type {
  Admitted,
  FillClosing,
  FillName,
  FillOpening,
  Life,
  Opened,
  Refusal,
  Refused,
  Remembered,
} from "./cache/protocol.ts";
export type { Dependency } from "./cache/dependencies.ts";
export type { Purge } from "./cache/purges.ts";
