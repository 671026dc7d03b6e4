// Servers whose answers to a first run are not PostgreSQL's, as far as this isolate has seen: routers, and servers that
// only speak the protocol. They are remembered by host, port and database, so that no other connection meets the same.
//
// A lost connection alone says little, since networks lose some: it counts where no first run has ever gone well, and
// then only for how statements are asked. Where the answers themselves are another server's, its rows are asked for as
// text too, which is all that `pg` asks for: immudb's binary floats and timestamps are none. Knows errors and servers.
// Must not know what a first run is made of.
import type { Config } from "../config/options.ts";
import { BoundedMap } from "../util/bounded.ts";
import { ConnectionError, PostgresError, ProtocolError } from "../util/errors.ts";
import { MOST_SERVERS } from "../util/limits.ts";

/** A statement by itself, or a batch, which travels as a transaction the first time. */
export type FirstWay = "statement" | "batch";

/** `lost`: a connection was lost, or an answer was another server's, where it may have been the first run's fault. */
const seen = new BoundedMap<string, "fine" | "lost" | "odd">(MOST_SERVERS);

const keyOf = ({ host, port, database }: Config, way: FirstWay) => JSON.stringify([host, port, database, way]);

function note(key: string, what: "fine" | "lost" | "odd"): void {
  seen.set(key, what);
}

/** Statements, or batches, are described first there. */
export function isOdd(config: Config, way: FirstWay): boolean {
  return (seen.get(keyOf(config, way)) ?? "fine") !== "fine";
}

/** It is another server than PostgreSQL, or one behind a router, whose rows are asked for as text. */
export function asksForText(config: Config): boolean {
  return seen.get(keyOf(config, "statement")) === "odd";
}

/**
 * The server has answered otherwise than PostgreSQL does. Where a first run has gone well before it is PostgreSQL, and
 * the answer was somebody else's: PgBouncer 1.18 gives a client what another one has left behind.
 */
export function heedOddness(config: Config, way: FirstWay): void {
  const key = keyOf(config, way);
  note(key, seen.get(key) === "fine" ? "lost" : "odd");
}

/** A first run has gone well. */
export function heedSuccess(config: Config, way: FirstWay): void {
  const key = keyOf(config, way);
  if (!seen.has(key)) note(key, "fine");
}

/** The connection has ended with `error` under a first run. `isDescribed`: what came in front of its rows was in order. */
export function heedLoss(config: Config, way: FirstWay, error: unknown, isDescribed: boolean): void {
  const key = keyOf(config, way);
  const isBroken = error instanceof ProtocolError && (error.code === "UNEXPECTED_MESSAGE" || !isDescribed);
  if (seen.get(key) === "odd") return;
  if (isBroken || (!isDescribed && !seen.has(key) && mayBeItsAnswer(error))) note(key, "lost");
}

/** Not a server that is full, or that is going: it would end any other session too. */
function mayBeItsAnswer(error: unknown): boolean {
  if (error instanceof PostgresError) return !/^(53|57)/.test(error.code);
  return error instanceof ConnectionError && error.code === "CONNECTION_LOST";
}
