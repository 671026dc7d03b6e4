// A cache of results by text: a program runs the same few texts again and again.
//
// Knows two bounds, entries and characters, so that neither many texts nor long ones fill the memory. It drops the
// oldest entry first. Must not know what is kept.

export class TextCache<Value> {
  // A Map iterates in the order of insertion.
  readonly #values = new Map<string, Value>();
  readonly #most: number;
  readonly #mostCharacters: number;
  #characters = 0;

  /** Maximum number of entries, and maximum number of characters of all their texts together. */
  constructor(most: number, mostCharacters: number) {
    this.#most = most;
    this.#mostCharacters = mostCharacters;
  }

  get(text: string): Value | undefined {
    return this.#values.get(text);
  }

  /** Keeps the value, and drops the oldest ones beyond the bounds. A text longer than the bound is not kept. */
  put(text: string, value: Value): Value {
    if (text.length > this.#mostCharacters || this.#values.has(text)) return value;
    this.#values.set(text, value);
    this.#characters += text.length;
    for (const oldest of this.#values.keys()) {
      if (this.#values.size <= this.#most && this.#characters <= this.#mostCharacters) break;
      this.#values.delete(oldest);
      this.#characters -= oldest.length;
    }
    return value;
  }
}
