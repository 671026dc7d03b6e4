// Whether a stream of changes may continue on a server: a pure decision from what the stream has, and what the server
// says about its log. Positions of two logs must never be mixed: the server would pass over commits in silence.
//
//   the stream's log   1 ────────────●── 2 ───── needed
//   another log        1 ──────┬─────────────            the logs share everything up to ┬
//                              └── 2 ──── end
//
// A log is shared up to the first position where the timelines differ. Everything that was yielded or acknowledged must
// be in the shared part, and in the server's log. Then the stream continues there.
//
// Knows positions and timelines. Must not know connections, or how a server is asked (log-question.ts).
import { PgzError } from "../index.ts";
import { lsnText } from "./options.ts";

/** An older timeline of a log, and the position after which the next timeline continues. */
export interface Branch {
  readonly timeline: number;
  readonly end: bigint;
}

/** Names a log: its system, its timeline, and how it came to that timeline. */
export interface LogName {
  /** 0: the role that got the position may not read it. */
  readonly system: bigint;
  readonly timeline: number;
  /** Older timelines, the oldest first. `undefined`: they are not known. */
  readonly branches: readonly Branch[] | undefined;
}

/** Which server it is, and whether it can be written to. */
export interface Standing {
  readonly isStandby: boolean;
  /** Different for each start of each server. */
  readonly instance: string;
}

/** What a server says. */
export interface ServerLog extends LogName, Standing {
  /** The end of its log: nothing later has been written, or has reached a standby. */
  readonly end: bigint;
  /** The slot's `confirmed_flush_lsn`; `undefined`: there is no slot, or it is still being made. */
  readonly confirmed: bigint | undefined;
}

/** What the stream has. */
export interface Progress {
  /** The log that it has read, or that `from` names. `undefined`: `from` is bare, or nothing has been read. */
  readonly log: (LogName & Partial<Pick<ServerLog, "instance" | "isStandby">>) | undefined;
  /** Everything up to this position was yielded or acknowledged. */
  readonly needed: bigint;
  /**
   * The server need not keep anything up to this position. It is further than `needed` if the rest of the log has no
   * change for this stream.
   */
  readonly flushed: bigint;
  /** No other reader can have moved the slot further than this stream has. */
  readonly ownsSlot: boolean;
}

export type Decision =
  /** The stream continues after this position. */
  | { readonly kind: "start"; readonly flushed: bigint }
  /** The server is a standby that lags. */
  | { readonly kind: "wait" }
  | { readonly kind: "lost"; readonly why: string };

const START = (flushed: bigint): Decision => ({ kind: "start", flushed });
const WAIT: Decision = { kind: "wait" };
const LOST = (why: string): Decision => ({ kind: "lost", why });

/** No log is as long as this. */
const ENDLESS = 1n << 64n;

export function decide(progress: Progress, server: ServerLog): Decision {
  const { log, needed, flushed, ownsSlot } = progress;
  const { end, isStandby, confirmed = 0n } = server;
  if (log && log.system !== 0n && log.system !== server.system)
    return LOST(`the log of system ${log.system} was read, and this server belongs to system ${server.system}`);
  const begins = log && beginning(log, server);
  if (begins !== undefined && needed <= begins) return LOST(beforeTimeline(log!, begins, needed));
  const shared = log ? sharedEnd(log, server) : ENDLESS;
  if (shared === undefined) return isStandby ? WAIT : LOST(branchedOff(log!, server));
  if (needed > shared) return isStandby && end <= shared ? WAIT : LOST(branchedOff(log!, server, shared));
  if (needed > end || confirmed > end) {
    if (isStandby) return WAIT;
    const what = needed > end ? 'was read, acknowledged or given as "from"' : "is acknowledged on the slot";
    return LOST(`${lsnText(needed > end ? needed : confirmed)} ${what}, and this server's log ends at ${lsnText(end)}`);
  }
  const common = least(flushed, shared, end);
  if (ownsSlot && confirmed > common)
    return LOST(
      `the slot is at ${lsnText(confirmed)}, and this stream has acknowledged only ${lsnText(common)} of that log: ` +
        "the slot was made anew, or moved by another reader",
    );
  return START(confirmed > common ? confirmed : common);
}

