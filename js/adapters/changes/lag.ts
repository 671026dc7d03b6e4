// How far a stream of changes is behind: which commits were read and are not acknowledged, and since when.
//
// Knows positions and times that it is given. Must not know connections.

/** Commits of so many milliseconds are one entry: a program that never acknowledges adds one a second, not one each. */
const GRAIN = 1_000;

export class Lag {
  /** Of commits that are not acknowledged, the oldest first: up to where, and when the first of them was read. */
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

  /** For how long the oldest commit that is not acknowledged waits. 0: none does. */
  seconds(now: number): number {
    const [oldest] = this.#open;
    return oldest ? Math.max(0, now - oldest.at) / 1_000 : 0;
  }
}
