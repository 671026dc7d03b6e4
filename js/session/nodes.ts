// Servers whose tables are on other nodes, Citus' coordinators, as far as this isolate has seen: a scope's settings have
// to reach those nodes too.
//
// A scope's statement asks on its way. It costs nothing on PostgreSQL, and on Citus it fails before anything has run;
// the call is then sent again, with the statement for nodes (statement/attempts.ts). Knows how Citus is told. Must not
// know what a scope is, nor what is sent again.
import type { Config } from "../config/options.ts";
import { ofPreludes } from "../connection/operation.ts";
import { BoundedSet } from "../util/bounded.ts";
import { PostgresError, type PgzError } from "../util/errors.ts";
import { MOST_SERVERS } from "../util/limits.ts";

const seen = new BoundedSet<string>(MOST_SERVERS);

const keyOf = ({ host, port, database }: Config) => JSON.stringify([host, port, database]);

/** Part of the value in the error, in every language of the server. */
const MARK = "pgz_citus ";

/** Is null on PostgreSQL. On Citus it fails, because its version with a mark in front is no number. */
export const NODES_CHECK = `('${MARK}'||pg_catalog.current_setting('citus.version',true))::pg_catalog.int4=0`;

export function hasNodes(config: Config): boolean {
  return seen.has(keyOf(config));
}

/**
 * The check has failed, for what it asks. Not by its words alone: a value of the caller's may have the same, in an error
 * of the caller's statement.
 */
export function tellsOfNodes(error: unknown): boolean {
  return error instanceof PostgresError && ofPreludes.has(error) && hasMark(error);
}

/** The same of the error of a text that is ours as a whole. */
export function hasMark(error: PgzError | undefined): boolean {
  return error?.code === "22P02" && error.message.includes(MARK);
}

export function noteNodes(config: Config): void {
  seen.add(keyOf(config));
}
