import type { Client } from "pg";
import type { ServerDescriptor } from "./index.mjs";

export interface Cluster {
  readonly major: number;
  readonly folder: string;
  readonly data: string;
}

interface Process {
  ended: boolean;
}

/** Makes a cluster that has never run. */
export function newCluster(major: number): Promise<Cluster>;

/** Starts the server of a cluster. */
export function run(
  cluster: Cluster,
  options: {
    name?: string;
    log: string;
    /** More settings. */
    extra?: Readonly<Record<string, string>>;
    /** Resolves when the server accepts connections. */
    prepare: (process: Process, port: number) => Promise<unknown>;
  },
): Promise<{ descriptor: ServerDescriptor & { pid: number }; stop(): Promise<void> }>;

/** Prepares a cluster at its first start: its roles and its database. */
export function prepare(process: Process, port: number): Promise<void>;

/** Connects as the superuser, with retries until the server accepts the connection. */
export function withClient<T>(
  process: Process,
  port: number,
  database: string,
  use: (client: Client) => Promise<T>,
): Promise<T>;

export const superuser: { readonly user: string; readonly password: string };