/** Returns the timeline to which a position of this log belongs. */
export function timelineAt({ timeline, branches = [] }: LogName, position: bigint): number {
  return branches.find(({ end }) => position <= end)?.timeline ?? timeline;
}

/**
 * Returns the position up to which the two logs are the same. `undefined`: the server's timeline is older than that of
 * a log whose branches are not known, so a standby may still follow it.
 */
function sharedEnd(log: NonNullable<Progress["log"]>, server: ServerLog): bigint | undefined {
  // A server that has run ever since has everything that was read from it, even if it was a standby and was promoted
  // while the stream read.
  if (log.instance !== undefined && log.instance === server.instance) return ENDLESS;
  if (!log.branches || !server.branches) {
    if (server.timeline < log.timeline) return undefined;
    return pathOf(server).find(({ timeline }) => timeline === log.timeline)?.end ?? 0n;
  }
  let shared = 0n;
  const theirs = pathOf(server);
  for (const [at, ours] of pathOf(log).entries()) {
    const other = theirs[at];
    if (other?.timeline !== ours.timeline) return shared;
    shared = least(ours.end, other.end);
    if (ours.end !== other.end) return shared;
  }
  return shared;
}

/**
 * Returns where the server's log has begun the timeline that a position names: on another timeline of this number the
 * position may lie before that. `undefined`: the server's log has no such timeline, or the history of the stream's is
 * known.
 */
function beginning({ timeline, branches }: LogName, server: ServerLog): bigint | undefined {
  if (branches || !server.branches) return undefined;
  const theirs = pathOf(server);
  const at = theirs.findIndex((branch) => branch.timeline === timeline);
  return theirs[at - 1]?.end;
}

/** Returns the log's timelines, the oldest first. The last one has no end. */
function pathOf({ timeline, branches = [] }: LogName): Branch[] {
  return [...branches, { timeline, end: ENDLESS }];
}

function least(...positions: bigint[]): bigint {
  return positions.reduce((one, other) => (other < one ? other : one));
}

function branchedOff(log: LogName, { timeline }: LogName, shared?: bigint): string {
  const where = shared === undefined || shared === 0n ? "" : ` after ${lsnText(shared)}`;
  return (
    `timeline ${log.timeline} was read, and this server's timeline ${timeline} does not have it${where}: a server was ` +
    "promoted that had not received everything"
  );
}

function beforeTimeline({ timeline }: LogName, begins: bigint, needed: bigint): string {
  const there = `that of this server begins after ${lsnText(begins)}`;
  return `timeline ${timeline} was read at ${lsnText(needed)}, and ${there}: it is another one of this number`;
}

/** The error that ends the stream. */
export function changesLost(slot: string, needed: bigint, why: string): PgzError {
  return new PgzError(
    "CHANGES_LOST",
    `Slot "${slot}" cannot continue after ${lsnText(needed)}: ${why}. Commits may be missing, and some that were ` +
      "yielded may not exist on this server. To begin anew, drop the slot, discard the copy, and read all rows again " +
      '(createSlot: "permanent", snapshot: true, without "from").',
  );
}

/**
 * Whether the process of a silent connection may be at work, by what another connection finds. There is one primary: if
 * another instance is it now, `server` was restarted or replaced. Another standby says nothing of it.
 */
export function isAtWork(
  found: (Standing & { readonly isAtWork: boolean }) | "unreachable",
  server: Standing,
): boolean {
  if (found === "unreachable") return false;
  return found.instance === server.instance ? found.isAtWork : found.isStandby || server.isStandby;
}
