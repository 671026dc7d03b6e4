// Names of what answers have read: with them a cache finds the answers to purge.
//
// Knows OIDs. Must not know why a tag is purged.

/** The tag of every answer. */
export const EVERYTHING = "pg";

/**
 * A tag for the answers that read this relation. It is not its name: a name says more than a stranger should know, and
 * tags ignore case.
 */
export const tagOf = (oid: number): string => `${EVERYTHING}-${oid.toString(36)}`;
