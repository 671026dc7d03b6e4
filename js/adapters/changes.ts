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
  AnyChange,
  Begin,
  ColumnOfTable,
  Commit,
  Delete,
  Insert,
  Message,
  Schema,
  Snapshot,
  Truncate,
  Update,
} from "./changes/kinds.ts";
