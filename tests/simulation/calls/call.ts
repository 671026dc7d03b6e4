// What a call of these files is, beyond a plan of tests/random: it may make its own clients, and it may expect an error
// in the middle.
//
// Knows plans and their worlds. Must not know which calls exist (index.ts), or what disturbs them (../session.ts).
import type * as pgz from "../../../js/index.ts";
import { assert, AssertionError } from "../../integration/assert.ts";
import type { Dice } from "../../random/dice.ts";
import type { Caller, Plan, World } from "../../random/plan.ts";

export interface CallWorld extends World {
  /** Options for more clients of the same role, without those of a pool. The session passes them where it can. */
  readonly options?: pgz.Options;
  /** What consumers of changes have seen. The session compares it with the server's log. */
  readonly followed?: Followed[];
  /** Slots that could not be dropped. */
  readonly leftSlots?: Set<string>;
}

/** The changes that one slot has delivered, over all its readers. */
export interface Followed {
  readonly slot: string;
  readonly runs: Run[];
}

/** The changes that one stream has delivered. */
export interface Run {
  /**
   * The position that the previous stream has acknowledged, or stored. `undefined`: it begins where the slot begins.
   */
  readonly after: string | undefined;
  /**
   * Whether the stream must begin exactly after that. Otherwise it may repeat earlier transactions, but must omit none.
   */
  readonly isExact: boolean;
  /** Whole transactions, in the order in which they arrived. */
  readonly seen: Seen[];
}

export interface Seen {
  /** The position of its commit. */
  readonly position: string;
  /** The numbers that it has stored in the ledger. */
  readonly numbers: readonly number[];
}

export interface CallPlan extends Plan {
  /** Maximum number of backends that this call adds to those of its caller. */
  readonly connections?: number;
  /** The call holds a lease of its pool, so it sees a login that is refused after `earlyQuery`. */
  readonly takesLease?: true;
  /** The call needs its own session on the server, which a pooler does not give. */
  readonly isDirect?: true;
  /** Codes with which other calls of the same pool may end because of this call. */
  readonly causes?: readonly string[];
}

export type Make = (dice: Dice, world: CallWorld) => CallPlan;

/** For calls that only a client, or only a pool, supports. The lists of index.ts say which. */
export const asClient = (caller: Caller) => caller as pgz.Client;
export const asPool = (caller: Caller) => caller as pgz.Pool;

export const codeOf = (error: unknown): string => (error as { code?: string } | undefined)?.code ?? "";

/** Returns the session's options. Without a session this is a mistake in how calls are connected. */
export function optionsOf({ options }: CallWorld): pgz.Options {
  if (!options) throw new Error("these calls need `options` of their world");
  return options;
}

/** Returns the outcome of `work`: its error, or `undefined`. */
export function endOf(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => undefined,
    (error: unknown) => error ?? new Error("rejected with nothing"),
  );
}

/** `work` must fail with one of these codes. Any other error is rethrown: the session knows whether it is allowed. */
export async function refused(work: Promise<unknown>, what: string, ...codes: string[]): Promise<unknown> {
  const error = await endOf(work);
  if (error === undefined) throw new AssertionError(`${what}: expected ${codes.join(" or ")}, and it succeeded`);
  if (!codes.includes(codeOf(error))) throw error;
  return error;
}

/** The same, where nothing that happens to a connection can change the code. */
export async function alwaysRefused(work: Promise<unknown>, what: string, code: string): Promise<void> {
  assert.equal(codeOf(await endOf(work)), code, what);
}

/** `work` succeeds, or fails with one of these codes. Returns whether it succeeded. */
export async function mayBeRefused(work: Promise<unknown>, ...codes: string[]): Promise<boolean> {
  const error = await endOf(work);
  if (error !== undefined && !codes.includes(codeOf(error))) throw error;
  return error === undefined;
}

/** Returns `work`, which must settle within this many virtual milliseconds. */
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

/** A `close` takes less than a second in every case, plus a minute if the process freezes. */
export const CLOSE = 62_000;

/** Closes a client or pool of the call, whatever the outcome of `work`. */
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
 * An error of a call with several writes. The session would apply the `hasNoEffect` of one write to all numbers of the
 * plan.
 */
export function ofSeveral(error: unknown): unknown {
  if (!(error as { hasNoEffect?: boolean }).hasNoEffect) return error;
  return Object.create(error as object, { hasNoEffect: { value: false } });
}
