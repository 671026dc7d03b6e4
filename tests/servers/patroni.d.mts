/** A PostgreSQL server and its Patroni, and functions that act on them. */
export interface PatroniNode {
  readonly name: string;
  readonly port: number;
  /** The address of Patroni's REST API. */
  readonly api: string;
  /** The URL of the role `app` in its database. */
  readonly url: string;
  /** Runs a query as the superuser, in `postgres` unless another database is named. */
  ask(text: string, database?: string): Promise<Record<string, unknown>[]>;
  /** Kills its Patroni and its server at once. */
  kill(): Promise<void>;
  /** Kills its Patroni only. Its server keeps running without supervision. */
  orphan(): Promise<void>;
  /** Starts its Patroni again. */
  revive(): void;
}

/** A member as Patroni's REST API lists it. */
export interface PatroniMember {
  readonly name: string;
  readonly role: string;
  readonly state: string;
  readonly host?: string;
  readonly port?: number;
  readonly timeline?: number;
}

export interface PatroniCluster {
  /** The nodes in the order of their creation. */
  readonly nodes: readonly PatroniNode[];
  readonly etcd: { readonly port: number; readonly pid: number };
  /** Adds a node. */
  add(): Promise<PatroniNode>;
  members(): Promise<PatroniMember[]>;
  /** Waits for a leader. */
  leader(): Promise<PatroniNode>;
  /** Resolves when all other nodes stream from the leader, and one of them is the synchronous standby. */
  isWhole(): Promise<void>;
  /** Switches over to a standby that may be promoted. Resolves with that node when it is the leader. */
  switchover(): Promise<PatroniNode>;
  stop(): Promise<void>;
}

export function startPatroni(options: {
  log: string;
  count?: number;
  /** Parameters of PostgreSQL. */
  parameters?: Readonly<Record<string, string | number>>;
  /** Settings of Patroni, in addition to `synchronous_mode: true`. */
  dynamic?: Readonly<Record<string, unknown>>;
}): Promise<PatroniCluster>;
