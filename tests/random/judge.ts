// A call of a plan: how it is run, and what its end says about the numbers that it writes. Random sessions, the soaked
// pool and the tenants behind a pooler judge by it.
//
// Must not know what disturbs a call: its caller says which codes are explained.
import type * as pgz from "../../js/index.ts";
import { AssertionError } from "../integration/assert.ts";
import { hasGzip, type Caller, type Disturbed, type Plan, type World } from "./plan.ts";
import { Ledger } from "./ledger.ts";

/** The tables of a world, for any role. */
export const tablesOf = (schema: string) => `
  create schema ${schema}; create table ${schema}.ledger (n int4); create table ${schema}.shape (a int4, b text);
  insert into ${schema}.shape values (1, 'b');
  create type ${schema}.mood as enum ('calm', 'glad', 'ü €');
  create domain ${schema}.whole as int4; create type ${schema}.pair as (a ${schema}.whole, "b c" text, m ${schema}.mood);
  create table ${schema}.own_types (moods ${schema}.mood[], label text, pair ${schema}.pair, whole ${schema}.whole);
  insert into ${schema}.own_types values ('{glad}', 'x', '(1,y,calm)', 7);
  grant all on schema ${schema} to public; grant all on all tables in schema ${schema} to public;`;

/** A world over these tables, whose numbers begin after `last`. */
export function worldOf(
  schema: string,
  sql: typeof pgz.sql,
  { last = 0, hasOwnBody = false }: { last?: number; hasOwnBody?: boolean } = {},
): World {
  const ledger = new Ledger(last);
  return { schema, ledger, sql, gzip: hasGzip, hasOwnBody, hasOwnTypes: true, columns: ["a", "b"], number: last };
}

/** Runs the call, and returns its error, or `undefined`. A call that is late has an AssertionError. */
export async function ended(plan: Plan, caller: Caller, options: Disturbed, ledger: Ledger, deadline: number) {
  for (const group of plan.groups ?? []) ledger.begin(group);
  const settled = plan.run(caller, options).then(
    () => undefined,
    (reason: unknown) => reason ?? new Error("rejected with nothing"),
  );
  return await within(deadline, settled);
}

/** Settles the numbers of a call. Returns what is wrong with its end, if anything is. */
export function judged(
  plan: Plan,
  ledger: Ledger,
  error: unknown,
  explains: (code: string) => boolean,
): string | undefined {
  const numbers = plan.groups?.flat() ?? [];
  if (error === undefined) {
    if (plan.fails) return `did not fail with ${plan.fails}`;
    if (!plan.settles) ledger.settle(numbers, "stored");
    return undefined;
  }
  const { code = "", hasNoEffect, severity, stack } = error as Record<string, string | undefined>;
  if (error instanceof AssertionError || !explains(code)) return `${code} ${stack ?? String(error)}`;
  if (hasNoEffect || (severity === "ERROR" && !plan.settles)) ledger.settle(numbers, "absent");
  return undefined;
}

/** Compares the ledger with rows of a number and its count. */
export const differences = (ledger: Ledger, found: readonly (readonly unknown[])[]) =>
  ledger.compare(new Map(found.map(([n, times]) => [Number(n), Number(times)])));

/** Returns the result of `work`, or an error if it is late. */
export async function within<T>(ms: number, work: Promise<T>): Promise<T | Error> {
  let timer;
  const late = new Promise<Error>((resolve) => {
    timer = setTimeout(() => resolve(new AssertionError(`not settled within ${ms} ms`)), ms);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
