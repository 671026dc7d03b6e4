import type { ServerDescriptor } from "./index.mjs";

export interface ReplicatedServers {
  primary: ServerDescriptor;
  /** A hot standby: it reads. */
  standby: ServerDescriptor;
  /** Ends the primary from one moment to the next. */
  crash(): Promise<void>;
  /** The primary lives on and takes no writes any more, in sessions that are open neither. */
  retire(): Promise<void>;
  /** The standby has this logical slot, so that a failover keeps it. */
  hasSlot(name: string): Promise<boolean>;
  /** Makes the standby take writes; resolves when it does. */
  promote(): Promise<unknown>;
  stop(): Promise<void>;
}

export function startReplicated(options: {
  major?: number;
  log: string;
  settings?: Record<string, string>;
  /** The standby keeps logical slots that are made for a failover, from PostgreSQL 17 on. */
  keepsSlots?: boolean;
}): Promise<ReplicatedServers>;
