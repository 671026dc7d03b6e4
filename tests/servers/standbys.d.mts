import type { ServerDescriptor } from "./index.mjs";

/** A server of a cluster, and what can be done to it. */
export interface ClusterNode {
  readonly name: string;
  readonly descriptor: ServerDescriptor;
  readonly url: string;
  /** As the superuser, in `postgres` unless another database is named. */
  ask(text: string, database?: string): Promise<Record<string, unknown>[]>;
  /** A setting, such as `name = 'value'`, from now on. */
  set(setting: string): Promise<void>;
  /** How far it has received the log. */
  received(): Promise<bigint>;
  /** Resolves when it has all that the other one has now. */
  catchUp(other: ClusterNode): Promise<void>;
  /** It replays nothing any more, until `resume`. */
  pause(): Promise<void>;
  resume(): Promise<unknown>;
  /** It replays each commit so many milliseconds later. */
  delay(milliseconds: number): Promise<void>;
  promote(): Promise<unknown>;
  /** It streams from the other one from now on. */
  follow(other: ClusterNode): Promise<void>;
  /** From one moment to the next, without a checkpoint. */
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
  /** Each commit waits until one of the standbys shows it, with `synchronous_commit` set so. */
  isSynchronous?: boolean;
}): Promise<ClusterOfServers>;
