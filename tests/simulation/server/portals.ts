// A portal: a running statement that returns as many rows at a time as are requested.
//
// Knows how rows come out of a plan. Must not know how they are sent.
import { PgError } from "./errors.ts";
import type { Doing, Wait } from "./process.ts";
import { sleep } from "./process.ts";
import type { Execution, Plan, Prepared, Rows } from "./statements/statement.ts";
import type { Transaction } from "./transactions.ts";
import type { Value } from "./values.ts";

/**
 * This many rows come in one event, and the next ones TIME_BETWEEN later, so that an interrupt arrives half way
 * through.
 */
const ROWS_AT_ONCE = 64;
const TIME_BETWEEN = 0.1;

export type Fetched = { readonly isSuspended: true } | { readonly isSuspended: false; readonly tag: string };

export class Portal {
  readonly name: string;
  /** `undefined`: an empty query. */
  readonly plan: Plan | undefined;
  readonly prepared: Prepared | undefined;
  readonly execution: Execution;
  /** By column. */
  readonly formats: readonly number[];
  readonly madeIn: Transaction | undefined;
  /** Made by DECLARE WITH HOLD: the portal outlives its transaction. */
  readonly isHoldable: boolean;
  /** Made by DECLARE. */
  readonly isCursor: boolean;
  readonly source: string;
  #rows: Rows | undefined;
  /** Rows that were already produced: those of a statement that ran to its end, or of a held cursor. */
  #ready: Value[][] = [];
  #tag: string | undefined;
  #isDone = false;
  #count = 0;

  constructor(
    given: Pick<Portal, "name" | "plan" | "prepared" | "execution" | "formats" | "madeIn" | "source"> &
      Partial<Pick<Portal, "isHoldable" | "isCursor">>,
  ) {
    this.name = given.name;
    this.plan = given.plan;
    this.prepared = given.prepared;
    this.execution = given.execution;
    this.formats = given.formats;
    this.madeIn = given.madeIn;
    this.source = given.source;
    this.isHoldable = given.isHoldable ?? false;
    this.isCursor = given.isCursor ?? false;
  }

  /** `limit` 0: all. `take` receives each row. `begun` is called when everything before the first row has succeeded. */
  *fetch(limit: number, take: (row: Value[]) => void, begun = (): void => {}): Doing<Fetched> {
    const plan = this.plan!;
    if (this.#isDone && plan.kind === "none") throw new PgError("55000", `portal "${this.name}" cannot be run`);
    this.#rows ??= plan.run(this.execution);
    if (plan.kind !== "select" && this.#tag === undefined) yield* this.#runToItsEnd();
    if (plan.kind === "none") return { isSuspended: false, tag: this.#tag! };
    begun();
    let count = 0;
    for (; !limit || count < limit; count++) {
      const row = yield* this.#next();
      if (!row) break;
      take(row);
    }
    if (limit && count === limit) return { isSuspended: true };
    // The tag counts only the rows of this fetch, not all rows that the portal has returned.
    const [tag] = /^\S+( 0(?= ))?/.exec(this.#tag!) as RegExpExecArray;
    return {
      isSuspended: false,
      tag: plan.kind !== "utility" ? `${plan.kind === "select" ? "SELECT" : tag} ${count}` : this.#tag!,
    };
  }

  /** Reads all rows, because the portal's transaction ends. */
  *materialise(): Doing<void> {
    if (this.#isDone) return;
    yield* this.#runToItsEnd();
  }

  *#runToItsEnd(): Doing<void> {
    const ready: Value[][] = this.#ready;
    this.#rows ??= this.plan!.run(this.execution);
    for (;;) {
      const { done, value }: IteratorResult<Wait | Value[], string> = this.#rows.next();
      if (done) {
        this.#tag = value;
        this.#isDone = true;
        this.#rows = EMPTY();
        return;
      }
      if (Array.isArray(value)) ready.push(value);
      else yield* waited(this.#rows, value);
    }
  }

  *#next(): Doing<Value[] | undefined> {
    const ready = this.#ready.shift();
    if (ready) return ready;
    if (this.#isDone) return undefined;
    this.#rows ??= this.plan!.run(this.execution);
    for (;;) {
      const { done, value } = this.#rows.next();
      if (done) {
        this.#isDone = true;
        this.#tag = value;
        return undefined;
      }
      if (!Array.isArray(value)) {
        yield* waited(this.#rows, value);
        continue;
      }
      if (++this.#count % ROWS_AT_ONCE === 0) yield* sleep(this.execution.session.clock, TIME_BETWEEN);
      return value;
    }
  }
}

// eslint-disable-next-line require-yield
const EMPTY = function* (): Rows {
  return "";
};

/** Waits in place of the plan, which receives an interrupt. */
function* waited(rows: Rows, wait: Wait): Doing<void> {
  try {
    yield wait;
  } catch (error) {
    rows.throw(error); // the plan throws too, and ends
    throw error;
  }
}
