// The options of an invalidator, and what it says of itself.
//
// Knows names, defaults and what is refused. Must not know what follows from an option.
import { Pool, UsageError } from "../index.ts";
import { LONGEST_TIMER, mayWait } from "./pause.ts";
import type { Purge } from "./purges.ts";

export interface InvalidatorOptions {
  /** A slot of its own, as of `changes`: no other reader may have it. */
  readonly slot: string;
  /**
   * `"permanent"` makes the slot if it does not exist, also when it was lost. What was stored meanwhile is purged.
   * Default: it must exist.
   */
  readonly createSlot?: "permanent" | undefined;
  /** The publication of the tables whose answers are stored. */
  readonly publication: string;
  readonly purge: Purge;
  /** Milliseconds from the end of an answer's body until the cache has surely stored it. Default 2,000. */
  readonly settle?: number | undefined;
  /** Maximum milliseconds from a query to the end of its answer's body. Default 60,000. */
  readonly maxFill?: number | undefined;
  /**
   * Milliseconds that purging may be behind the database before no new answer is stored. A message that goes through
   * the database every `maxLag / 4` shows how far it is. Default 5,000.
   */
  readonly maxLag?: number | undefined;
  /** Ends `run`. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Is told why a purge, a question to the database or the stream has failed, which is repeated until it has not. Is
   * told of two queries under one URL, too.
   */
  readonly onFailure: (error: unknown) => void;
}

/** The options with their defaults. */
export interface KnownOptions extends InvalidatorOptions {
  readonly settle: number;
  readonly maxFill: number;
  readonly maxLag: number;
}

export interface InvalidatorStats {
  readonly state: "down" | "following";
  /** Why it is down, such as another connection that reads the slot. */
  readonly reason?: string | undefined;
  /** Milliseconds: what was committed before has been purged. Infinity before the first heartbeat. */
  readonly lag: number;
  /** Answers that have not ended, or may not have been stored yet. */
  readonly fills: number;
  /** Commits that the snapshot of an answer may not see. */
  readonly commits: number;
  /** Tags with which an answer may be stored. */
  readonly tags: number;
}

/** Checks the options. Nothing that their `onFailure` does ends what it is told of. */
export function optionsOf(db: Pool, options: InvalidatorOptions): KnownOptions {
  if (typeof options !== "object" || options === null)
    throw new UsageError("INVALID_OPTION", "An invalidator takes a pool, and its options.");
  const { settle = 2_000, maxFill = 60_000, maxLag = 5_000 } = options;
  const known = { ...options, settle, maxFill, maxLag };
  check(db, known);
  const onFailure = (error: unknown): void => {
    try {
      options.onFailure(error);
    } catch {
      // It is the caller's.
    }
  };
  return { ...known, onFailure };
}

function check(db: unknown, options: KnownOptions): void {
  const { slot, publication, purge, onFailure, createSlot, signal: _, ...others } = options;
  const { settle, maxFill, maxLag, ...unknown } = others;
  const times = { settle, maxFill, maxLag };
  const invalid = (text: string) => new UsageError("INVALID_OPTION", text);
  if (!(db instanceof Pool)) throw invalid("An invalidator takes a pool, and its options.");
  for (const name in unknown)
    throw new UsageError("UNKNOWN_OPTION", `Unknown option "${name}": docs/cache.md has those of an invalidator.`);
  if (createSlot !== undefined && createSlot !== "permanent") throw invalid('Option "createSlot" must be "permanent".');
  for (const [name, value] of Object.entries({ slot, publication }))
    if (typeof value !== "string" || !value) throw invalid(`Option "${name}" must be a name.`);
  for (const [name, value] of Object.entries({ purge, onFailure }))
    if (typeof value !== "function") throw invalid(`Option "${name}" must be a function.`);
  for (const name of ["settle", "maxFill", "maxLag"] as const)
    if (!mayWait(times[name]))
      throw invalid(`Option "${name}" must be whole milliseconds, from 1 to ${LONGEST_TIMER}.`);
}
