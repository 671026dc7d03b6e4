// What the test needs of a program and its invalidator, wherever they run.

/** What the test hears of them. */
export interface Watch {
  /** Purges in the cache. Rejects if it did not. */
  purge(tags: readonly string[]): Promise<void>;
  /** Called before the invalidator is told that the answer's body has ended. */
  closed(id: string): void;
}

export interface Parts {
  readonly name: string;
  /** `url` is the database's. */
  start(url: string): Promise<void>;
  /** Asks the program. Rejects if it is down. */
  ask(path: string, headers: Readonly<Record<string, string>>): Promise<Response>;
  /** Opens a fill that is refused, to hear the name of the invalidator's life. */
  life(opening: object): Promise<string | undefined>;
  /** By what it does: it makes good what it has broken. */
  readonly disasters: Readonly<Record<string, () => Promise<void>>>;
  /** How often each failure was told. */
  readonly failures: ReadonlyMap<string, number>;
  stop(): Promise<void>;
}
