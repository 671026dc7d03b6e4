import type { Plugin } from "esbuild";

export interface Worker {
  url: string;
  /** Settles when the process of workerd has ended. */
  gone: Promise<void>;
  stop(): Promise<void>;
}

export function serve(options: { databaseUrl: string; port?: number; newest?: boolean; plugins?: Plugin[] }): Promise<Worker>;
