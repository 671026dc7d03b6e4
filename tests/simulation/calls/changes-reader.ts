// One stream of changes with its consumer: in each form in which changes can be read, at any speed, acknowledging at
// once, late, partly, out of order or never.
//
// Knows the three forms. Must not know slots, or what is stored meanwhile.
import { changes, type Changes, type ChangesOptions } from "../../../js/changes.ts";
import type * as pgz from "../../../js/index.ts";
import { assert } from "../../integration/assert.ts";
import { pause } from "../../random/plan.ts";
import { codeOf, endOf, inTime, type Run } from "./call.ts";

export interface How {
  readonly form: "changes" | "transactions" | "stream";
  /** A stream acknowledges by itself, unless never. */
  readonly acknowledges: keyof typeof ACKNOWLEDGING;
  /** Milliseconds that the consumer takes for each of the first transactions. */
  readonly slow: number;
}

interface Whole {
  readonly position: string;
  readonly acknowledge: () => Promise<void>;
}

/** Takes from the transactions that wait for it, the oldest first, those that are acknowledged now, in this order. */
const ACKNOWLEDGING = {
  never: () => [],
  "at once": (waiting) => waiting.splice(0),
  late: (waiting) => (waiting.length > 1 ? waiting.splice(0, 1) : []),
  partly: (waiting) => (waiting.length === 2 ? waiting.splice(0).slice(1) : []),
  "out of order": (waiting) => (waiting.length === 2 ? waiting.splice(0).reverse() : []),
} satisfies Record<string, (waiting: Whole[]) => readonly Whole[]>;

/** The time is over. Only a silent link or a frozen process may be the reason. */
export class Late extends Error {
  readonly code = "QUERY_TIMEOUT";
}

/** Milliseconds for the end of a stream: the server has half a second, and a process may freeze for a minute. */
const END = 62_000;

/** Number of transactions for which a slow consumer takes its time, because other calls may store many meanwhile. */
const SLOW = 2;

/** Reads until it is ended. */
export class Reader {
  readonly feed: Changes;
  readonly run: Run;
  isOver = false;
  /** Another reader waits for the slot. It may move the slot while this one has no connection, which ends this one. */
  hasRival = false;
  readonly #how: How;
  readonly #abort = new AbortController();
  /** Resolves with the error that has ended the stream. */
  readonly #end: Promise<unknown>;
  #leave: (() => Promise<unknown>) | undefined;
  #isLeft = false;
  readonly #waiting: Whole[] = [];
  /** The last transaction that was acknowledged. */
  #acknowledged: string | undefined;

