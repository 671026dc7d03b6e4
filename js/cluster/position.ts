// A position in a cluster's log, as a short text for a cookie or a header: which cluster, which timeline, how far.
//
//   <system identifier>-<timeline>-<position of the log>      each in base 36, such as 1m6sgvrcoyvi-1-5xk2o0
//
// Knows the text and how positions compare. Must not know servers, or who answers.

/** A position in the log of a cluster. */
export interface Position {
  /** From `pg_control_system()`; 0: the server did not report it. */
  readonly system: bigint;
  /** Each promotion begins a new timeline. */
  readonly timeline: number;
  readonly lsn: bigint;
}

/** The position of a write whose position could not be asked for. Only a primary may answer a read after it. */
export const UNKNOWN: Position = { system: 0n, timeline: 0, lsn: 0n };

const TEXT = /^([0-9a-z]{1,13})-([0-9a-z]{1,7})-([0-9a-z]{1,13})$/;

export function positionText({ system, timeline, lsn }: Position): string {
  return [system, timeline, lsn].map((part) => part.toString(36)).join("-");
}

/** Returns {@link UNKNOWN} for every text that is not a position: texts come from cookies, and so from strangers. */
export function positionOf(text: unknown): Position {
  const [, system, timeline, lsn] = (typeof text === "string" && TEXT.exec(text)) || [];
  if (!system || !timeline || !lsn) return UNKNOWN;
  const found = { system: parsed(system), timeline: Number(parsed(timeline)), lsn: parsed(lsn) };
  const isPossible = found.system <= MOST && found.lsn <= MOST && found.timeline <= 0xffffffff;
  return isPossible ? found : UNKNOWN;
}

/** The largest uint64, for the system identifier and the position of the log. */
const MOST = (1n << 64n) - 1n;

function parsed(digits: string): bigint {
  return [...digits].reduce((sum, digit) => sum * 36n + BigInt(parseInt(digit, 36)), 0n);
}

/** Parses a position as the server writes it: two halves in hexadecimal. */
export function lsnOf(text: string): bigint {
  const [high = "", low = ""] = text.split("/");
  return (BigInt(`0x${high}`) << 32n) | BigInt(`0x${low}`);
}

export function lsnText(lsn: bigint): string {
  return `${(lsn >> 32n).toString(16)}/${(lsn & 0xffffffffn).toString(16)}`.toUpperCase();
}

/**
 * Sizes in bytes of a page's header in the log, in front of the page's first record. The longer one is of a segment's
 * first page.
 */
const HEADERS = [24n, 40n];

/**
 * Converts the beginning of the next record, which a primary reports, into the end of the record before it, which a
 * standby reports. The two differ if that record has filled its page: the next record then begins after the next page's
 * header. Without this a standby would seem to be behind until there is a next record.
 */
export function endOfRecord(insert: bigint, pageSize: number): bigint {
  const inPage = insert % BigInt(pageSize);
  return HEADERS.includes(inPage) ? insert - inPage : insert;
}
