// A first-in, first-out queue whose items may also leave from the middle. Each step is O(1) on average, for any length.
// A Set would do, but after deletions it walks over all deleted members to find its first one.

export class Fifo<T extends object> {
  /** `undefined` for an item that has left. */
  #items: (T | undefined)[] = [];
  #first = 0;
  readonly #indexes = new Map<T, number>();

  get size(): number {
    return this.#indexes.size;
  }

  get first(): T | undefined {
    while (this.#first < this.#items.length && !this.#items[this.#first]) this.#first++;
    return this.#items[this.#first];
  }

  [Symbol.iterator](): IterableIterator<T> {
    return this.#indexes.keys();
  }

  add(item: T): void {
    if (this.#first > 64 && this.#first * 2 > this.#items.length) this.#compact();
    this.#indexes.set(item, this.#items.push(item) - 1);
  }

  /** Returns whether the item was in the queue. */
  delete(item: T): boolean {
    const at = this.#indexes.get(item);
    if (at === undefined) return false;
    this.#indexes.delete(item);
    this.#items[at] = undefined;
    if (this.#indexes.size) return true;
    this.#items = [];
    this.#first = 0;
    return true;
  }

  #compact(): void {
    this.#items = this.#items.filter(Boolean);
    this.#first = 0;
    this.#items.forEach((item, at) => this.#indexes.set(item!, at));
  }
}
