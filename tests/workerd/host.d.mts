export interface Worker {
  url: string;
  stop(): Promise<void>;
  pid: number;
}
/** `options`: miniflare's, for example `{ hyperdrives: { HD: url }, compatibilityFlags: [...] }`. */
export function startWorker(options: { entry: string; caFile?: string | undefined; options?: Record<string, unknown> }): Promise<Worker>;
