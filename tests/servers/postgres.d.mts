import type { ServerDescriptor } from "./index.mjs";

/** Resolves when the server takes connections, and has the test's roles and database. */
export type Prepare = (process: unknown, port: number) => Promise<void>;
export const prepare: Prepare;

/** A cluster that has never run. */
export function newCluster(major: number): Promise<{ major: number; native: string; folder: string; data: string }>;

export function run(
  cluster: Awaited<ReturnType<typeof newCluster>>,
  options: { name?: string; log: string; extra?: Record<string, string>; prepare: Prepare },
): Promise<{ descriptor: ServerDescriptor; stop(): Promise<void> }>;
