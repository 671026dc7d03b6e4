// What a seed decides.
import { generator } from "../support/random.ts";

export class Dice {
  readonly #next: (below: number) => number;

  constructor(seed: number) {
    this.#next = generator(seed);
    // Neighbouring seeds begin alike.
    for (let n = 0; n < 8; n++) this.#next(1);
  }

  /** 0 to below `below`. */
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
