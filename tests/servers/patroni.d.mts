/** A server of PostgreSQL and its Patroni, and what can be done to them. */
export interface PatroniNode {
  readonly name: string;
  readonly port: number;
  /** Patroni's REST API. */
  readonly api: string;
  /** As the role `app`, in its database. */
  readonly url: string;
  /** As the superuser, in `postgres` unless another database is named. */
  ask(text: string, database?: string): Promise<Record<string, unknown>[]>;
  /** Its Patroni and its server, from one moment to the next. */
  kill(): Promise<void>;
  /** Its Patroni only: its server goes on, and nobody watches it. */
  orphan(): Promise<void>;
  /** Its Patroni starts again. */
  revive(): void;
}

/** As Patroni's REST API lists it. */
export interface PatroniMember {
  readonly name: string;
  readonly role: string;
  readonly state: string;
  readonly host?: string;
  readonly port?: number;
  readonly timeline?: number;
}

export interface PatroniCluster {
  /** In the order in which they were made. */
  readonly nodes: readonly PatroniNode[];
  readonly etcd: { readonly port: number; readonly pid: number };
  /** One node more. */
  add(): Promise<PatroniNode>;
  members(): Promise<PatroniMember[]>;
  /** Waits for one. */
  leader(): Promise<PatroniNode>;
  /** Resolves when all other nodes stream from the leader, and one of them is the synchronous standby. */
  isWhole(): Promise<void>;
  /** To a standby that may be promoted: resolves with it, when it is the leader. */
  switchover(): Promise<PatroniNode>;
  stop(): Promise<void>;
}

export function startPatroni(options: {
  log: string;
  count?: number;
  /** Of PostgreSQL. */
  parameters?: Readonly<Record<string, string | number>>;
  /** Of Patroni, on top of `synchronous_mode: true`. */
  dynamic?: Readonly<Record<string, unknown>>;
}): Promise<PatroniCluster>;
