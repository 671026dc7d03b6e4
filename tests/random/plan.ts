// What a call of a random session is, and rows whose right answer is known before they are asked for.
//
// Must not know which calls there are (calls.ts, reading-calls.ts).
import type * as pgz from "../../js/index.ts";
import { assert } from "../integration/assert.ts";
import type { Dice } from "./dice.ts";
import type { Ledger } from "./ledger.ts";

/** What runs statements. */
export type Caller = pgz.Client | pgz.Pool | pgz.Transaction | pgz.Scope;

/** What a call is made with when it is disturbed. */
export interface Disturbed {
  signal?: AbortSignal;
  timeout?: number;
}

/** What a session's calls share. */
export interface World {
  readonly schema: string;
  readonly ledger: Ledger;
  readonly sql: typeof pgz.sql;
  /** The runtime can compress. */
  readonly gzip: boolean;
  /** `respond` has a body of the runtime's own, whose errors have no code, and which tells late that it was left. */
  readonly hasOwnBody: boolean;
  /** Columns of the table that DDL changes, as they are when the call that is made next runs. */
  columns: readonly string[];
  /** Rows of a result at most, where a session has its reasons for fewer than a call would draw. */
  readonly mostRows?: number;
  /** Never comes again. */
  number: number;
}

export interface Plan {
  readonly says: string;
  /** Throws an AssertionError where the answer is wrong. */
  run(caller: Caller, options: Disturbed): Promise<void>;
  /** The code of the error that it ends with when nothing disturbs it. */
  readonly fails?: string;
  /** Numbers for the ledger; those of a group are stored together or not at all. */
  readonly groups?: readonly (readonly number[])[];
  /** It settles its numbers by itself when it resolves. */
  readonly settles?: boolean;
  /** `client`: not inside a transaction. `transaction`: one itself. `quiet`: nothing may disturb it. */
  readonly kind?: "client" | "transaction" | "quiet";
  /** Its consumer has to finish it before another call can be made. */
  readonly streams?: boolean;
  /** It makes more calls when the first one is over. */
  readonly hasSeveralTurns?: boolean;
  /** Leaves its rows early, which cancels it and so fails a transaction. */
  readonly leaves?: boolean;
}

export type Make = (dice: Dice, world: World) => Plan;

export const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
export const lines = (ndjson: string) =>
  ndjson
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Record<string, unknown>);
export const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
export const range = (from: number, to: number) =>
  Array.from({ length: Math.max(0, to - from + 1) }, (_, at) => from + at);

/** Reads to the end, or leaves when so many rows have come. */
export async function readLines(
  stream: ReadableStream<Uint8Array>,
  leave = Infinity,
): Promise<Record<string, unknown>[]> {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let seen = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return lines(seen);
    seen += decoder.decode(value, { stream: true });
    const whole = seen.slice(0, seen.lastIndexOf("\n") + 1);
    if (lines(whole).length >= leave) {
      await reader.cancel();
      return lines(whole);
    }
  }
}

export const numbersFrom = (first: number) => (row: unknown, at: number) =>
  assert.equal((row as { n: number }).n, first + at, "a row of another query");

/** Rows `first` to `last`, of a kilobyte each where they are `wide`. */
export interface Series {
  query: pgz.Query;
  plain: string;
  first: number;
  count: number;
  says: string;
}

export function series(dice: Dice, world: World, most: number): Series {
  const first = (world.number += 1_000_000);
  const count = dice.oneIn(6) ? 0 : 1 + dice.below(Math.min(most, world.mostRows ?? most));
  const pad = dice.pick([0, 3, 900]);
  const last = first + count - 1;
  const sql = world.sql;
  return {
    first,
    count,
    query: sql`select n, repeat('x', ${pad}::int4) as pad from generate_series(${first}::int4, ${last}::int4) n`,
    plain: `select n, repeat('x', ${pad}) as pad from generate_series(${first}, ${last}) n`,
    says: `${count} rows of ${pad} bytes`,
  };
}

export function checkAll(rows: readonly unknown[], { first, count }: Series): void {
  assert.equal(rows.length, count, "rows");
  rows.forEach(numbersFrom(first));
}

/** The rows that came before the loop was left. */
export function checkSome(rows: readonly unknown[], { first, count }: Series, leave: number): void {
  assert(rows.length >= Math.min(leave, count) && rows.length <= count, `${rows.length} rows of ${count}`);
  rows.forEach(numbersFrom(first));
}
