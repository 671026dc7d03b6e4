// When SQL is sent a second time. This table is the one place that says so; each call that has failed asks it.
//
//   why it failed ──> what may be left of it ──> may rows of it have been seen? ──> how often already ──> what comes next
//
// Nothing that may have had an effect is sent again, whatever the cause. docs/architecture.md shows the table, and
// tests/unit/again.test.ts walks through every state of it. Knows what became of an attempt. Must not know SQLSTATEs
// (statement/attempts.ts tells causes by them), connections, or how an attempt is made.

/** Why an attempt failed. */
export type Cause =
  /** The server had ended the session before it began with the call. */
  | "ended session"
  /** The server has let nobody in, and may do so later. */
  | "refused login"
  /** The server rolled it back for a conflict with another transaction (40001, 40P01). */
  | "conflict"
  /** A CancelRequest that was for another call ended it. */
  | "cancel"
  /** The server has no binary form of a type that it returns, which is asked for as text from now on. */
  | "no binary form"
  /** What was known of the statement may not hold any more, or nothing was known. */
  | "outdated";

/** What may be left of it in the database. */
export type Effect =
  /** It did not leave, or the server refused it before BindComplete. */
  | "none"
  /** It may have run, and the server has rolled back all that it did. */
  | "undone"
  /** It may have run, or a part of it is committed. */
  | "unknown";

/** Where it ran. */
export type Place =
  /** By itself: its own transaction. */
  | "alone"
  /** BEGIN left with it, so that the transaction holds nothing else. */
  | "begins"
  /** In a transaction, which has failed with it. */
  | "inside";

export interface Attempt {
  readonly effect: Effect;
  readonly place: Place;
  /** Rows of it have reached the user. */
  readonly isSeen: boolean;
  /** How often it has been sent again for this cause. */
  readonly repeats: number;
  /** How often that may be. */
  readonly most: number;
}

/** What comes next. */
export type Next =
  | "fail"
  /** On the same session, when no cancel is under way on it any more. */
  | "here"
  /** The same after a pause, which `onRetry` tells of. */
  | "after a pause"
  /** The same by what the server says of the statement now. */
  | "described"
  /** On another session. */
  | "elsewhere";

interface Rule {
  readonly next: Next;
  readonly effects: readonly Effect[];
  readonly places: readonly Place[];
}

export const RULES: Readonly<Record<Cause, Rule>> = {
  "ended session": { next: "elsewhere", effects: ["none"], places: ["alone"] },
  "refused login": { next: "elsewhere", effects: ["none"], places: ["alone"] },
  conflict: { next: "after a pause", effects: ["none", "undone"], places: ["alone"] },
  cancel: { next: "here", effects: ["none", "undone"], places: ["alone"] },
  "no binary form": { next: "here", effects: ["none", "undone"], places: ["alone"] },
  outdated: { next: "described", effects: ["none", "undone"], places: ["alone", "begins"] },
};

export function nextAfter(cause: Cause, { effect, place, isSeen, repeats, most }: Attempt): Next {
  const { next, effects, places } = RULES[cause];
  const mayRepeat = !isSeen && repeats < most && effects.includes(effect) && places.includes(place);
  return mayRepeat ? next : "fail";
}

/** A question of our own, which a CancelRequest for another call ended: `status` is that of the transaction behind it. */
export function mayAskAgain(status: string): boolean {
  const place = status === "I" ? "alone" : "inside";
  return nextAfter("cancel", { effect: "none", place, isSeen: false, repeats: 0, most: Infinity }) !== "fail";
}
