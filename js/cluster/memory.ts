// What an isolate remembers about the servers of a cluster, from one request to the next: which one is the primary,
// which ones follow, how far and how near each one is, and how far the primary was at which time.
//
// Facts only: on Workers sockets and promises belong to a request, so none is here. Knows how a lag is computed. Must
// not know how servers are asked (probes.ts), or which one is chosen (choice.ts).
import type { ServerStatus } from "./questions.ts";

/** What is known about one server. Times are of `performance.now()`. */
export interface Facts {
  /** Its last answer; `undefined`: it has not answered yet, or cannot be reached. */
  status: ServerStatus | undefined;
  /** The round trip of a question and its answer, in milliseconds, smoothed. */
  roundTrip: number | undefined;
  /** Why the last question failed. */
  failure: unknown;
  /** For a standby: the latest time at which the primary was no further than the standby has replayed. */
  upToDateAsOf: number;
  /** The role may read the cluster's identity, as far as is known. */
  canReadIdentity: boolean;
  /** Transactions on the server are READ COMMITTED by default, as far as is known. */
  isReadCommitted: boolean;
  /** The server has WAIT FOR LSN; `undefined`: no session has reported its version yet. */
  hasWaitFor: boolean | undefined;
}

/** How far the primary was at a time, at least. */
interface Mark {
  readonly at: number;
  readonly lsn: bigint;
}

/** Maximum number of marks. A lag is computed from them; there is about one per `probeInterval`. */
const MOST_MARKS = 100;
/** Weight of the newest round trip in the mean. */
const WEIGHT = 0.3;

export class Memory {
  /** By {@link Server.key}. */
  readonly #servers = new Map<string, Facts>();
  /** Ascending by time. */
  #marks: Mark[] = [];
  #timeline = 0;
  #system = 0n;
  /** When the servers were last asked. */
  probedAt = -Infinity;
  /** Roles may have changed, so the next probe must ask all servers. */
  isSuspect = true;

  of(key: string): Facts {
    let facts = this.#servers.get(key);
    if (!facts) {
      facts = {
        status: undefined,
        roundTrip: undefined,
        failure: undefined,
        upToDateAsOf: -Infinity,
        canReadIdentity: true,
        isReadCommitted: true,
        hasWaitFor: undefined,
      };
      this.#servers.set(key, facts);
    }
    return facts;
  }

  /** The primary's timeline as far as is known; 0: unknown. */
  get timeline(): number {
    return this.#timeline;
  }

  /**
   * Returns whether the standby's positions tell its lag: the primary's position is known, and both are of the same
   * log. Positions of two timelines are not comparable: a standby may have replayed WAL that the promoted server never
   * had. A standby that reports no timeline is believed.
   */
  knowsLag({ status }: Facts): boolean {
    return this.#marks.length > 0 && (!status?.timeline || status.timeline === this.#timeline);
  }

  /**
   * Records a lower bound of the primary's position at the time `at`. A new timeline drops all earlier marks, because
   * they are of another history.
   */
  mark({ system, timeline, lsn }: ServerStatus, at: number): void {
    // A promotion has left this server behind, and it has not noticed. What its standbys have is not what the real
    // primary has.
    if (timeline < this.#timeline && system === this.#system) {
      this.isSuspect = true;
      return;
    }
    this.#system = system;
    if (timeline !== this.#timeline) {
      if (this.#timeline) this.isSuspect = true;
      this.#timeline = timeline;
      this.#marks = [];
      for (const facts of this.#servers.values()) facts.upToDateAsOf = -Infinity;
    }
    this.#marks.push({ at, lsn });
    if (this.#marks.length > MOST_MARKS) this.#marks.shift();
  }

  /** Records that a standby has replayed up to this position. */
  reached(facts: Facts, lsn: bigint): void {
    if (facts.status) facts.status = { ...facts.status, lsn: lsn > facts.status.lsn ? lsn : facts.status.lsn };
    if (!this.knowsLag(facts)) return;
    for (const mark of this.#marks) if (mark.lsn <= lsn && mark.at > facts.upToDateAsOf) facts.upToDateAsOf = mark.at;
  }

  answered(facts: Facts, status: ServerStatus, roundTrip: number): void {
    facts.status = status;
    facts.failure = undefined;
    facts.roundTrip = facts.roundTrip === undefined ? roundTrip : mean(facts.roundTrip, roundTrip);
    if (status.isStandby) this.reached(facts, status.lsn);
  }

  failed(facts: Facts, failure: unknown): void {
    facts.status = undefined;
    facts.failure = failure;
  }
}

function mean(before: number, now: number): number {
  return before + WEIGHT * (now - before);
}

/**
 * Maximum number of clusters that an isolate remembers: a program that invents names of hosts must not fill its memory.
 */
const MOST = 100;
const memories = new Map<string, Memory>();

/** Returns the memory of this cluster. All clusters of the same servers in this isolate share it. */
export function memoryOf(key: string): Memory {
  const memory = memories.get(key) ?? new Memory();
  memories.delete(key);
  memories.set(key, memory);
  if (memories.size > MOST) memories.delete(memories.keys().next().value!);
  return memory;
}
