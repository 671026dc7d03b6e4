// Everything that the primaries of a cluster have written, and where each timeline branched off the previous one.
//
//   timeline 1   a ── b ── c ── d          d: written by a primary that was left behind, and lost
//   timeline 2             └── e ── f      promoted when it had replayed up to c
//
// Knows entries of the log. Must not know servers.
import type { LoggedChange } from "../replication/log.ts";

/** A record of the log: a commit with its changes, or a record without changes. */
export interface Entry {
  readonly timeline: number;
  readonly ends: number;
  /** Virtual milliseconds of its commit. */
  readonly at: number;
  readonly changes: readonly LoggedChange[];
}

interface Fork {
  readonly from: number;
  readonly at: number;
}

export class History {
  readonly entries: Entry[] = [];
  readonly #forks = new Map<number, Fork>();
  /** The newest timeline. */
  timeline = 1;

  /** Begins a timeline that branches off `from` at `at`. Returns its number. */
  fork(from: number, at: number): number {
    this.#forks.set(++this.timeline, { from, at });
    return this.timeline;
  }

  /** Whether a server on this timeline, once it is far enough, has the entry. */
  isOn({ timeline: of, ends }: Entry, timeline: number): boolean {
    let end = Infinity;
    for (let at = timeline; at !== of;) {
      const fork = this.#forks.get(at);
      if (!fork) return false;
      end = Math.min(end, fork.at);
      at = fork.from;
    }
    return ends <= end;
  }

  /** Returns all entries up to a position of a timeline. */
  upTo(timeline: number, lsn: number): Entry[] {
    return this.entries.filter((entry) => entry.ends <= lsn && this.isOn(entry, timeline));
  }
}

/** Returns the numbers that a commit has inserted into the ledger. */
export function numbersOf({ changes }: Entry): number[] {
  return changes.flatMap(({ kind, new: row }) => (kind === "insert" && row ? [row[0] as number] : []));
}
