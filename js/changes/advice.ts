// Advice on what to change when a server, or a pooler before it, refuses a stream of changes.
//
// Knows the server's errors around replication. Must not know when they arise.
import { PostgresError, UsageError, type PgzError, type Client, type Pool } from "../index.ts";
import { configOf } from "./config.ts";

/** Advice by SQLSTATE, and by the server's message where a code has several meanings. The first match is used. */
const ADVICE: readonly (readonly [code: RegExp, words: RegExp, advice: string])[] = [
  [/^55000$/, /wal_level/, "Set wal_level = logical in the server's configuration, and restart it."],
  [/^0A000$|^55000$/, /recovery/, "A standby decodes changes only since PostgreSQL 16: connect to the primary."],
  [
    /^55000$/,
    // PostgreSQL 18 says "can no longer access", and older versions say the others.
    /can no longer|cannot read from logical|invalidated/,
    "The server has removed WAL that was not acknowledged on this slot (max_slot_wal_keep_size, or " +
      "idle_replication_slot_timeout). Drop the slot, make it anew, and read the tables again (createSlot: " +
      '"permanent", snapshot: true).',
  ],
  [
    /^42501$/,
    /replication|WAL sender/i,
    "The role needs REPLICATION: alter role … replication; on managed servers their own role or function for it.",
  ],
  [
    /^42501$/,
    /must be owner|for database/,
    'Option "tables" makes a publication: the role must own them, and have CREATE on the database. Otherwise let ' +
      'another role make one, and give "publication".',
  ],
  [
    /^42501$/,
    /row-level security/,
    "A snapshot without the rows that policies hide would be wrong: the role needs BYPASSRLS, or must own the table.",
  ],
  [
    /^42501$/,
    /for (?:table|view|schema)/,
    "For a snapshot the role needs SELECT on the publication's tables, on each partition of a partitioned table, and " +
      "USAGE on their schemas.",
  ],
  [/^42809$/, /./, "A snapshot reads tables only. Foreign tables and views have no changes either."],
  [/^42704$/, /^replication slot/, 'Make it first, or with createSlot: "permanent".'],
  [
    /^42704$/,
    /^publication/,
    "Make it first: create publication … for table … If it exists now, it was made after the position of the slot, " +
      "and the changes before it cannot be read: drop the slot and make it anew.",
  ],
  [/^53400$/, /slots/, "Raise max_replication_slots, or drop an unused slot."],
  [/^53300$/, /./, "Raise max_wal_senders: each stream of changes takes one."],
  [
    /^08P01$/,
    /startup parameter|replication/,
    "A pooler in between, such as PgBouncer, does not pass on what a stream of changes needs: connect to the " +
      "server itself.",
  ],
];

/** Returns the same error, with advice if there is some. */
export function advised<E>(error: E): E {
  if (!(error instanceof PostgresError) || error.advice !== undefined) return error;
  const found = ADVICE.find(([code, words]) => code.test(error.code) && words.test(error.message));
  if (!found) return error;
  return withAdvice(error, found[2]);
}

/** Gives the error this advice, as errors of calls have theirs. */
export function withAdvice<E extends PgzError>(error: E, advice: string | undefined): E {
  if (advice === undefined) return error;
  const hide = (name: string, value: string) =>
    Object.defineProperty(error, name, { value, configurable: true, writable: true });
  hide("advice", advice);
  if (error.stack) hide("stack", error.stack.replace(/(?=\n {4}at )|$/, `\nADVICE: ${advice}`));
  return error;
}

/** @throws UsageError if replication is impossible */
export function refuseHyperdrive(db: Client | Pool): void {
  const { hosts } = configOf(db);
  if (hosts.some(({ host }) => host.endsWith(".hyperdrive.local")))
    throw new UsageError(
      "INVALID_OPTION",
      "Hyperdrive does not pass on replication: give changes a client that connects to the server itself.",
    );
}
