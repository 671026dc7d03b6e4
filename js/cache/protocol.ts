// What isolates and the invalidator say to each other: plain objects, which pass through a Durable Object's stub, or
// as JSON.
//
// Must not know what either of them does with it.
import type { Dependency } from "./dependencies.ts";
import type { Moment } from "./moment.ts";

/**
 * A query that is about to run, and where its isolate expects to run it. Its names are equal only for equal things:
 * each is the thing as JSON, or a hash of that if it is long.
 */
export interface FillOpening extends Pick<Moment, "fingerprint" | "timeline"> {
  readonly id: string;
  /** The name of its text. */
  readonly statement: string;
  /** The name of what the cache finds the answer by. */
  readonly url: string;
  /** Whether the cache tells answers for one visitor from those for another. */
  readonly isSeparated: boolean;
  /** The name of what decides its rows: the text, its parameters, the fingerprint. */
  readonly rows: string;
  /** The name of what else decides its bytes. */
  readonly form: string;
  /** The ids of the fills whose answers the cache has. */
  readonly validators: readonly string[];
  /** Milliseconds for which the answer may be stored. */
  readonly maxAge: number;
}

/**
 * Why an answer must not be stored.
 *
 * - `down`: the invalidator does not follow the database.
 * - `elsewhere`: it follows another database or server, or one on another timeline.
 * - `unknown`: `remember` has not been told of the statement since definitions have changed.
 * - `unfit`: the answer may change without a commit.
 * - `behind`: it is more than `maxLag` behind the database.
 * - `mixed`: the cache may have another answer under the same URL.
 * - `full`: too many answers have not ended.
 */
export type Refusal = "down" | "elsewhere" | "unknown" | "unfit" | "behind" | "mixed" | "full";

/** A life of the invalidator. What an isolate was told in one counts in no other. */
export interface Life {
  readonly life: string;
  /** Milliseconds since it has begun. */
  readonly age: number;
  /** What it follows: what a statement reads is learned for it. */
  readonly publication: string;
}

/** What was learned of a statement after this life was heard of. */
export interface Remembered extends Dependency {
  readonly life: string;
}

/** An answer that may be stored. */
export interface FillName {
  readonly life: string;
  readonly id: string;
}

/** The answer may be stored. */
export interface Admitted extends Life {
  readonly tags: readonly string[];
  /** OIDs of the types of the parameters that it must have run with. */
  readonly parameterTypes: readonly number[];
  /** Milliseconds after which the body must not end well. */
  readonly maxFill: number;
  /** The answer of this fill is up to date. The query need not run, and there is nothing to close. */
  readonly validator?: string | undefined;
}

export interface Refused extends Partial<Life> {
  readonly refusal: Refusal;
  /** Of `unfit`. */
  readonly reason?: string;
}

/** What the invalidator says to a query. */
export type Opened = Admitted | Refused;

/** An answer whose body has ended, and the moment before it was read. */
export interface FillClosing extends FillName, Pick<Moment, "snapshot" | "isStandby"> {
  /** The same as those of {@link Admitted}. */
  readonly tags: readonly string[];
}
