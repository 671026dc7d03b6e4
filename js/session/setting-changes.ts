// What a setting leaves in its session although the setting itself ends with its transaction.
//
// Knows PostgreSQL's settings. Must not know statements (pool/session-changes.ts reads them), or how a session is
// reset.

/** What a session needs before its next borrower: nothing, a reset, or its end. In the order of their severity. */
export const CHANGES = ["none", "resets", "ends"] as const;
export type Change = (typeof CHANGES)[number];

export function worstOf(changes: readonly Change[]): Change {
  return CHANGES[Math.max(0, ...changes.map((change) => CHANGES.indexOf(change)))]!;
}

/** The server ignores the case of a setting's name. */
export function changeOfSetting(name: string, value: string): Change {
  return name.toLowerCase() === "search_path" && mayMakeTemporary(value) ? "resets" : "none";
}

/**
 * Whether CREATE TABLE may make a temporary table on this search_path: it uses the first schema that exists. In any
 * position, case and quotes, and with a session's own name such as pg_temp_3.
 */
export function mayMakeTemporary(searchPath: string): boolean {
  return searchPath.toLowerCase().includes("pg_temp");
}
