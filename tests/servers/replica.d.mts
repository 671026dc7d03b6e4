import type { ServerDescriptor } from "./index.mjs";

export interface ReplicatedServers {
  primary: ServerDescriptor;
  /** A hot standby: it reads. */
  standby: ServerDescriptor;
  /** Ends the primary from one moment to the next. */
  crash(): Promise<void>;
  /** The primary lives on and takes no writes any more, in sessions that are open neither. */
  retire(): Promise<void>;
  /** Makes the standby take writes; resolves when it does. */
  promote(): Promise<unknown>;
  stop(): Promise<void>;
}

export function startReplicated(options: {
  major?: number;
  log: string;
  settings?: Record<string, string>;
}): Promise<ReplicatedServers>;
