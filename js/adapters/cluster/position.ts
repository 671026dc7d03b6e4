// A position in a cluster's log, as a short text for a cookie or a header: which cluster, which timeline, how far.
//
//   <system identifier>-<timeline>-<position of the log>      each in base 36, such as 1m6sgvrcoyvi-1-5xk2o0
//
// Knows the text and how positions compare. Must not know servers, or who answers.

/** How far a transaction is in the log of a cluster. */
export interface Position {
  /** `pg_control_system()`; 0: the server has not said. */
  readonly system: bigint;
  /** Each promotion begins a new timeline. */
  readonly timeline: number;
  readonly lsn: bigint;
}

/** Of a write whose position nobody could be asked for: only a primary may answer behind it. */
export const UNKNOWN: Position = { system: 0n, timeline: 0, lsn: 0n };

const TEXT = /^([0-9a-z]{1,13})-([0-9a-z]{1,7})-([0-9a-z]{1,13})$/;

export function textOf({ system, timeline, lsn }: Position): string {
  return [system, timeline, lsn].map((part) => part.toString(36)).join("-");
}

/** {@link UNKNOWN} for all that is no position: texts come from cookies, and so from strangers. */
export function positionOf(text: unknown): Position {
  const [, system, timeline, lsn] = (typeof text === "string" && TEXT.exec(text)) || [];
  if (!system || !timeline || !lsn) return UNKNOWN;
  const found = { system: parsed(system), timeline: Number(parsed(timeline)), lsn: parsed(lsn) };
  const isPossible = found.system <= MOST && found.lsn <= MOST && found.timeline <= 0xffffffff;
  return isPossible ? found : UNKNOWN;
}

/** Both are uint64. */
const MOST = (1n << 64n) - 1n;

function parsed(digits: string): bigint {
  return [...digits].reduce((sum, digit) => sum * 36n + BigInt(parseInt(digit, 36)), 0n);
}

/** As the server writes a position: two halves in hexadecimal. */
export function lsnOf(text: string): bigint {
  const [high = "", low = ""] = text.split("/");
  return (BigInt(`0x${high}`) << 32n) | BigInt(`0x${low}`);
}

export function lsnText(lsn: bigint): string {
  return `${(lsn >> 32n).toString(16)}/${(lsn & 0xffffffffn).toString(16)}`.toUpperCase();
}

/** Bytes of a page's header in the log: in front of its first record, and the longer one of a segment's first page. */
const HEADERS = [24n, 40n];

/**
 * Where the next record begins, as a primary tells it, as the end of the record before it, which is what a standby tells.
 * They differ where that record has filled its page: the next one begins behind the page's header, and a standby would
 * be taken to be behind until there is a next one.
 */
export function endOfRecord(insert: bigint, pageSize: number): bigint {
  const inPage = insert % BigInt(pageSize);
  return HEADERS.includes(inPage) ? insert - inPage : insert;
}
