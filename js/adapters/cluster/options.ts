// Options of `createCluster`: those of a pool, and what the cluster adds.
//
// Knows names, rules and defaults. Must not know servers.
import { UsageError, type ConnectInput, type PoolOptions } from "../../index.ts";

/** Options of {@link createCluster}. Times are milliseconds. Those of a pool hold for the pool of each server. */
export interface ClusterOptions extends PoolOptions {
  /**
   * By how much a standby may lag and still answer `reads`. What is compared is a bound: since when it has not been seen
   * to have all that the primary had. `Infinity`: by any time, also while no primary can be asked. Default 10,000.
   */
  readonly maxLag?: number | undefined;
  /**
   * For how long `reads.after(position)` waits for a standby to come as far as the position, before the primary answers.
   * 0: not at all. Default 1,000.
   */
  readonly wait?: number | undefined;
  /**
   * How old may be what is known of the servers: who is the primary, how far and how fast each standby is. The next call
   * of `reads` asks them again, and does not wait for that unless `maxLag` has passed. No timer does. Default 2,000.
   */
  readonly lookInterval?: number | undefined;
  /** The servers as they are now, asked with each look: new ones are used, those that are missing are left. */
  readonly discover?: (() => readonly ConnectInput[] | Promise<readonly ConnectInput[]>) | undefined;
}

/** Those of the cluster, complete. */
export interface ClusterConfig {
  readonly maxLag: number;
  readonly wait: number;
  readonly lookInterval: number;
  readonly discover: ClusterOptions["discover"];
}

const DEFAULTS = { maxLag: 10_000, wait: 1_000, lookInterval: 2_000 };

/** @throws UsageError `INVALID_OPTION` */
export function splitOptions(options: ClusterOptions): { config: ClusterConfig; pool: PoolOptions } {
  const { maxLag, wait, lookInterval, discover, ...pool } = options;
  if (discover !== undefined && typeof discover !== "function") throw invalid("discover", "a function");
  const config = {
    maxLag: maxLag === Infinity ? maxLag : milliseconds("maxLag", maxLag),
    wait: milliseconds("wait", wait),
    lookInterval: milliseconds("lookInterval", lookInterval),
    discover,
  };
  return { config, pool };
}

/** What a timer can wait for. */
const LONGEST = 2 ** 31 - 1;

function milliseconds(name: keyof typeof DEFAULTS, value: unknown): number {
  if (value === undefined) return DEFAULTS[name];
  if (Number.isInteger(value) && (value as number) >= 0 && (value as number) <= LONGEST) return value as number;
  throw invalid(name, `a whole number of milliseconds from 0 to ${LONGEST}`);
}

function invalid(name: string, must: string): UsageError {
  return new UsageError("INVALID_OPTION", `Option "${name}" must be ${must}.`);
}
