// Random choices from a seed.
import { generator } from "../support/random.ts";

export class Dice {
  readonly #next: (below: number) => number;

  constructor(seed: number) {
    this.#next = generator(seed);
    // The generator's first numbers are similar for neighbouring seeds, so they are skipped.
    for (let n = 0; n < 8; n++) this.#next(1);
  }

  /** Returns a whole number from 0 to `below - 1`. */
  below(below: number): number {
    return this.#next(below);
  }

  oneIn(many: number): boolean {
    return this.#next(many) === 0;
  }

  pick<T>(list: readonly T[]): T {
    return list[this.#next(list.length)]!;
  }
}
