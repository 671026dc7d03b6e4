// What a call of these files is, beyond a plan of tests/random: it may make clients of its own, and it may expect an
// error in its middle.
//
// Knows plans and their worlds. Must not know which calls there are (index.ts), or what disturbs them (../session.ts).
import type * as pgz from "../../../js/index.ts";
import { assert, AssertionError } from "../../integration/assert.ts";
import type { Dice } from "../../random/dice.ts";
import type { Caller, Plan, World } from "../../random/plan.ts";

export interface CallWorld extends World {
  /** Options for more clients of the same role, without a pool's own. The session passes them where it can. */
  readonly options?: pgz.Options;
  /** What consumers of changes have seen: the session compares it with the server's log. */
  readonly followed?: Followed[];
  /** Slots that could not be dropped. */
  readonly leftSlots?: Set<string>;
}

/** What one slot has brought, over all that have read it. */
export interface Followed {
  readonly slot: string;
  readonly runs: Run[];
}

/** What one stream of changes has brought. */
export interface Run {
  /** Where the one before was acknowledged, or what it stored. None: it begins where the slot does. */
  readonly after: string | undefined;
  /** It must begin right behind that; otherwise it may repeat what was before, and nothing may be missing. */
  readonly isExact: boolean;
  /** Whole transactions, in the order in which they came. */
  readonly seen: Seen[];
}

export interface Seen {
  /** Of its commit. */
  readonly position: string;
  /** That it has stored in the ledger. */
  readonly numbers: readonly number[];
}

export interface CallPlan extends Plan {
  /** Backends that the role has at most because of this call, besides those of its caller. */
  readonly connections?: number;
  /** It holds a lease of its pool, and so hears of a login that is refused behind `earlyQuery`. */
  readonly takesLease?: true;
  /** It needs a session of its own on the server, which a pooler does not give. */
  readonly isDirect?: true;
  /** Codes that other calls of the same pool may end with because of this one. */
  readonly causes?: readonly string[];
}

export type Make = (dice: Dice, world: CallWorld) => CallPlan;

/** For calls that only a client, or a pool, has. The lists of index.ts say which. */
export const asClient = (caller: Caller) => caller as pgz.Client;
export const asPool = (caller: Caller) => caller as pgz.Pool;

export const codeOf = (error: unknown): string => (error as { code?: string } | undefined)?.code ?? "";

/** What the session's options are without a session: a mistake in how calls are wired in. */
export function optionsOf({ options }: CallWorld): pgz.Options {
  if (!options) throw new Error("these calls need `options` of their world");
  return options;
}

/** How `work` ends: its error, or `undefined`. */
export function endOf(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => undefined,
    (error: unknown) => error ?? new Error("rejected with nothing"),
  );
}

/** `work` must end with one of these codes. Any other error is thrown on: the session knows whether it may be. */
export async function refused(work: Promise<unknown>, what: string, ...codes: string[]): Promise<unknown> {
  const error = await endOf(work);
  if (error === undefined) throw new AssertionError(`${what}: expected ${codes.join(" or ")}, and it succeeded`);
  if (!codes.includes(codeOf(error))) throw error;
  return error;
}

/** The same where nothing that happens to a connection can change the code. */
export async function alwaysRefused(work: Promise<unknown>, what: string, code: string): Promise<void> {
  assert.equal(codeOf(await endOf(work)), code, what);
}

/** Either it succeeds, or it ends with one of these codes. Whether it has succeeded. */
export async function mayBeRefused(work: Promise<unknown>, ...codes: string[]): Promise<boolean> {
  const error = await endOf(work);
  if (error !== undefined && !codes.includes(codeOf(error))) throw error;
  return error === undefined;
}

/** `work`, which must settle within so many virtual milliseconds. */
export async function inTime<T>(work: Promise<T>, milliseconds: number, what: string): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new AssertionError(`${what} took over ${milliseconds} ms`)), milliseconds);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** A `close` takes less than a second whatever happens; a frozen process may make it longer by a minute. */
export const CLOSE = 62_000;

/** Ends a client or pool of a call's own, whatever `work` does. */
export async function with_<Own extends pgz.Client | pgz.Pool>(
  own: Own,
  work: (own: Own) => Promise<void>,
): Promise<void> {
  try {
    await work(own);
  } finally {
    await inTime(own.close(), CLOSE, "close()");
  }
}

/**
 * An error of a call with several writes. The session would take `retryable` of one of them for a word about all
 * numbers of the plan.
 */
export function ofSeveral(error: unknown): unknown {
  if (!(error as { retryable?: boolean }).retryable) return error;
  return Object.create(error as object, { retryable: { value: false } });
}
