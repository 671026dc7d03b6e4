// Releases of PostgreSQL whose stream of changes may lose some.
//
// Knows the release notes. Must not know who asks.

/**
 * By version: the first release that tells all changes of a table which has joined a publication while a transaction
 * wrote to it. Earlier ones may go on leaving some out until the stream connects again (release notes of 17.5).
 */
const FIRST: Readonly<Record<number, number>> = { 14: 18, 15: 13, 16: 9, 17: 5 };

/**
 * The release that a server has to be updated to, such as `17.5`; undefined: it loses nothing. `version`: its
 * `server_version_num`.
 */
export function releaseWithoutLoss(version: number): string | undefined {
  const major = Math.floor(version / 10_000);
  const first = FIRST[major];
  return first !== undefined && version % 10_000 < first ? `${major}.${first}` : undefined;
}
