import type { ServerDescriptor } from "./index.mjs";

export interface ReplicatedServers {
  primary: ServerDescriptor;
  /** A hot standby, which only reads. */
  standby: ServerDescriptor;
  /** Ends the primary at once. */
  crash(): Promise<void>;
  /** Makes the primary read-only while it keeps running, also in sessions that are already open. */
  retire(): Promise<void>;
  /** Whether the standby has this logical slot, so that a failover keeps it. */
  hasSlot(name: string): Promise<boolean>;
  /** Promotes the standby. Resolves when it accepts writes. */
  promote(): Promise<unknown>;
  stop(): Promise<void>;
}

export function startReplicated(options: {
  major?: number;
  log: string;
  settings?: Record<string, string>;
  /** The standby keeps logical slots that were created for failover, from PostgreSQL 17 on. */
  keepsSlots?: boolean;
}): Promise<ReplicatedServers>;
