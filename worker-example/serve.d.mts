import type { Plugin } from "esbuild";
import type { Workerd } from "../scripts/node/index.mjs";

export interface Worker {
  url: string;
  /** Settles when the process of workerd has ended. */
  gone: Promise<void>;
  stop(): Promise<void>;
}

export function serve(options: {
  databaseUrl: string;
  port?: number;
  workerd?: Workerd;
  plugins?: Plugin[];
}): Promise<Worker>;
