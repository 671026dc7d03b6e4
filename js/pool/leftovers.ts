// What a borrower's statements may leave behind on a session: settings, temporary tables, advisory locks, LISTEN …
//
// Knows how such statements are written. It looks at the text, since most of it shows nowhere else; so it says yes too
// often (a function's name in a comment), and does not see what a function of the user's does: for that there is the
// option `reset: "always"`. Must not know connections, or how a session is reset (cleaning.ts).

/** The first word, behind comments and empty statements. */
const FIRST_WORD = /^(?:[\s;(]|--.*(?:\n|$)|\/\*[^]*?\*\/)*([a-z]+)(?:\s+([a-z]+))?/i;

/** Statements whose effect a reset undoes. DO and CALL run whatever they like. */
const RESETTABLE = /^(set|reset|listen|do|call|create|select|with|declare|unlisten)$/i;
/** Statements whose effect only the end of the session undoes, or a reset that would cost the driver its statements. */
const LASTING = /^(prepare|deallocate|discard|load)$/i;
/** What a SELECT and its like may call, and how a query makes a temporary table. */
const FUNCTIONS = new RegExp(
  `\\b(${[
    "set_config",
    "pg_(?:try_)?advisory_lock(?:_shared)?",
    "setseed",
    "lo_open",
    "dblink_connect\\w*",
    "into\\s+(?:local\\s+|global\\s+)?temp(?:orary)?",
  ].join("|")})\\b`,
  "i",
);
const TEMPORARY = /\b(?:temp|temporary|pg_temp\w*)\b/i;
/** `set local` and `set transaction` end with the transaction. */
const LOCAL = /^(local|transaction|constraints)$/i;

/** `ends`: the session cannot be given to anybody else. */
export type Change = "none" | "resets" | "ends";

/** What a text may leave behind. Several statements in one text (`simple`) are looked at together. */
export function changeOf(text: string): Change {
  const known = seen.get(text);
  if (known !== undefined) return known;
  const change = examined(text);
  if (seen.size >= MOST_SEEN) seen.clear();
  seen.set(text, change);
  return change;
}

/** Texts that were looked at; a program has few. */
const seen = new Map<string, Change>();
const MOST_SEEN = 1_000;

function examined(text: string): Change {
  const changes = text.split(";").map(changeOfOne);
  return changes.includes("ends") ? "ends" : changes.includes("resets") ? "resets" : "none";
}

function changeOfOne(text: string): Change {
  const [, first = "", second = ""] = FIRST_WORD.exec(text) ?? [];
  if (LASTING.test(first)) return "ends";
  if (FUNCTIONS.test(text)) return "resets";
  if (!RESETTABLE.test(first) || /^(select|with)$/i.test(first)) return "none";
  if (/^set$/i.test(first)) return LOCAL.test(second) ? "none" : "resets";
  if (/^create$/i.test(first)) return TEMPORARY.test(text) ? "resets" : "none";
  if (/^declare$/i.test(first)) return /\bwith\s+hold\b/i.test(text) ? "resets" : "none";
  return "resets";
}

/** What the statements of one session may have left behind since it was clean. */
export class Leftovers {
  change: Change = "none";

  note(text: string): void {
    const change = changeOf(text);
    if (change === "none" || this.change === "ends") return;
    this.change = change;
  }
}
