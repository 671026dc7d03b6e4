// A Map and a Set with a bound, for what an isolate remembers of servers and statements. One entry too many drops the
// oldest one. Dropping all of them would make every server be learned anew at once.
//
// Must not know what is kept.

export class BoundedMap<Key, Value> extends Map<Key, Value> {
  readonly #most: number;

  /** `most`: the maximum number of entries. */
  constructor(most: number) {
    super();
    this.#most = most;
  }

  override set(key: Key, value: Value): this {
    super.set(key, value);
    dropOldest(this, this.#most);
    return this;
  }
}

export class BoundedSet<Value> extends Set<Value> {
  readonly #most: number;

  /** `most`: the maximum number of values. */
  constructor(most: number) {
    super();
    this.#most = most;
  }

  override add(value: Value): this {
    super.add(value);
    dropOldest(this, this.#most);
    return this;
  }
}

/** Both iterate in the order of insertion. */
function dropOldest<Key>(kept: Map<Key, unknown> | Set<Key>, most: number): void {
  if (kept.size <= most) return;
  for (const oldest of kept.keys()) {
    kept.delete(oldest);
    return;
  }
}
