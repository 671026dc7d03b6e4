// A first-in, first-out queue whose items may also leave from the middle. Each step is O(1) on average, for any length.
//
// Knows where its items stand: each has its own index. A Map of the indexes would need nothing of them, but with steady
// `set` and `delete` V8 makes a new table every few dozen deletions, and each old table keeps the next one alive: a
// busy pool's scavenges took 6 ms instead of 1.5. (A Set walks over all deleted members to find its first one.)

export interface Queued {
  /** Its index in the queue's array; -1 while it is in none. */
  queueIndex: number;
}

/** The array is compacted when more of its entries are empty than there are items, by this number. */
const SPARE = 64;

export class Fifo<T extends Queued> {
  /** `undefined` for an item that has left. */
  #items: (T | undefined)[] = [];
  /** No item stands before this index. */
  #first = 0;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get first(): T | undefined {
    while (this.#first < this.#items.length && !this.#items[this.#first]) this.#first++;
    return this.#items[this.#first];
  }

  *[Symbol.iterator](): IterableIterator<T> {
    for (const item of this.#items) if (item) yield item;
  }

  add(item: T): void {
    if (this.#items.length > 2 * this.#size + SPARE) this.#compact();
    item.queueIndex = this.#items.push(item) - 1;
    this.#size++;
  }

  /** Returns whether the item was in the queue. */
  delete(item: T): boolean {
    const index = item.queueIndex;
    if (this.#items[index] !== item) return false;
    this.#items[index] = undefined;
    item.queueIndex = -1;
    this.#size--;
    // What a burst has needed is given back. A few entries stay, for the next item's sake.
    if (!this.#size && this.#items.length > SPARE) [this.#items, this.#first] = [[], 0];
    return true;
  }

  /** In place: a copy of a long queue would be garbage that its items keep alive. */
  #compact(): void {
    let length = 0;
    for (const item of this) {
      this.#items[length] = item;
      item.queueIndex = length++;
    }
    this.#items.length = length;
    this.#first = 0;
  }
}
