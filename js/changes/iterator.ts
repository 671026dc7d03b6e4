// `for await` over changes. A buffered change costs two promises, including the loop's own. With an async generator it
// would cost four (counted with v8.promiseHooks on Node 24).
//
//   next() ──> buffered? ──> returned
//                 └──> acknowledge the last commit, if that is the option ──> read more changes
//
// Knows the order in which changes are returned. Must not know connections or NDJSON.
import type { Feed } from "./feed.ts";
import type { AnyChange } from "./kinds.ts";
import type { ChangeReader } from "./reader.ts";

type Result<Row> = IteratorResult<AnyChange<Row>, undefined>;

const DONE = { done: true, value: undefined } as const;

export class ChangeIterator<Row> implements AsyncIterableIterator<AnyChange<Row>> {
  readonly #feed: Feed;
  readonly #reader: ChangeReader;
  readonly #acknowledges: boolean;
  /** The buffered changes. The first `#given` of them have been returned. */
  #atHand: readonly AnyChange<Row>[] = [];
  #given = 0;
  /** The change that was returned last, if the next call must acknowledge it. */
  #owed: { acknowledge(): Promise<void> } | undefined;
  /** The last of the waiting calls. Each waits for the previous one. */
  #waiting: Promise<unknown> | undefined;
  #ending: Promise<void> | undefined;

  /** With `acknowledges`, a returned commit is acknowledged when the next change is requested. */
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

  /** Ends the connection. A waiting call resolves with the end of the iteration. */
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
      await this.#end(error);
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
    if (!owed) return;
    this.#owed = undefined;
    this.#feed.checkOpen();
    await owed.acknowledge();
  }

  #end(error?: unknown): Promise<void> {
    this.#atHand = [];
    this.#given = 0;
    return (this.#ending ??= this.#feed.end(error));
  }
}
