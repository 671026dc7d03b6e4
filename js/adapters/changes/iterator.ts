// `for await` over changes. While they are at hand each takes two promises, the loop's own included; four by an async
// generator (v8.promiseHooks, Node 24).
//
//   next() ──> at hand? ──> it is given
//                 └──> the last commit is acknowledged, where that is the option ──> more of them are read
//
// Knows the order in which changes are given. Must not know connections or lines.
import type { Feed } from "./feed.ts";
import type { AnyChange } from "./kinds.ts";
import type { ChangeReader } from "./reader.ts";

type Result<Row> = IteratorResult<AnyChange<Row>, undefined>;

const DONE = { done: true, value: undefined } as const;

export class ChangeIterator<Row> implements AsyncIterableIterator<AnyChange<Row>> {
  readonly #feed: Feed;
  readonly #reader: ChangeReader;
  readonly #acknowledges: boolean;
  /** What has come, of which the first `#given` were given. */
  #atHand: readonly AnyChange<Row>[] = [];
  #given = 0;
  /** What was given last, if it is to be acknowledged with the next call. */
  #owed: { acknowledge(): Promise<void> } | undefined;
  /** The last of the calls that wait; each waits for the one before. */
  #waiting: Promise<unknown> | undefined;
  #ending: Promise<void> | undefined;

  /** `acknowledges`: what was given is acknowledged when the next one is asked for. */
  constructor(feed: Feed, reader: ChangeReader, acknowledges: boolean) {
    this.#feed = feed;
    this.#reader = reader;
    this.#acknowledges = acknowledges;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<Result<Row>> {
    if (!this.#waiting && !this.#owed && this.#given < this.#atHand.length) return Promise.resolve(this.#give());
    const turn = this.#next(this.#waiting);
    const waiting: Promise<void> = turn.then(
      () => this.#passed(waiting),
      () => this.#passed(waiting),
    );
    this.#waiting = waiting;
    return turn;
  }

  /** Ends the connection. A call that waits is over. */
  async return(): Promise<Result<Row>> {
    await this.#end();
    return DONE;
  }

  async #next(before: Promise<unknown> | undefined): Promise<Result<Row>> {
    await before;
    try {
      await this.#acknowledgeOwed();
      while (this.#given === this.#atHand.length) {
        if (this.#ending) return DONE;
        this.#atHand = this.#reader.readAll(await this.#feed.next()) as AnyChange<Row>[];
        this.#given = 0;
      }
      return this.#give();
    } catch (error) {
      if (this.#ending) return DONE;
      await this.#end();
      throw error;
    }
  }

  #passed(waiting: Promise<unknown>): void {
    if (this.#waiting === waiting) this.#waiting = undefined;
  }

  #give(): Result<Row> {
    const value = this.#atHand[this.#given++]!;
    if (this.#acknowledges && "acknowledge" in value) this.#owed = value;
    return { done: false, value };
  }

  async #acknowledgeOwed(): Promise<void> {
    const owed = this.#owed;
    this.#owed = undefined;
    await owed?.acknowledge();
  }

  #end(): Promise<void> {
    this.#atHand = [];
    this.#given = 0;
    return (this.#ending ??= this.#feed.end());
  }
}
