// What is known of statements: the tags of their answers, as each role and its settings have them.
//
// Knows texts and fingerprints. Must not know trees, or when what was learned is too old (fence.ts).

/** What was learned of a statement, as a role with its settings runs it. */
export interface Dependency {
  /** The statement's text. */
  readonly statement: string;
  /** What else decides what the statement means: the role, the schemas it sees, settings (moment.ts). */
  readonly fingerprint: string;
  /** In which database, of which server, on which timeline (moment.ts). */
  readonly log: string;
  readonly tags: readonly string[];
  /** Why its answers must not be stored. Empty: they may be. */
  readonly reasons: readonly string[];
  readonly isPersonal: boolean;
  /** pg_current_snapshot() as text, taken before it was learned. */
  readonly snapshot: string;
  readonly isStandby: boolean;
}

/** A text that is run with more roles and settings than these is forgotten and learned anew by turns. */
const MOST_OF_A_TEXT = 8;

export class Dependencies {
  readonly #most: number;
  /** By text, then by fingerprint. The texts that were learned last come last. */
  readonly #known = new Map<string, Map<string, Dependency>>();

  /** `most`: texts that are kept. */
  constructor(most: number) {
    this.#most = most;
  }

  add(dependency: Dependency): void {
    const { statement, fingerprint } = dependency;
    const known = this.#known.get(statement) ?? new Map<string, Dependency>();
    this.#known.delete(statement);
    this.#known.set(statement, known);
    known.delete(fingerprint);
    known.set(fingerprint, dependency);
    dropFirst(known, MOST_OF_A_TEXT);
    dropFirst(this.#known, this.#most);
  }

  of(statement: string, fingerprint: string): Dependency | undefined {
    return this.#known.get(statement)?.get(fingerprint);
  }
}

function dropFirst(map: Map<string, unknown>, most: number): void {
  if (map.size <= most) return;
  const [first] = map.keys();
  map.delete(first!);
}
