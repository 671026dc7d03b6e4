// Asks a server for its log, for the slot, and for publications that it does not have.
//
//   question ; IDENTIFY_SYSTEM ───>            one flight
//   TIMELINE_HISTORY n ───────────>            only if a server was promoted before, and the stream does not know it
//
// The question is first: a log never gets shorter while its server runs, so the slot cannot seem to be ahead of the
// end.
//
// Knows the statements and their rows. Must not know what follows from the answers (log-check.ts).
import { PostgresError } from "../index.ts";
import type { Branch, Progress, ServerLog } from "./log-check.ts";
import { literal, lsnOf } from "./options.ts";
import type { Replication } from "./replication.ts";

export interface Found {
  readonly log: ServerLog;
  readonly hasSlot: boolean;
  /** Another connection uses the slot. */
  readonly isSlotActive: boolean;
  /** The server's process. BackendKeyData may be a proxy's. */
  readonly processId: number;
  /** The first of the publications that does not exist. */
  readonly missing: string | undefined;
}

/** `known`: the log that the stream has read last. */
export async function askForLog(
  connection: Replication,
  slot: string,
  publications: readonly string[],
  known: Progress["log"],
  milliseconds: number,
): Promise<Found> {
  const answer = await connection.runWithin(milliseconds, logQuestion(slot, publications), "IDENTIFY_SYSTEM");
  const [first, [system, timelineText, end]] = answer as Answer;
  const [isStandby, instance, , isActive, missing, processId] = first;
  const timeline = Number(timelineText);
  const isSame = known?.instance === instance && known.timeline === timeline;
  const branches = isSame ? known.branches : await branchesOf(connection, timeline, milliseconds);
  const log = {
    system: BigInt(system),
    timeline,
    branches,
    end: lsnOf(end),
    isStandby: isStandby === "t",
    instance,
    confirmed: confirmedIn(first),
  };
  return {
    log,
    hasSlot: isActive !== null,
    isSlotActive: isActive === "t",
    processId: Number(processId),
    missing: missing ?? undefined,
  };
}

type FirstRow = readonly [
  isStandby: string,
  instance: string,
  confirmed: string | null,
  isActive: string | null,
  missing: string | null,
  processId: string,
];
type Answer = readonly [FirstRow, readonly [system: string, timeline: string, end: string]];

/** The slot's position in the answer to {@link logQuestion}; `undefined`: there is no slot, or it is being made. */
export function confirmedIn(row: readonly (string | null)[]): bigint | undefined {
  const [, , confirmed] = row as FirstRow;
  return confirmed === null ? undefined : lsnOf(confirmed);
}

/** When the server was started, in a form that no setting changes: a time zone, or the digits of a float8. */
const INSTANCE =
  "pg_catalog.to_char(pg_catalog.timezone('UTC', pg_catalog.pg_postmaster_start_time()), 'YYYYMMDDHH24MISSUS')";

/** Asks any connection to the server whether it is still a standby. */
export const STANDBY_QUESTION = `select pg_catalog.pg_is_in_recovery() as "isStandby", ${INSTANCE} as instance`;

/**
 * Asks any connection to the server whether that process is at work. A server that looks for the next row, or waits for
 * transactions to end, sends nothing. One that waits for its client, to read or to write, while the client waits for
 * it, has a dead link.
 */
export const workQuestion = (processId: number): string =>
  `${STANDBY_QUESTION}, exists(select from pg_catalog.pg_stat_activity a ` +
  `where a.pid operator(pg_catalog.=) ${processId} and coalesce(a.wait_event, '') ` +
  `operator(pg_catalog.<>) all(array['ClientRead', 'ClientWrite'])) as "isAtWork"`;

/** Returns the question, which has one row. Its names are qualified, because the role's search_path applies to it. */
export function logQuestion(slot: string, publications: readonly string[]): string {
  const names = publications.map((name) => `(${literal(name)}::pg_catalog.name)`).join(", ");
  return (
    `select pg_catalog.pg_is_in_recovery(), ${INSTANCE}, s.confirmed_flush_lsn, s.active, ` +
    `(select p.pubname from (values ${names}) p(pubname) where not exists ` +
    "(select from pg_catalog.pg_publication e where e.pubname operator(pg_catalog.=) p.pubname) limit 1), " +
    "pg_catalog.pg_backend_pid() " +
    "from (select true) one left join pg_catalog.pg_replication_slots s " +
    `on s.slot_name operator(pg_catalog.=) ${literal(slot)}::pg_catalog.name`
  );
}

/** Returns `undefined` if the server does not have the history of its timeline. */
async function branchesOf(
  connection: Replication,
  timeline: number,
  milliseconds: number,
): Promise<readonly Branch[] | undefined> {
  if (timeline === 1) return [];
  try {
    const [[, content]] = (await connection.runWithin(milliseconds, `TIMELINE_HISTORY ${timeline}`)) as [
      [string, string],
    ];
    return branchesIn(content);
  } catch (error) {
    if (error instanceof PostgresError && !/^(57|08)/.test(error.code)) return undefined;
    throw error;
  }
}

/** Reads a history file: a line for each older timeline, with the position where the next one began, and a reason. */
export function branchesIn(content: string): Branch[] {
  const lines = content.split("\n").map((line) => /^\s*(\d+)\s+([0-9A-F]+\/[0-9A-F]+)/i.exec(line));
  return lines.flatMap((found) => (found ? [{ timeline: Number(found[1]), end: lsnOf(found[2]!) }] : []));
}
