// Looks at a pool whenever all promises have come to rest, and reports each state that must never occur.
//
//   total <= max    connecting <= maxConnecting    idle + acquired + connecting <= total
//   no call waits without a connection on its way for it, while there is room for a connection
//
// Knows `stats()` and options of a pool. Must not know who calls it.
import type { Pool, PoolStats } from "../../js/index.ts";
import type { Coverage } from "./coverage.ts";

export class PoolWatch {
  readonly pool: Pool;
  readonly #maxConnecting: number;
  readonly #tell: (fault: string) => void;
  /** One wrong moment is reported only once. */
  #hasTold = false;

  #state = "new";
  /** When the first of the pool's connections had logged in. */
  #connectedAt: number | undefined;
  /** The largest `max` so far. */
  #most: number;

  constructor(
    pool: Pool,
    maxConnecting: number,
    tell: (fault: string) => void,
    private readonly coverage: Coverage | undefined,
  ) {
    this.pool = pool;
    this.#most = pool.options.max;
    this.#maxConnecting = maxConnecting;
    this.#tell = tell;
  }

  /** Whether a connection existed before `time`. */
  connectedBefore(time: number): boolean {
    return this.#connectedAt !== undefined && this.#connectedAt < time;
  }

  look(): void {
    if (this.#hasTold) return;
    const stats = this.pool.stats();
    if (stats.connects) this.#connectedAt ??= performance.now();
    if (this.coverage) this.#cover(this.coverage, stats);
    const fault = this.#wrong(stats);
    if (!fault) return;
    this.#hasTold = true;
    this.#tell(`${fault}: ${JSON.stringify(stats)}`);
  }

  #cover(coverage: Coverage, { state, total, max, idle, acquired, connecting, waiting }: PoolStats): void {
    const some = (count: number) => Math.min(count, 2);
    const counts = `idle ${some(idle)} lent ${some(acquired)} connecting ${some(connecting)} waiting ${some(waiting)}`;
    const next = `${state} ${total < max ? "room" : "full"} ${counts}`;
    if (next !== this.#state) coverage.reach("slots", this.#state, next);
    this.#state = next;
  }

  #wrong({ state, max, total, idle, acquired, connecting, waiting, failedConnects }: PoolStats): string | undefined {
    // After `resize` to fewer, connections in use may finish.
    this.#most = Math.max(max, this.#most);
    if (total > this.#most) return "the pool has more connections than max";
    if (connecting > this.#maxConnecting) return "the pool makes more connections at a time than maxConnecting";
    if (idle + acquired + connecting > total) return "the pool's counts do not add up";
    const hasRoom = total < max && connecting < this.#maxConnecting;
    // The pool retries a failed connect after a pause, and a closing pool makes no new connections for some waiters.
    if (state === "open" && !failedConnects && hasRoom && waiting > connecting)
      return "a call waits while the pool has room";
    return undefined;
  }
}
