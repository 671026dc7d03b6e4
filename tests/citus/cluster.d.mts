import type { ServerDescriptor } from "../servers/index.mjs";

/** The coordinator and two workers. */
export function startCitus(
  checkout: string,
): Promise<{ nodes: (ServerDescriptor & { stop(): Promise<void> })[]; stop(): Promise<void> }>;
