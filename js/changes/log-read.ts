// The log that a stream of changes reads, over all its connections.
//
// Knows which log it is, how far the server's goes, and whether the slot is this stream's alone. Must not know
// connections, or whether a server's log fits (log-check.ts).
import { UsageError } from "../index.ts";
import { positionOf, positionText, UNKNOWN } from "../cluster/position.ts";
import { timelineAt, type Progress } from "./log-check.ts";
import type { Found } from "./log-question.ts";
import { lsnOf } from "./options.ts";

export class ReadLog {
  /** The position of option `from`; 0: it was not given. */
  readonly from: bigint;
  /** The log that was read last, or that `from` names. */
  #read: Progress["log"];
  /** The last answer of a server. */
  #found: Found | undefined;
  #end = 0n;
  /** Where the slot was when this run began to read it: an earlier run has everything before. */
  #begun: bigint | undefined;

  constructor(from: string | undefined) {
    const named = positionOf(from);
    this.from = named === UNKNOWN ? lsnOf(from ?? "0/0") : named.lsn;
    if (named !== UNKNOWN) this.#read = { system: named.system, timeline: named.timeline, branches: undefined };
  }

  get read(): Progress["log"] {
    return this.#read;
  }

  /** The end of the log when the server was asked, or the beginning of a slot that was made after that. */
  get end(): bigint {
    return this.#end;
  }

  /**
   * - `yielded`: everything up to this position was yielded or acknowledged.
   * - `flushed`: what the server was told. Before the stream has begun, it belongs to a server that may be another one.
   */
  progress(yielded: bigint, flushed: bigint): Progress {
    const needed = [yielded, this.from, this.#begun ?? 0n].reduce((one, other) => (one > other ? one : other));
    return { log: this.#read, needed, flushed: this.hasBegun ? flushed : this.from, ownsSlot: this.hasBegun };
  }

  /** Whether this run has read from the slot: it must be where the run has left it. */
  get hasBegun(): boolean {
    return this.#begun !== undefined;
  }

  /** The stream begins on a server, whose log has everything. */
  found(found: Found): void {
    this.#found = found;
    this.#end = found.log.end;
  }

  /** Whether the server has said where the slot is. */
  get knowsSlot(): boolean {
    return this.#found?.log.confirmed !== undefined;
  }

  reaches(position: bigint): void {
    if (position > this.#end) this.#end = position;
  }

  /** Whether a server of this run had the slot. */
  get hadSlot(): boolean {
    return this.#found?.hasSlot === true;
  }

  /** The stream reads this server's log from here on. */
  begins(position: bigint): void {
    if (!this.#found) return;
    this.#read = this.#found.log;
    this.#begun ??= position;
  }

  fullPosition(lsn: bigint): string {
    if (!this.#found) throw new UsageError("INVALID_OPTION", "No change has been read, so there is no position.");
    const { log } = this.#found;
    return positionText({ system: log.system, timeline: timelineAt(log, lsn), lsn });
  }
}
