import type { Workerd } from "../../scripts/node/index.mjs";

export interface Worker {
  url: string;
  stop(): Promise<void>;
  pid: number;
}
/**
 * `entry`: a file to bundle; in its place `built`, a folder with what wrangler has bundled. `options`: miniflare's, for
 * example `{ hyperdrives: { HD: url }, compatibilityFlags: [...] }`. `which`: PGZ_TEST_WORKERD, else the newest.
 * `outbound`: a second Worker, in whose `connect` the first one's sockets end.
 */
export function startWorker(
  options: ({ entry: string; built?: never } | { entry?: never; built: string }) & WorkerOptions,
): Promise<Worker>;

export interface WorkerOptions {
  alias?: Readonly<Record<string, string>>;
  caFile?: string | undefined;
  options?: Record<string, unknown>;
  outbound?: { readonly entry: string; readonly options: Record<string, unknown> };
  which?: Workerd;
}
