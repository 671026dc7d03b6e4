// Checks a cluster's results against what the model's servers have written.
//
//   after a position    all commits up to it, except those that the timeline of the result never had
//   without a position  all commits of the result's timeline from before `maxLag` ago
//   any result          a state that existed: all commits up to some commit, and nothing else
//   a write             committed at most once; acknowledged: once, and lost only with its timeline; refused: never
//
// Knows the history of the cluster, and positions. Must not know calls.
import { positionOf } from "../../../js/cluster/position.ts";
import { numbersOf, type Entry } from "../server/cluster/history.ts";
import type { Node } from "../server/cluster/node.ts";
import type { Replicas } from "../server/cluster/replicas.ts";
import type { Row } from "./ways.ts";

/** The outcome that a call reported for its numbers. */
type Fate = "stored" | "absent" | "doubtful";

export interface Asked {
  readonly says: string;
  /** The position that the read must have reached. */
  readonly after?: string | undefined;
  readonly since: number;
  readonly until: number;
  /** The maximum lag of the result, where no position is given. */
  readonly maxLag?: number;
  /** The timeline of the primary that the cluster knew. */
  readonly knows?: number | undefined;
}

export class Oracle {
  readonly faults: string[] = [];
  readonly #replicas: Replicas;
  readonly #fates = new Map<number, Fate>();
  readonly #groups: (readonly number[])[] = [];
  #last = 0;

  constructor(replicas: Replicas) {
    this.#replicas = replicas;
  }

  take(count: number, areOne: boolean): number[] {
    const numbers = Array.from({ length: count }, () => ++this.#last);
    if (areOne) this.#groups.push(numbers);
    for (const n of numbers) this.#fates.set(n, "doubtful");
    return numbers;
  }

  settle(numbers: readonly number[], fate: Fate): void {
    for (const n of numbers) this.#fates.set(n, fate);
  }

  // -- results --------------------------------------------------------------------------------------------------------

  answered(rows: readonly Row[], asked: Asked): void {
    const [first] = rows;
    const node = this.#replicas.nodes.find(({ name }) => name === first?.server);
    if (!node || rows.some(({ server }) => server !== first!.server))
      return this.#fault(asked, `no answer of one server: ${JSON.stringify(rows)}`);
    const shown = new Set(rows.map(({ n }) => n));
    if (shown.size < rows.length) this.#fault(asked, `a number twice: ${rows.map(({ n }) => n).join()}`);
    const timelines = timelinesOf(node, asked);
    const wrong = timelines.map((timeline) => this.#wrongWith(shown, timeline, asked));
    // The server was on one of these timelines when it responded.
    if (wrong.every((one) => one !== undefined)) this.#fault(asked, `${node.name} answers ${wrong[0]}`);
  }

  #wrongWith(shown: ReadonlySet<number>, timeline: number, asked: Asked): string | undefined {
    const { history } = this.#replicas;
    const all = history.entries.filter((entry) => history.isOn(entry, timeline));
    const seen = all.filter((entry) => numbersOf(entry).some((n) => shown.has(n)));
    const last = Math.max(-1, ...seen.map((entry) => entry.ends));
    const known = new Set(all.flatMap(numbersOf));
    const invented = [...shown].filter((n) => n && !known.has(n));
    if (invented.length) return `on timeline ${timeline} with what nobody has committed: ${invented.join()}`;
    const torn = all.filter((entry) => entry.ends <= last && numbersOf(entry).some((n) => !shown.has(n)));
    if (torn.length)
      return `on timeline ${timeline} without ${torn.flatMap(numbersOf).join()}, which is older than ${last}`;
    const missing = this.#due(timeline, asked).filter((entry) => entry.ends > last && numbersOf(entry).length);
    if (!missing.length) return undefined;
    return `on timeline ${timeline} without ${missing.flatMap(numbersOf).join()}, committed at ${missing.map(({ at }) => at).join()}`;
  }

  /** Returns the entries that the result must have. */
  #due(timeline: number, { after, since, maxLag, knows }: Asked): Entry[] {
    const { history } = this.#replicas;
    if (after !== undefined) {
      const { timeline: of, lsn } = positionOf(after);
      if (!of) return [];
      const due = history.upTo(of, Number(lsn));
      // A newer timeline may never have had some of them. An older timeline must not respond without them.
      return timeline >= of ? due.filter((entry) => history.isOn(entry, timeline)) : due;
    }
    if (maxLag === undefined) return [];
    const due = history.entries.filter((entry) => entry.at < since - maxLag);
    // A standby of another timeline does not belong to this primary.
    return due.filter((entry) => history.isOn(entry, Math.max(timeline, knows ?? 0)));
  }

  // -- writes ---------------------------------------------------------------------------------------------------------

  /** Checks the position that a committed write has returned. */
  positioned(numbers: readonly number[], position: string, says: string): void {
    const { timeline, lsn } = positionOf(position);
    if (!timeline) return;
    for (const entry of this.#replicas.history.entries) {
      if (!numbersOf(entry).some((n) => numbers.includes(n))) continue;
      if (entry.timeline !== timeline || entry.ends > Number(lsn))
        this.faults.push(`${says}: ${position} (${timeline}, ${lsn}) is not behind ${entry.timeline}, ${entry.ends}`);
    }
  }

  /** Compares, at the end, what was committed where with what the calls reported. */
  compare(): void {
    const { history, primary } = this.#replicas;
    const entryOf = new Map<number, Entry>();
    for (const entry of history.entries)
      for (const n of numbersOf(entry)) {
        if (entryOf.has(n)) this.faults.push(`${n} was committed twice`);
        entryOf.set(n, entry);
        const fate = this.#fates.get(n);
        if (fate === "absent") this.faults.push(`${n} was committed, though its call was told that nothing happened`);
        if (fate === undefined) this.faults.push(`${n} was committed, and nobody has written it`);
      }
    const kept = new Set(primary.server.ledger);
    for (const [n, fate] of this.#fates) {
      const entry = entryOf.get(n);
      if (fate === "stored" && !entry) this.faults.push(`${n} was acknowledged, and never committed`);
      if (entry && history.isOn(entry, primary.timeline) !== kept.has(n))
        this.faults.push(`the model itself: ${n} is ${kept.has(n) ? "" : "not "}there`);
    }
    for (const group of this.#groups)
      if (new Set(group.map((n) => entryOf.get(n))).size > 1) this.faults.push(`of ${group.join()} not all, or apart`);
  }

  /** The number of acknowledged writes that are gone with their timeline. */
  get lost(): number {
    const { history, primary } = this.#replicas;
    const gone = history.entries.filter((entry) => !history.isOn(entry, primary.timeline)).flatMap(numbersOf);
    return gone.filter((n) => this.#fates.get(n) === "stored").length;
  }

  #fault({ says, after, since, until }: Asked, text: string): void {
    const { timeline, lsn } = positionOf(after);
    const behind = after === undefined ? "" : ` behind ${timeline}, ${lsn}`;
    this.faults.push(`${says}${behind} (${since.toFixed(1)} to ${until.toFixed(1)}): ${text}`);
  }
}

/** Returns the timelines that the server was on during the call. */
function timelinesOf({ stays }: Node, { since, until }: Asked): number[] {
  const then = stays.filter((stay, at) => stay.since <= until && (stays[at + 1]?.since ?? Infinity) >= since);
  return [...new Set(then.map(({ timeline }) => timeline))];
}