  constructor(db: pgz.Client | pgz.Pool, options: ChangesOptions, run: Run, how: How) {
    this.run = run;
    this.#how = how;
    const signal = AbortSignal.any([this.#abort.signal, ...(options.signal ? [options.signal] : [])]);
    const acknowledge = how.form === "stream" && how.acknowledges !== "never" ? "commit" : "manual";
    this.feed = changes(db, { ...options, acknowledge, signal });
    this.#end = endOf(this.#read()).finally(() => (this.isOver = true));
  }

  streams(deadline: number): Promise<void> {
    return this.until(() => this.feed.stats().state === "streaming", deadline, "changes do not begin");
  }

  saw(numbers: readonly number[], deadline: number): Promise<void> {
    const { seen } = this.run;
    const left = new Set(numbers);
    let looked = 0;
    const look = () => {
      for (; looked < seen.length; looked++) for (const number of seen[looked]!.numbers) left.delete(number);
      return left.size === 0;
    };
    return this.until(look, deadline, `${numbers.join()} do not come`);
  }

  /** The latest position after which the slot's next reader may begin. */
  get leaves(): string | undefined {
    const { form, acknowledges } = this.#how;
    // A stream has acknowledged what it has read, except the last piece.
    return form === "stream" && acknowledges !== "never" ? this.run.seen.at(-1)?.position : this.#acknowledged;
  }

  /** Waits until `is` holds. Throws the reason if it never will. */
  async until(is: () => boolean, deadline: number, what: string): Promise<void> {
    for (let waits = 1; !is(); waits = Math.min(waits * 2, 50)) {
      if (this.isOver) throw (await this.#end) ?? new Error("changes have ended by themselves");
      if (performance.now() > deadline) throw new Late(`${what} in time`);
      await pause(waits);
    }
  }

  /** Ends the stream. Throws the error that it met earlier. */
  async end(how: "left" | "aborted"): Promise<void> {
    const wasOver = this.isOver && !this.#isLeft;
    this.#isLeft = true;
    if (how === "left" && this.#leave) await inTime(this.#leave(), END, "leaving changes");
    else this.#abort.abort();
    const error = await inTime(this.#end, END, "the end of changes");
    if (this.hasRival && codeOf(error) === "CHANGES_LOST") return;
    if (error !== undefined && (wasOver || codeOf(error) !== "ABORTED")) throw error;
    assert.equal(this.feed.stats().state, "over");
  }

  // -- reading --------------------------------------------------------------------------------------------------------

  async #read(): Promise<void> {
    const { form } = this.#how;
    if (form === "changes") await this.#readChanges();
    else if (form === "transactions") await this.#readTransactions();
    else await this.#readStream();
    assert(this.#isLeft, "changes end only where they are left");
  }

  async #readChanges(): Promise<void> {
    const iterator = this.feed[Symbol.asyncIterator]();
    this.#leave = () => iterator.return!();
    let numbers: number[] = [];
    for (let step; !(step = await iterator.next()).done;) {
      const change = step.value;
      if (change.kind === "begin") numbers = [];
      if (change.kind === "insert" && change.table === "ledger") numbers.push(change.new["n"] as number);
      if (change.kind === "commit") await this.#whole(change.position, numbers, () => change.acknowledge());
    }
  }

  /** A waiting generator cannot be left, so it is aborted. */
  async #readTransactions(): Promise<void> {
    for await (const { position, changes: all, acknowledge } of this.feed.transactions()) {
      const numbers = all.flatMap((change) =>
        change.kind === "insert" && change.table === "ledger" ? [change.new["n"] as number] : [],
      );
      await this.#whole(position, numbers, acknowledge);
    }
  }

  async #readStream(): Promise<void> {
    const reader = this.feed.stream().getReader();
    this.#leave = () => reader.cancel();
    const decoder = new TextDecoder();
    let numbers: number[] = [];
    for (let step; !(step = await reader.read()).done;) {
      const text = decoder.decode(step.value);
      assert(text.endsWith("\n"), "a piece of the stream has whole lines");
      for (const line of text.slice(0, -1).split("\n")) {
        const change = JSON.parse(line) as { kind: string; table: string; position: string; new: { n: number } };
        if (change.kind === "begin") numbers = [];
        if (change.kind === "insert" && change.table === "ledger") numbers.push(change.new.n);
        if (change.kind === "commit") await this.#whole(change.position, numbers);
      }
    }
  }

  async #whole(position: string, numbers: readonly number[], acknowledge?: () => Promise<void>): Promise<void> {
    const { seen } = this.run;
    const { acknowledges, slow } = this.#how;
    seen.push({ position, numbers });
    if (slow && seen.length <= SLOW) await pause(slow);
    if (!acknowledge) return;
    this.#waiting.push({ position, acknowledge });
    for (const whole of ACKNOWLEDGING[acknowledges](this.#waiting)) await this.#acknowledge(whole);
  }

  async #acknowledge({ position, acknowledge }: Whole): Promise<void> {
    const error = await endOf(acknowledge());
    // A stream may end while its consumer is slow. Its next change is the error.
    if (codeOf(error) === "CHANGES_OVER") return assert.equal(this.feed.stats().state, "over");
    if (error !== undefined) throw error;
    const at = (one: string | undefined) => this.run.seen.findIndex((whole) => whole.position === one);
    if (at(position) > at(this.#acknowledged)) this.#acknowledged = position;
  }
}
