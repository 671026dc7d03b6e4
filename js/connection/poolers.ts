// Servers that are poolers, as far as this isolate has seen. A pooler's process ids are random, and one in 1,024 looks
// genuine: what another session has shown holds for that one, too.
//
// Knows process ids. Must not know what is done otherwise behind a pooler.
import type { Config } from "../config/options.ts";
import { BoundedSet } from "../util/bounded.ts";
import { LARGEST_PROCESS_ID, MOST_SERVERS } from "../util/limits.ts";

const poolers = new BoundedSet<string>(MOST_SERVERS);

/** A pooler may have other settings for another database. */
const keyOf = ({ host, port, database }: Config) => JSON.stringify([host, port, database]);

/** A session has begun, in a process with this number. */
export function heedProcessId(config: Config, processId: number): void {
  if (processId <= LARGEST_PROCESS_ID) return;
  poolers.add(keyOf(config));
}

/** Whether one of its sessions had a process id that no server's own have. */
export function isPooler(config: Config): boolean {
  return poolers.has(keyOf(config));
}
