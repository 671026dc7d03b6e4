// What is known of statements: the tags of their answers, as each role and its settings have them.
//
// Knows texts and fingerprints. Must not know trees, or when what was learned is too old (fence.ts).
import { BoundedMap } from "../util/bounded.ts";
import { readSnapshot, type Snapshot } from "./visibility.ts";

/** What was learned of a statement, as a role with its settings runs it. */
export interface Dependency {
  /** The name of the statement's text. */
  readonly statement: string;
  /** What else decides what the statement means: the role, the schemas it sees, settings (moment.ts). */
  readonly fingerprint: string;
  /** In which database, of which server, on which timeline (moment.ts). */
  readonly timeline: string;
  readonly tags: readonly string[];
  /** OIDs of the parameters' types: it was learned with these. */
  readonly parameterTypes: readonly number[];
  /** Why its answers must not be stored. Empty: they may be. */
  readonly reasons: readonly string[];
  readonly isPersonal: boolean;
  /** pg_current_snapshot() as text, taken before it was learned. */
  readonly snapshot: string;
  readonly isStandby: boolean;
}

/** The snapshot is read once: each fill has it. */
export interface KnownDependency extends Dependency {
  readonly learned: Snapshot;
}

export class Dependencies {
  /** By fingerprint and text. Those that were learned last come last. */
  readonly #known: BoundedMap<string, KnownDependency>;

  /** `most`: statements that are kept, each as one role with its settings runs it. */
  constructor(most: number) {
    this.#known = new BoundedMap(most);
  }

  add(dependency: Dependency): void {
    const key = keyOf(dependency.statement, dependency.fingerprint);
    this.#known.delete(key);
    const learned = readSnapshot(dependency.snapshot, dependency.isStandby);
    this.#known.set(key, { ...dependency, learned });
  }

  of(statement: string, fingerprint: string): KnownDependency | undefined {
    return this.#known.get(keyOf(statement, fingerprint));
  }
}

/** A fingerprint is a number. */
const keyOf = (statement: string, fingerprint: string): string => `${fingerprint} ${statement}`;
