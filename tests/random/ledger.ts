// What must be in the database in the end: numbers that calls have written, and the outcome that each call reported.
//
// Knows numbers and their fate. Must not know what writes them.

/**
 * `stored`: acknowledged, so it exists once. `absent`: refused, so it does not exist. `doubtful`: it exists once or not
 * at all.
 */
type Fate = "stored" | "absent" | "doubtful";

export class Ledger {
  readonly #fates = new Map<number, Fate>();
  /** Numbers that are stored as a whole or not at all. */
  readonly #groups: (readonly number[])[] = [];
  #last: number;

  /** The ledger's numbers begin after `last`. */
  constructor(last = 0) {
    this.#last = last;
  }

  /** The last number that was taken. */
  get last(): number {
    return this.#last;
  }

  /** Returns numbers that no other call has. */
  take(count: number): number[] {
    return Array.from({ length: count }, () => ++this.#last);
  }

  /** The numbers may be written from now on. */
  begin(numbers: readonly number[]): void {
    this.#groups.push(numbers);
    this.settle(numbers, "doubtful");
  }

  settle(numbers: readonly number[], fate: Fate): void {
    for (const number of numbers) this.#fates.set(number, fate);
  }

  /** Returns what is wrong with the numbers that were found, given how often each occurs. */
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
