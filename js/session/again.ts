// Decides when SQL is sent a second time. This table is the only place that does; each call that has failed asks it.
//
//   why it failed ──> what effect may remain ──> may rows have been seen? ──> how often repeated ──> what comes next
//
// Nothing that may have had an effect is sent again, whatever the cause. docs/architecture.md shows the table, and
// tests/unit/again.test.ts walks through every state of it. Knows the outcome of an attempt. Must not know SQLSTATEs
// (statement/attempts.ts maps them to causes), connections, or how an attempt is made.

/** Why an attempt failed. */
export type Cause =
  /** The server had ended the session before it started the call. */
  | "ended session"
  /** The server refused the login, and may accept one later. */
  | "refused login"
  /** The server rolled the call back because of a conflict with another transaction (40001, 40P01). */
  | "conflict"
  /** A CancelRequest for another call ended it. */
  | "cancel"
  /** The server has no binary form of a returned type, which is requested as text from now on. */
  | "no binary form"
  /** What was known of the statement may be out of date, or nothing was known. */
  | "outdated";

/** What effect of the attempt may remain in the database. */
export type Effect =
  /** It was not sent, or the server refused it before BindComplete. */
  | "none"
  /** It may have run, and the server has rolled back everything that it did. */
  | "undone"
  /** It may have run, or a part of it is committed. */
  | "unknown";

/** Where the attempt ran. */
export type Place =
  /** By itself, in its own transaction. */
  | "alone"
  /** BEGIN was sent with it, so the transaction holds nothing else. */
  | "begins"
  /** In a transaction, which has failed with it. */
  | "inside";

export interface Attempt {
  readonly effect: Effect;
  readonly place: Place;
  /** Rows of it have reached the user. */
  readonly userHasRows: boolean;
  /** How often it has been sent again for this cause. */
  readonly repeats: number;
  /** How often it may be sent again for this cause. */
  readonly most: number;
}

/** What comes next. */
export type Next =
  | "fail"
  /** It is sent again on the same session, once no cancel is in flight there. */
  | "here"
  /** Like `here`, but after a pause, which `onRetry` reports. */
  | "after a pause"
  /** Like `here`, but with a new description of the statement from the server. */
  | "described"
  /** It is sent again on another session. */
  | "elsewhere";

interface Rule {
  readonly next: Next;
  readonly effects: readonly Effect[];
  readonly places: readonly Place[];
}

export const RULES: Readonly<Record<Cause, Rule>> = {
  "ended session": { next: "elsewhere", effects: ["none"], places: ["alone", "begins"] },
  "refused login": { next: "elsewhere", effects: ["none"], places: ["alone", "begins"] },
  conflict: { next: "after a pause", effects: ["none", "undone"], places: ["alone"] },
  cancel: { next: "here", effects: ["none", "undone"], places: ["alone"] },
  "no binary form": { next: "here", effects: ["none", "undone"], places: ["alone"] },
  outdated: { next: "described", effects: ["none", "undone"], places: ["alone", "begins"] },
};

export function nextAfter(cause: Cause, { effect, place, userHasRows, repeats, most }: Attempt): Next {
  const { next, effects, places } = RULES[cause];
  const mayRepeat = !userHasRows && repeats < most && effects.includes(effect) && places.includes(place);
  return mayRepeat ? next : "fail";
}

/**
 * Whether a query of the driver's own may be repeated after a CancelRequest for another call has ended it. `status`:
 * the transaction status after it.
 */
export function mayAskAgain(status: string): boolean {
  const place = status === "I" ? "alone" : "inside";
  return nextAfter("cancel", { effect: "none", place, userHasRows: false, repeats: 0, most: Infinity }) !== "fail";
}
