// The one process that knows which stored answers are too old: it follows the changes of a database, and purges.
//
// Knows its options, and that a run which has failed is followed by another. Must not know what a run does (run.ts).
import { UsageError, type Pool } from "../index.ts";
import { optionsOf, type InvalidatorOptions, type InvalidatorStats, type KnownOptions } from "./options.ts";
import { paused } from "./pause.ts";
import type { FillClosing, FillName, FillOpening, Opened, Remembered } from "./protocol.ts";
import { Run } from "./run.ts";

/** Milliseconds until the stream is followed anew after it has failed, such as for a slot that is lost. */
const AGAIN = 5_000;

export class Invalidator {
  readonly #db: Pool;
  readonly #options: KnownOptions;
  #run: Run | undefined;
  #isRunning = false;
  /** Why the last run has ended. */
  #reason: string | undefined;

  /** @throws UsageError `INVALID_OPTION`, `UNKNOWN_OPTION` */
  constructor(db: Pool, options: InvalidatorOptions) {
    this.#options = optionsOf(db, options);
    this.#db = db;
  }

  get stats(): InvalidatorStats {
    const stats = this.#run?.stats ?? NOT_RUNNING;
    return stats.state === "down" ? { ...stats, reason: stats.reason ?? this.#reason } : stats;
  }

  /**
   * Opens a fill. Only after that may headers leave that let a cache store the answer.
   *
   * @throws UsageError `INVALID_OPTION` if `maxAge` is no number of milliseconds
   */
  open(opening: FillOpening): Opened {
    if (!(opening.maxAge >= 0 && opening.maxAge < Infinity))
      throw new UsageError("INVALID_OPTION", "maxAge must be a number of milliseconds, of at least 0.");
    return this.#run?.open(opening) ?? { refusal: "down" };
  }

  /** Is told what was learned of a statement. */
  remember(learned: Remembered): void {
    this.#run?.remember(learned);
  }

  /** The body has ended, or has broken off. */
  close(closing: FillClosing): void {
    this.#run?.close(closing);
  }

  /** No answer has left that a cache could store. */
  abandon(fill: FillName): void {
    this.#run?.abandon(fill);
  }

  /**
   * Follows the changes until `signal` is aborted or the pool is closed. When the stream cannot be followed,
   * `onFailure` is told why, and it begins anew after a while.
   *
   * @throws UsageError `STREAM_OPEN` if it runs already
   */
  async run(): Promise<void> {
    if (this.#isRunning) throw new UsageError("STREAM_OPEN", "This invalidator runs already.");
    this.#isRunning = true;
    while (this.#isWanted) {
      await this.#follow();
      if (this.#isWanted) await paused(AGAIN, this.#options.signal);
    }
    this.#isRunning = false;
  }

  get #isWanted(): boolean {
    return !this.#options.signal?.aborted && this.#db.stats().state === "open";
  }

  async #follow(): Promise<void> {
    let run: Run | undefined;
    try {
      run = this.#run = new Run(this.#db, this.#options);
      await run.follow();
    } catch (error) {
      this.#reason = (error as Error).message;
      if (this.#isWanted) this.#options.onFailure(error);
    } finally {
      run?.end();
      this.#run = undefined;
    }
  }
}

const NOT_RUNNING: InvalidatorStats = { state: "down", lag: Infinity, fills: 0, commits: 0, tags: 0 };
