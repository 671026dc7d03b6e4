// Measures how far a stream of changes is behind: which commits were read and not acknowledged, and since when.
//
// Knows the positions and times that it is given. Must not know connections.

/**
 * Commits within this many milliseconds share an entry. A program that never acknowledges then adds an entry a second,
 * not one for each commit.
 */
const GRAIN = 1_000;

export class Lag {
  /**
   * Commits that are not acknowledged, the oldest first. An entry has the position of its last commit, and the time at
   * which its first one was read.
   */
  #open: { position: bigint; readonly at: number }[] = [];

  /** Commits up to `position` have been read by `now`, in milliseconds. */
  read(position: bigint, now: number): void {
    const last = this.#open.at(-1);
    if (last && position <= last.position) return;
    if (last && now - last.at < GRAIN) last.position = position;
    else this.#open.push({ position, at: now });
  }

  acknowledged(position: bigint): void {
    const first = this.#open.findIndex((entry) => entry.position > position);
    this.#open = first < 0 ? [] : this.#open.slice(first);
  }

  /** Returns how long the oldest unacknowledged commit has waited; 0 if there is none. */
  seconds(now: number): number {
    const [oldest] = this.#open;
    return oldest ? Math.max(0, now - oldest.at) / 1_000 : 0;
  }
}
