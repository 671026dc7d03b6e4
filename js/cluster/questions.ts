// The questions to servers about their place in the cluster, as SQL, and what the answers mean.
//
// What an ordinary role may see, by experiment on PostgreSQL 15 and 19 (tests/cluster/facts.test.ts):
//
// - `pg_control_system()` has the identity of the cluster, on a primary and on its standbys.
// - `pg_walfile_name()` has the timeline of a primary, correct from its promotion on. `pg_control_checkpoint()` has
//   only that of the last checkpoint. A standby refuses `pg_walfile_name()`.
// - A standby's timeline is in `pg_stat_wal_receiver`, but only members of pg_read_all_stats see it there. Others see
//   the timeline of the last restart point in `pg_control_checkpoint()` and `pg_control_recovery()`: the standby has
//   reached that one, or a later one.
//
// Must not know pools, or what is done with an answer.
import { ofPreludes, type PgzError } from "../index.ts";
import { endOfRecord, lsnOf, lsnText, type Position } from "./position.ts";

/** What a server says about itself. */
export interface ServerStatus extends Position {
  readonly isStandby: boolean;
}

/** The timeline that a standby has reached, at least. */
const STANDBY_TIMELINE =
  "greatest((select timeline_id from pg_catalog.pg_control_checkpoint())," +
  "(select min_recovery_end_timeline from pg_catalog.pg_control_recovery())," +
  "(select received_tli from pg_catalog.pg_stat_wal_receiver))";

/** The name of the primary's present WAL file. Its first 8 hexadecimal digits are the timeline. */
const PRIMARY_FILE = "pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn())";
const SYSTEM = "(select system_identifier from pg_catalog.pg_control_system())";
const PAGE_SIZE = "pg_catalog.current_setting('wal_block_size')";
const IS_STANDBY = "pg_catalog.pg_is_in_recovery()";

/** Returns the question for one {@link StatusRow}. `canReadIdentity`: the role may read the cluster's identity. */
export function statusQuestion(canReadIdentity: boolean): string {
  const identity = canReadIdentity
    ? `${SYSTEM}::pg_catalog.text, case when ${IS_STANDBY} then ${STANDBY_TIMELINE} end`
    : "null::pg_catalog.text, null::int";
  return (
    `select ${IS_STANDBY}, case when ${IS_STANDBY} then pg_catalog.pg_last_wal_replay_lsn() ` +
    `else pg_catalog.pg_current_wal_insert_lsn() end::pg_catalog.text, ${identity}, ` +
    `case when not ${IS_STANDBY} then ${PRIMARY_FILE} end, ${PAGE_SIZE}`
  );
}

/**
 * Columns: whether the server is a standby, its position, the system identifier, a standby's timeline, the name of a
 * primary's WAL file, the size of a page of the log.
 */
export type StatusRow = [boolean, string | null, string | null, number | null, string | null, string];

export function statusOf([isStandby, lsn, system, timeline, file, pageSize]: StatusRow): ServerStatus {
  return {
    isStandby,
    lsn: endOfRecord(lsnOf(lsn ?? "0/0"), Number(pageSize)),
    system: BigInt(system ?? 0),
    timeline: file === null ? (timeline ?? 0) : timelineOf(file),
  };
}

function timelineOf(file: string): number {
  return parseInt(file.slice(0, 8), 16);
}

/**
 * Asks how far a standby is; null: the server is no longer a standby. Its snapshot lasts only as long as the statement
 * runs, so it does not block replay for longer.
 */
export const REPLAY_POSITION = `select
  case when ${IS_STANDBY} then pg_catalog.pg_last_wal_replay_lsn() end::pg_catalog.text`;

// -- the position of what has committed -------------------------------------------------------------------------------

/** Returns the question that is sent after COMMIT. Its row has the position, and the size of a page. */
export function positionQuestion(canReadIdentity: boolean): string {
  const system = canReadIdentity ? `${SYSTEM}::pg_catalog.text` : "'0'";
  return `select ${system}, ${PRIMARY_FILE}, pg_catalog.pg_current_wal_insert_lsn()::pg_catalog.text, ${PAGE_SIZE}`;
}

export type PositionRow = [string, string, string, string];

export function positionIn([system, file, lsn, pageSize]: PositionRow): Position {
  return { system: BigInt(system), timeline: timelineOf(file), lsn: endOfRecord(lsnOf(lsn), Number(pageSize)) };
}

// -- guards -----------------------------------------------------------------------------------------------------------

