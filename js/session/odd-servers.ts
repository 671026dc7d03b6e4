// Which servers respond to a first run in another way than PostgreSQL, as this isolate has found out: routers, and
// servers that only speak the protocol. They are remembered by host, port and database, so that no other connection has
// the same failure.
//
// A lost connection alone says little, because networks lose some. It counts only if no first run has succeeded there,
// and then only makes statements be described first. If the responses themselves are not PostgreSQL's, rows are
// requested as text too, as `pg` always does: immudb's binary floats and timestamps are not in PostgreSQL's format.
// Knows errors and servers. Must not know what a first run is made of.
import type { Config } from "../config/options.ts";
import { BoundedMap } from "../util/bounded.ts";
import { ConnectionError, PostgresError, ProtocolError } from "../util/errors.ts";
import { MOST_SERVERS } from "../util/limits.ts";

/** What runs for the first time: a statement by itself, or a batch, which then travels as a transaction. */
type FirstWay = "statement" | "batch";

/** `lost`: a connection was lost or a response was not PostgreSQL's, and the first run may have been the cause. */
const seen = new BoundedMap<string, "fine" | "lost" | "odd">(MOST_SERVERS);

const keyOf = ({ host, port, database }: Config, way: FirstWay) => JSON.stringify([host, port, database, way]);

function note(key: string, what: "fine" | "lost" | "odd"): void {
  seen.set(key, what);
}

/** Whether statements, or batches, are described first on this server. */
export function isOdd(config: Config, way: FirstWay): boolean {
  return (seen.get(keyOf(config, way)) ?? "fine") !== "fine";
}

/** Whether rows are requested as text, because the server is not PostgreSQL or is behind a router. */
export function asksForText(config: Config): boolean {
  return seen.get(keyOf(config, "statement")) === "odd";
}

/**
 * Notes that the server's response was not one that PostgreSQL gives. If a first run has succeeded there before, the
 * server is PostgreSQL and the response was another client's: PgBouncer 1.18 gives a client the responses that an
 * earlier client has left unread.
 */
export function noteOddResponse(config: Config, way: FirstWay): void {
  const key = keyOf(config, way);
  note(key, seen.get(key) === "fine" ? "lost" : "odd");
}

/** Notes that a first run has succeeded. */
export function noteSuccess(config: Config, way: FirstWay): void {
  const key = keyOf(config, way);
  if (!seen.has(key)) note(key, "fine");
}

/**
 * Notes that the connection ended with `error` during a first run. `isDescribed`: everything in front of its rows was
 * in order.
 */
export function noteLoss(config: Config, way: FirstWay, error: unknown, isDescribed: boolean): void {
  const key = keyOf(config, way);
  const isBroken = error instanceof ProtocolError && (error.code === "UNEXPECTED_MESSAGE" || !isDescribed);
  if (seen.get(key) === "odd") return;
  if (isBroken || (!isDescribed && !seen.has(key) && mayBeItsAnswer(error))) note(key, "lost");
}

/**
 * Whether the error may be the server's reaction to the first run. A server that is full or shutting down is not: it
 * would end any other session too.
 */
function mayBeItsAnswer(error: unknown): boolean {
  if (error instanceof PostgresError) return !/^(53|57)/.test(error.code);
  return error instanceof ConnectionError && error.code === "CONNECTION_LOST";
}
