// Options of `createCluster`: those of a pool, and those that the cluster adds.
//
// Knows names, rules and defaults. Must not know servers.
import { UsageError, type ConnectInput, type PoolOptions } from "../index.ts";

/**
 * Options of {@link createCluster}. Times are in milliseconds. The options of a pool apply to the pool of each server.
 */
export interface ClusterOptions extends PoolOptions {
  /**
   * Maximum lag of a standby that may answer `reads`. The lag is an upper bound: the time since the standby was last
   * known to have everything that the primary had. With `Infinity` a standby may lag by any time, also while no primary
   * can be asked. Default 10,000.
   */
  readonly maxLag?: number | undefined;
  /**
   * How long `reads.after(position)` waits for a standby to reach the position before the primary answers. 0: it does
   * not wait. Default 1,000.
   */
  readonly wait?: number | undefined;
  /**
   * Maximum age of what is known about the servers: which one is the primary, how far and how near each standby is.
   * When it is older, the next call of `reads` asks them again. That call waits for the answers only if no known
   * standby is suitable, for example after `maxLag`. There is no timer. Default 2,000.
   */
  readonly probeInterval?: number | undefined;
  /** Returns the present servers. Called in each probe: new servers are added, missing ones are dropped. */
  readonly discover?: (() => readonly ConnectInput[] | Promise<readonly ConnectInput[]>) | undefined;
}

/** The cluster's own options, with their defaults filled in. */
export interface ClusterConfig {
  readonly maxLag: number;
  readonly wait: number;
  readonly probeInterval: number;
  readonly discover: ClusterOptions["discover"];
}

const DEFAULTS = { maxLag: 10_000, wait: 1_000, probeInterval: 2_000 };

/** @throws UsageError `INVALID_OPTION` */
export function splitOptions(options: ClusterOptions): { config: ClusterConfig; pool: PoolOptions } {
  const { maxLag, wait, probeInterval, discover, ...pool } = options;
  if (discover !== undefined && typeof discover !== "function") throw invalid("discover", "a function");
  const config = {
    maxLag: maxLag === Infinity ? maxLag : milliseconds("maxLag", maxLag),
    wait: milliseconds("wait", wait),
    probeInterval: milliseconds("probeInterval", probeInterval),
    discover,
  };
  return { config, pool };
}

/** The longest time that a timer can wait for. */
const LONGEST = 2 ** 31 - 1;

function milliseconds(name: keyof typeof DEFAULTS, value: unknown): number {
  if (value === undefined) return DEFAULTS[name];
  if (Number.isInteger(value) && (value as number) >= 0 && (value as number) <= LONGEST) return value as number;
  throw invalid(name, `a whole number of milliseconds from 0 to ${LONGEST}`);
}

function invalid(name: string, must: string): UsageError {
  return new UsageError("INVALID_OPTION", `Option "${name}" must be ${must}.`);
}
