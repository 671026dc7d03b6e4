// What servers are asked about their place in the cluster: as SQL, and what the answers mean.
//
// What an ordinary role is told, by experiment on PostgreSQL 15 and 18 (tests/cluster/facts.test.ts):
//
// - `pg_control_system()` has the identity of the cluster, on a primary and on its standbys.
// - `pg_walfile_name()` has the timeline of a primary: right from its promotion on, where `pg_control_checkpoint()` has
//   that of the last checkpoint. A standby refuses it.
// - A standby's timeline is told by `pg_stat_wal_receiver`, but only to members of pg_read_all_stats. To others
//   `pg_control_checkpoint()` and `pg_control_recovery()` tell the one of the last restart point: the standby has come
//   there, or further.
//
// Must not know pools, or what is done with an answer.
import { ofPreludes, type PgzError } from "../../index.ts";
import { endOfRecord, lsnOf, lsnText, type Position } from "./position.ts";

/** What a server says of itself. */
export interface Told extends Position {
  readonly isStandby: boolean;
}

/** The timeline that a standby has reached, at least. */
const STANDBY_TIMELINE =
  "greatest((select timeline_id from pg_catalog.pg_control_checkpoint())," +
  "(select min_recovery_end_timeline from pg_catalog.pg_control_recovery())," +
  "(select received_tli from pg_catalog.pg_stat_wal_receiver))";

/** As hexadecimal, in a file's name. */
const PRIMARY_FILE = "pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn())";
const SYSTEM = "(select system_identifier from pg_catalog.pg_control_system())";
const PAGE_SIZE = "pg_catalog.current_setting('wal_block_size')";
const IS_STANDBY = "pg_catalog.pg_is_in_recovery()";

/** One row: {@link ToldRow}. `isIdentified`: the role may ask who the cluster is. */
export function whoAreYou(isIdentified: boolean): string {
  const identity = isIdentified
    ? `${SYSTEM}::text, case when ${IS_STANDBY} then ${STANDBY_TIMELINE} end`
    : "null::text, null::int4";
  return (
    `select ${IS_STANDBY}, case when ${IS_STANDBY} then pg_catalog.pg_last_wal_replay_lsn() ` +
    `else pg_catalog.pg_current_wal_insert_lsn() end::text, ${identity}, ` +
    `case when not ${IS_STANDBY} then ${PRIMARY_FILE} end, ${PAGE_SIZE}`
  );
}

/**
 * A standby, how far it is, the system's identifier, a standby's timeline, the name of a primary's file of the log, the
 * size of a page of the log.
 */
export type ToldRow = [boolean, string | null, string | null, number | null, string | null, string];

export function told([isStandby, lsn, system, timeline, file, pageSize]: ToldRow): Told {
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
 * How far a standby is; null: it is none any more. Takes no snapshot that would be in the way of what it replays for
 * longer than it runs.
 */
export const HOW_FAR = `select case when ${IS_STANDBY} then pg_catalog.pg_last_wal_replay_lsn() end::text`;

// -- the position of what has committed --------------------------------------------------------------------------------

/** Asked behind COMMIT: the row has the position, and the size of a page. */
export function whereAreYou(isIdentified: boolean): string {
  const system = isIdentified ? `${SYSTEM}::text` : "'0'";
  return `select ${system}, ${PRIMARY_FILE}, pg_catalog.pg_current_wal_insert_lsn()::text, ${PAGE_SIZE}`;
}

export type WhereRow = [string, string, string, string];

export function where([system, file, lsn, pageSize]: WhereRow): Position {
  return { system: BigInt(system), timeline: timelineOf(file), lsn: endOfRecord(lsnOf(lsn), Number(pageSize)) };
}

// -- guards ------------------------------------------------------------------------------------------------------------

/** Why a server may not answer behind a position. */
export type Refusal =
  /** It is a standby that has not come as far. */
  | "behind"
  /** It is another cluster, or its timeline is another one, or not known. */
  | "unknown"
  /** It is no standby, or no primary, any more; or a primary of an older timeline. */
  | "role"
  /** The transaction's snapshot may be older than the answer to this question. */
  | "isolation";

/** In the words of a failed guard. */
const MARK = "pgz-edge:";

/**
 * In front of a statement, in its own transaction: fails where the standby has not come as far as the position, and the
 * server skips the statement then. In READ COMMITTED the statement takes its snapshot after this, so it sees all that
 * was replayed. In the other levels this one's snapshot would be the statement's, and it was taken before the question.
 *
 * There is no function that raises an error, but a text that is no `pg_lsn` does.
 */
export function standbyGuard({ system, timeline, lsn }: Position, isAlone: boolean): string {
  const isolation = "pg_catalog.current_setting('transaction_isolation') not in ('read committed','read uncommitted')";
  return guard([
    [`not ${IS_STANDBY}`, "role"],
    ...(isAlone ? [] : [[isolation, "isolation"] as const]),
    [`${SYSTEM} <> ${system}`, "unknown"],
    [`${STANDBY_TIMELINE} <> ${timeline}`, "unknown"],
    [`coalesce(pg_catalog.pg_last_wal_replay_lsn() < '${lsnText(lsn)}', true)`, "behind"],
  ]);
}

/** The same for a primary, which is always as far: it must not be one that has been left behind by a promotion. */
export function primaryGuard({ system, timeline }: Position): string {
  const isOlder = `'x'||pg_catalog.left(${PRIMARY_FILE},8)`;
  return guard([
    [IS_STANDBY, "role"],
    [`${SYSTEM} = ${system} and (${isOlder})::bit(32)::int8 < ${timeline}`, "role"],
  ]);
}

/**
 * In front of a guard, on PostgreSQL 19: waits until the standby has come as far, for so many milliseconds, which are 1
 * at least. Takes no snapshot. Says how that ended in a row, which nobody reads: the guard decides.
 */
export function waitFor({ lsn }: Position, milliseconds: number): string {
  return `wait for lsn '${lsnText(lsn)}' with (timeout ${milliseconds}, no_throw)`;
}

function guard(reasons: readonly (readonly [condition: string, reason: Refusal])[]): string {
  const cases = reasons.map(([condition, reason]) => `when ${condition} then '${MARK}${reason}'`);
  return `select where (case ${cases.join(" ")} end)::pg_catalog.pg_lsn is not null`;
}

/**
 * Why a guard has failed, if this is the error of one: of a statement of our own. A value of the caller's may have the
 * same words, in an error of the caller's statement.
 */
export function refusalOf(error: unknown): Refusal | undefined {
  return ofPreludes.has(error as PgzError) ? refusalIn(error) : undefined;
}

/** What the words of an error say. */
export function refusalIn(error: unknown): Refusal | undefined {
  const { code, message } = Object(error) as { code?: unknown; message?: unknown };
  if (code !== "22P02" || typeof message !== "string") return undefined;
  return /"pgz-edge:(behind|unknown|role|isolation)"/.exec(message)?.[1] as Refusal | undefined;
}

/** The role may not ask for the identity, or the server has none (42501, 42883, 0A000, 42P01). */
export function hasNoIdentity({ code }: { readonly code?: unknown }): boolean {
  return ["42501", "42883", "0A000", "42P01"].includes(String(code));
}
