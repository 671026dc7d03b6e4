// `pgz-edge/changes`: changes of tables as they commit, by logical replication.
export {
  changes,
  Changes,
  type ChangesOfTransaction,
  type ChangesResponse,
  type ChangesStats,
  type TransactionsOptions,
} from "./changes/changes.ts";
export type { ChangesOptions } from "./changes/options.ts";
export type {
  Abort,
  AnyChange,
  Begin,
  BeginPrepare,
  ColumnOfTable,
  Commit,
  ContentOf,
  Delete,
  Insert,
  Message,
  Prepared,
  Schema,
  Snapshot,
  Stream,
  Truncate,
  Update,
} from "./changes/kinds.ts";
