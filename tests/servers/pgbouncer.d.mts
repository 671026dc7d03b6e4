import type { ServerDescriptor } from "./index.mjs";

export function startPgBouncer(options: {
  server: ServerDescriptor;
  log: string;
  poolSize?: number;
  settings?: string;
}): Promise<{ descriptor: ServerDescriptor; stop(): Promise<unknown> }>;
