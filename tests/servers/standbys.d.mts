import type { ServerDescriptor } from "./index.mjs";

/** A server of a cluster, and functions that act on it. */
export interface ClusterNode {
  readonly name: string;
  readonly descriptor: ServerDescriptor;
  readonly url: string;
  /** Runs a query as the superuser, in `postgres` unless another database is named. */
  ask(text: string, database?: string): Promise<Record<string, unknown>[]>;
  /** Changes a setting, such as `name = 'value'`, from now on. */
  set(setting: string): Promise<void>;
  /** Returns the position up to which it has received the log. */
  received(): Promise<bigint>;
  /** Resolves when it has replayed everything that the other one has now. */
  catchUp(other: ClusterNode): Promise<void>;
  /** Stops replay until `resume`. */
  pause(): Promise<void>;
  resume(): Promise<unknown>;
  /** Delays the replay of each commit by this time. */
  delay(milliseconds: number): Promise<void>;
  promote(): Promise<unknown>;
  /** Makes it stream from the other one. */
  follow(other: ClusterNode): Promise<void>;
  /** Ends the server at once, without a checkpoint. */
  crash(): Promise<void>;
}

export interface ClusterOfServers {
  readonly primary: ClusterNode;
  readonly standbys: ClusterNode[];
  stop(): Promise<void>;
}

export function startStandbys(options: {
  major?: number;
  log: string;
  count?: number;
  settings?: Record<string, string>;
  /** Each commit waits until one of the standbys shows it, if `synchronous_commit` is set accordingly. */
  isSynchronous?: boolean;
}): Promise<ClusterOfServers>;
