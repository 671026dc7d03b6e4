// What may go wrong in a session of a peer: the rows of the table, and how a fault is assigned to a row.
//
// Must not know drivers or sessions.

/** In the table's order. */
export const ROWS = {
  hangs: "a call never settles",
  hangsInSilence: "a call never settles, a link being silent",
  endHangs: "`end()` or `close()` never settles",
  endHangsInSilence: "`end()` or `close()` never settles, a link being silent",
  spins: "it never comes to rest",
  mixes: "wrong rows, or those of another call",
  holes: "a result with holes in front of its rows",
  lost: "acknowledged, and not stored",
  denied: "told that it failed on the server, or rolled back, and stored",
  twice: "stored twice",
  torn: "a transaction stored in part",
  cancelsAnother: "a cancel ends a call that nobody cancels",
  settings: "a borrower finds the setting of the one before",
  unexplained: "a call fails, and nothing has happened",
  escapes: "an error escapes to the process",
  connectionLeft: "a connection is left behind the end",
  timerLeft: "a timer is left behind the end",
  tooMany: "more connections than `max`",
} as const;

export type Row = keyof typeof ROWS;

export interface Finding {
  readonly row: Row;
  readonly text: string;
}

/** Assigns a fault that the ledger reports (tests/random/ledger.ts). */
export function ofLedger(text: string): Finding {
  if (/is stored \d+ times/.test(text)) return { row: "twice", text };
  if (text.includes("was acknowledged and is not stored")) return { row: "lost", text };
  if (text.startsWith("of ")) return { row: "torn", text };
  return { row: "denied", text };
}