/** Why a server may not answer a read after a position. */
export type Refusal =
  /** It is a standby that has not reached the position. */
  | "behind"
  /** It belongs to another cluster, or its timeline is another one or unknown. */
  | "unknown"
  /** It is no longer a standby, or no longer a primary, or it is a primary whose log does not have the position. */
  | "role"
  /** The transaction's snapshot may be older than the answer of the guard. */
  | "isolation";

/** A condition under which the guard fails, and the reason that its message names. */
type Check = readonly [condition: string, reason: Refusal];

/** Begins the reason in the message of a failed guard. */
const MARK = "pgz-edge:";

/**
 * Returns the guard that is sent in front of a statement, in its transaction. It fails if the standby has not reached
 * the position, and the server then skips the statement. In READ COMMITTED the statement takes its snapshot after the
 * guard, so it sees everything that was replayed. In the other levels the statement would use the guard's snapshot,
 * which is taken before the guard asks how far the standby is. So in those levels the guard fails, too.
 *
 * SQL has no function that raises an error. But the cast of a text that is not a `pg_lsn` fails.
 */
export function standbyGuardWithStatement(position: Position): string {
  return guard([NOT_A_STANDBY, OTHER_ISOLATION, ...notReached(position)]);
}

/** The same in a transaction of its own, where the level of isolation does not matter. */
export function standbyGuardAlone(position: Position): string {
  return guard([NOT_A_STANDBY, ...notReached(position)]);
}

const NOT_A_STANDBY: Check = [`not ${IS_STANDBY}`, "role"];
const OTHER_ISOLATION: Check = [
  "pg_catalog.current_setting('transaction_isolation') operator(pg_catalog.<>)" +
    "all(array['read committed','read uncommitted'])",
  "isolation",
];

function notReached({ system, timeline, lsn }: Position): Check[] {
  return [
    [`${SYSTEM} operator(pg_catalog.<>)'${system}'`, "unknown"],
    [`${STANDBY_TIMELINE} operator(pg_catalog.<>)${timeline}`, "unknown"],
    [`coalesce(pg_catalog.pg_last_wal_replay_lsn() operator(pg_catalog.<)'${lsnText(lsn)}', true)`, "behind"],
  ];
}

/**
 * The same for a primary, which has reached the position. The exceptions are a primary that a promotion has left
 * behind, and one that was restored to an earlier point of the same log.
 */
export function primaryGuard({ system, timeline, lsn }: Position): string {
  const own = `pg_catalog.textcat('x',pg_catalog.left(${PRIMARY_FILE},8))::bit(32)::bigint`;
  const isOlder = `${own} operator(pg_catalog.<)${timeline}`;
  const isShorter = `pg_catalog.pg_current_wal_insert_lsn() operator(pg_catalog.<)'${lsnText(lsn)}'`;
  return guard([
    [IS_STANDBY, "role"],
    [
      `${SYSTEM} operator(pg_catalog.=)'${system}' and ` +
        `(${isOlder} or ${own} operator(pg_catalog.=)${timeline} and ${isShorter})`,
      "role",
    ],
  ]);
}

/**
 * Returns the statement that waits on PostgreSQL 19, and is sent in front of a guard. It waits until the standby has
 * reached the position, for so many milliseconds, at least 1. It takes no snapshot. Its row says how the wait ended.
 * The driver ignores the row, because the guard decides.
 */
export function waitFor({ lsn }: Position, milliseconds: number): string {
  return `wait for lsn '${lsnText(lsn)}' with (timeout ${milliseconds}, no_throw)`;
}

function guard(checks: readonly Check[]): string {
  const cases = checks.map(([condition, reason]) => `when ${condition} then '${MARK}${reason}'`);
  return `select where (case ${cases.join(" ")} end)::pg_catalog.pg_lsn is not null`;
}

/**
 * Returns why a guard has failed, if this is the error of a guard, which is a statement of our own. An error of the
 * caller's statement may have the same words, from a value of the caller's.
 */
export function refusalOf(error: unknown): Refusal | undefined {
  return ofPreludes.has(error as PgzError) ? refusalIn(error) : undefined;
}

/** Returns the reason that the message of an error names. */
export function refusalIn(error: unknown): Refusal | undefined {
  const { code, message } = Object(error) as { code?: unknown; message?: unknown };
  if (code !== "22P02" || typeof message !== "string") return undefined;
  return /"pgz-edge:(behind|unknown|role|isolation)"/.exec(message)?.[1] as Refusal | undefined;
}

/** Returns whether the role may not read the identity, or the server has none (42501, 42883, 0A000, 42P01). */
export function hasNoIdentity({ code }: { readonly code?: unknown }): boolean {
  return ["42501", "42883", "0A000", "42P01"].includes(String(code));
}
