// Which standby answers, or why the primary does: a decision from what is known.
//
// Must not know pools, calls, or how anything is learned.
import type { RouteReason } from "../index.ts";
import type { Facts } from "./memory.ts";

export interface Candidate {
  readonly key: string;
  readonly facts: Facts;
}

export type Choice<Server> =
  | { readonly is: "standby"; readonly server: Server }
  | { readonly is: "primary"; readonly reason: RouteReason };

interface Wanted {
  readonly now: number;
  readonly maxLag: number;
  /** Grows with each choice, so that servers that are about equally near take turns. */
  readonly turn: number;
  /** Keys of servers that the call has tried already. */
  readonly tried?: ReadonlySet<string> | undefined;
  /** A position. Among the servers that lag little enough, those that are known to have reached it are preferred. */
  readonly lsn?: bigint | undefined;
}

/**
 * A server counts as near if its round trip is at most the shortest × NEAR_FACTOR + NEAR_MS: round trips vary by that
 * much.
 */
const NEAR_FACTOR = 1.25,
  NEAR_MS = 1;

export function choose<Server extends Candidate>(servers: readonly Server[], wanted: Wanted): Choice<Server> {
  const { now, maxLag, turn, tried, lsn } = wanted;
  const left = servers.filter(({ key }) => !tried?.has(key));
  const standbys = left.filter(({ facts }) => facts.status?.isStandby);
  if (!standbys.length) {
    const areGone = left.some(({ facts }) => facts.failure !== undefined);
    return { is: "primary", reason: areGone ? "unreachable" : "none" };
  }
  const fresh = standbys.filter(({ facts }) => lagOf(facts, now) <= maxLag);
  if (!fresh.length) return { is: "primary", reason: "lag" };
  const there = lsn === undefined ? fresh : fresh.filter(({ facts }) => facts.status!.lsn >= lsn);
  const suitable = there.length ? there : fresh;
  const shortest = Math.min(...suitable.map(distance));
  const near = suitable.filter((server) => distance(server) <= shortest * NEAR_FACTOR + NEAR_MS);
  return { is: "standby", server: near[turn % near.length]! };
}

/** Returns an upper bound of the standby's lag, in milliseconds. */
export function lagOf({ upToDateAsOf }: Facts, now: number): number {
  return now - upToDateAsOf;
}

function distance({ facts }: Candidate): number {
  return facts.roundTrip ?? Infinity;
}
