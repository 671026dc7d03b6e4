// What a call of a random session is, and rows whose right content is known before they are read.
//
// Must not know which calls exist (calls.ts, reading-calls.ts).
import type * as pgz from "../../js/index.ts";
import { assert } from "../integration/assert.ts";
import type { Dice } from "./dice.ts";
import type { Ledger } from "./ledger.ts";

/** The objects that run statements. */
export type Caller = pgz.Client | pgz.Pool | pgz.Transaction | pgz.Scope;

/** Options for a disturbed call. */
export interface Disturbed {
  signal?: AbortSignal;
  timeout?: number;
}

/** What the calls of a session share. */
export interface World {
  readonly schema: string;
  readonly ledger: Ledger;
  readonly sql: typeof pgz.sql;
  /** Whether streams may be compressed. */
  readonly gzip: boolean;
  /** `respond` uses a body of the runtime, whose errors have no code, and which reports late that it was left. */
  readonly hasOwnBody: boolean;
  /** Whether the schema has a domain, a composite and a table of them (judge.ts). The simulator's server has none. */
  readonly hasOwnTypes?: boolean;
  /** Columns of the table that DDL changes, as they will be when the next call runs. */
  columns: readonly string[];
  /** Maximum number of rows of a result, where a session needs fewer than a call would draw. */
  readonly mostRows?: number;
  /** A number that is never used again. */
  number: number;
}

export interface Plan {
  readonly says: string;
  /** Throws an AssertionError if the result is wrong. */
  run(caller: Caller, options: Disturbed): Promise<void>;
  /** The code of the error with which the call ends when nothing disturbs it. */
  readonly fails?: string;
  /** Numbers for the ledger. Those of a group are stored as a whole or not at all. */
  readonly groups?: readonly (readonly number[])[];
  /** The call itself settles its numbers when it resolves. */
  readonly settles?: boolean;
  /** `client`: does not run inside a transaction. `transaction`: is a transaction. `quiet`: must not be disturbed. */
  readonly kind?: "client" | "transaction" | "quiet";
  /** The consumer must finish the call before another call can be made. */
  readonly streams?: boolean;
  /** The call makes more calls after the first one is over. */
  readonly hasSeveralTurns?: boolean;
  /** The call leaves its rows early, which cancels it and so fails a transaction. */
  readonly leaves?: boolean;
}

/** Whether the runtime can compress. */
export const hasGzip = typeof CompressionStream === "function" && typeof DecompressionStream === "function";

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

/** Reads to the end, or leaves after `leave` rows. */
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

/** The rows `first` to `last`, of a kilobyte each if they are `wide`. */
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

/** Checks the rows that came before the loop was left. */
export function checkSome(rows: readonly unknown[], { first, count }: Series, leave: number): void {
  assert(rows.length >= Math.min(leave, count) && rows.length <= count, `${rows.length} rows of ${count}`);
  rows.forEach(numbersFrom(first));
}
