import type { Plugin } from "esbuild";
import type { Workerd } from "../scripts/node/index.mjs";

export interface Worker {
  url: string;
  /** Settles when the process of workerd has ended. */
  gone: Promise<void>;
  stop(): Promise<void>;
}

export function serve(options: {
  readerUrl: string;
  appUrl: string;
  /** Of a standby, for the same role. Without there is none. */
  standbyUrl?: string | undefined;
  /** The Durable Objects' own address. */
  objectUrl: string;
  /** Of the feed of changes, and its replication slot. Without there is none. */
  feedUrl?: string | undefined;
  feedSlot?: string;
  tokens: Readonly<Record<string, string | readonly string[]>>;
  port?: number;
  workerd?: Workerd;
  plugins?: Plugin[];
  tail?: string | undefined;
  onLog?: (line: string) => void;
}): Promise<Worker>;
