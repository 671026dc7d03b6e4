import type { ServerDescriptor } from "./index.mjs";

export function startPgpool(options: {
  primary: ServerDescriptor;
  standby: ServerDescriptor;
  log: string;
  settings?: string;
}): Promise<{ descriptor: ServerDescriptor; stop(): Promise<unknown> }>;
