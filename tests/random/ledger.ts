// What must be in the database in the end: numbers that calls have written, and what each call was told of them.
//
// Knows numbers and their fate. Must not know who writes them.

/**
 * `stored`: acknowledged, so it is there once. `absent`: refused, so it is not there. `doubtful`: once or not at all.
 */
type Fate = "stored" | "absent" | "doubtful";

export class Ledger {
  readonly #fates = new Map<number, Fate>();
  /** Numbers that are there all together or not at all. */
  readonly #groups: (readonly number[])[] = [];
  #last: number;

  /** Its numbers are above `last`. */
  constructor(last = 0) {
    this.#last = last;
  }

  /** The last number that was taken. */
  get last(): number {
    return this.#last;
  }

  /** Numbers that nobody else has. */
  take(count: number): number[] {
    return Array.from({ length: count }, () => ++this.#last);
  }

  /** They may be written from now on. */
  begin(numbers: readonly number[]): void {
    this.#groups.push(numbers);
    this.settle(numbers, "doubtful");
  }

  settle(numbers: readonly number[], fate: Fate): void {
    for (const number of numbers) this.#fates.set(number, fate);
  }

  /** What is wrong with what was found: numbers with how often each is there. */
  compare(found: ReadonlyMap<number, number>): string[] {
    const wrong: string[] = [];
    for (const [number, times] of found) {
      const fate = this.#fates.get(number);
      if (fate === undefined) wrong.push(`${number} is stored, and nobody has written it`);
      else if (times > 1) wrong.push(`${number} is stored ${times} times`);
      else if (fate === "absent") wrong.push(`${number} is stored, though its call was told that nothing happened`);
    }
    for (const [number, fate] of this.#fates)
      if (fate === "stored" && !found.has(number)) wrong.push(`${number} was acknowledged and is not stored`);
    for (const group of this.#groups) {
      const stored = group.filter((number) => found.has(number) && this.#fates.get(number) === "doubtful");
      const doubtful = group.filter((number) => this.#fates.get(number) === "doubtful");
      if (stored.length && stored.length < doubtful.length) wrong.push(`of ${group.join()} only ${stored.join()}`);
    }
    return wrong;
  }
}
