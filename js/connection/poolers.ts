// Which servers are poolers, as far as this isolate has seen. A pooler's process ids are random, and one in 1,024 looks
// genuine. So what one session has shown holds for the other sessions of that server too.
//
// Knows process ids. Must not know what else is done behind a pooler.
import type { Config } from "../config/options.ts";
import { BoundedSet } from "../util/bounded.ts";
import { LARGEST_PROCESS_ID, MOST_SERVERS } from "../util/limits.ts";

const poolers = new BoundedSet<string>(MOST_SERVERS);

/** Includes the database, because a pooler may have other settings for each. */
const keyOf = ({ host, port, database }: Config) => JSON.stringify([host, port, database]);

/** Notes the process id of a session that has begun. */
export function heedProcessId(config: Config, processId: number): void {
  if (processId <= LARGEST_PROCESS_ID) return;
  poolers.add(keyOf(config));
}

/** Whether one of the server's sessions had a process id that PostgreSQL itself never uses. */
export function isPooler(config: Config): boolean {
  return poolers.has(keyOf(config));
}
