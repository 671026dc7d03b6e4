import type { ServerDescriptor } from "./index.mjs";

export function startPgBouncer(options: {
  server: ServerDescriptor;
  log: string;
  poolSize?: number;
  settings?: string;
  newer?: boolean;
  port?: number;
}): Promise<{ descriptor: ServerDescriptor; stop(): Promise<unknown> }>;
