// What an isolate remembers of the servers of a cluster, from one request to the next: who is primary, who follows, how
// far and how fast each one is, and how far the primary was at which time.
//
// Facts only: sockets and promises belong to a request on Workers, and none is here. Knows how a lag is computed. Must
// not know how servers are asked (look.ts), or which one is chosen (choice.ts).
import type { Told } from "./questions.ts";

/** Of one server. Times are of `performance.now()`. */
export interface Facts {
  /** What it said last; `undefined`: nothing yet, or it cannot be reached. */
  told: Told | undefined;
  /** Milliseconds of a question and its answer, smoothed. */
  roundTrip: number | undefined;
  /** Why it could not be asked the last time. */
  failure: unknown;
  /** Of a standby: it has all that the primary had at this time. */
  hasAllOf: number;
  /** The role may ask for the cluster's identity, as far as is known. */
  isIdentified: boolean;
  /** Transactions there are READ COMMITTED by default, as far as is known. */
  isReadCommitted: boolean;
  /** It has WAIT FOR LSN; `undefined`: no session has told its version yet. */
  hasWaitFor: boolean | undefined;
}

/** How far the primary was at a time. */
interface Mark {
  readonly at: number;
  readonly lsn: bigint;
}

/** Marks that are kept: at `lookInterval` each, what a lag is measured by. */
const MOST_MARKS = 100;
/** Of a round trip that was measured now, in the mean. */
const WEIGHT = 0.3;

export class Memory {
  /** By {@link Server.key}. */
  readonly #servers = new Map<string, Facts>();
  /** Ascending. */
  #marks: Mark[] = [];
  #timeline = 0;
  #system = 0n;
  /** When the servers were last asked. */
  lookedAt = -Infinity;
  /** Who is what may have changed: all servers are to be asked. */
  isSuspect = true;

  of(key: string): Facts {
    let facts = this.#servers.get(key);
    if (!facts) {
      facts = {
        told: undefined,
        roundTrip: undefined,
        failure: undefined,
        hasAllOf: -Infinity,
        isIdentified: true,
        isReadCommitted: true,
        hasWaitFor: undefined,
      };
      this.#servers.set(key, facts);
    }
    return facts;
  }

  /** The primary's timeline, as far as is known. */
  get timeline(): number {
    return this.#timeline;
  }

  /**
   * It is known how far the primary was, and the standby's positions are of the same log: on another timeline, as that of
   * a standby that has more than the server that was promoted, they say nothing. One that tells no timeline is believed.
   */
  canTell({ told }: Facts): boolean {
    return this.#marks.length > 0 && (!told?.timeline || told.timeline === this.#timeline);
  }

  /** The primary was as far as this at `at`, or further. A new timeline makes every mark one of another history. */
  mark({ system, timeline, lsn }: Told, at: number): void {
    // It was left behind by a promotion, and has not noticed: what its standbys have is not what the primary has.
    if (timeline < this.#timeline && system === this.#system) {
      this.isSuspect = true;
      return;
    }
    this.#system = system;
    if (timeline !== this.#timeline) {
      if (this.#timeline) this.isSuspect = true;
      this.#timeline = timeline;
      this.#marks = [];
      for (const facts of this.#servers.values()) facts.hasAllOf = -Infinity;
    }
    this.#marks.push({ at, lsn });
    if (this.#marks.length > MOST_MARKS) this.#marks.shift();
  }

  /** A standby has come as far as this. */
  reached(facts: Facts, lsn: bigint): void {
    if (facts.told) facts.told = { ...facts.told, lsn: lsn > facts.told.lsn ? lsn : facts.told.lsn };
    if (!this.canTell(facts)) return;
    for (const mark of this.#marks) if (mark.lsn <= lsn && mark.at > facts.hasAllOf) facts.hasAllOf = mark.at;
  }

  answered(facts: Facts, told: Told, roundTrip: number): void {
    facts.told = told;
    facts.failure = undefined;
    facts.roundTrip = facts.roundTrip === undefined ? roundTrip : mean(facts.roundTrip, roundTrip);
    if (told.isStandby) this.reached(facts, told.lsn);
  }

  failed(facts: Facts, failure: unknown): void {
    facts.told = undefined;
    facts.failure = failure;
  }
}

function mean(before: number, now: number): number {
  return before + WEIGHT * (now - before);
}

/** Clusters that an isolate remembers: one that makes names of hosts up must not fill its memory. */
const MOST = 100;
const memories = new Map<string, Memory>();

/** That of this cluster, for all who make one of the same servers in this isolate. */
export function memoryOf(key: string): Memory {
  const memory = memories.get(key) ?? new Memory();
  memories.delete(key);
  memories.set(key, memory);
  if (memories.size > MOST) memories.delete(memories.keys().next().value!);
  return memory;
}
