import type { Plugin } from "esbuild";
import type { Workerd } from "../scripts/node/index.mjs";

export interface Worker {
  url: string;
  /** Resolves when the process of workerd has ended. */
  gone: Promise<void>;
  stop(): Promise<void>;
}

export function serve(options: {
  readerUrl: string;
  appUrl: string;
  /** The URL of a standby, for the same role as `appUrl`. Omit it if there is no standby. */
  standbyUrl?: string | undefined;
  /** The URL of the Durable Objects' own role. */
  objectUrl: string;
  /** The URL of the feed's role, and its replication slot below. Omit both for no feed and no invalidator. */
  feedUrl?: string | undefined;
  feedSlot?: string;
  tokens: Readonly<Record<string, string | readonly string[]>>;
  port?: number;
  workerd?: Workerd;
  plugins?: Plugin[];
  tail?: string | undefined;
  onLog?: (line: string) => void;
}): Promise<Worker>;
