// Which standby answers, or why the primary does: a decision about what is known.
//
// Must not know pools, calls, or how anything is learned.
import type { RouteReason } from "../../index.ts";
import type { Facts } from "./memory.ts";

export interface Candidate {
  readonly key: string;
  readonly facts: Facts;
}

export type Choice<Server> =
  { readonly is: "standby"; readonly server: Server } | { readonly is: "primary"; readonly reason: RouteReason };

export interface Wanted {
  readonly now: number;
  readonly maxLag: number;
  /** Of those that are equally near another one is taken each time. */
  readonly turn: number;
  /** Servers that the call has tried already. */
  readonly tried?: ReadonlySet<string> | undefined;
  /** Of those that lag little enough one that is known to be as far is preferred. */
  readonly lsn?: bigint | undefined;
}

/** As near as the nearest: round trips vary by that much. */
const NEAR = 1.25,
  ALIKE = 1;

export function choose<Server extends Candidate>(servers: readonly Server[], wanted: Wanted): Choice<Server> {
  const { now, maxLag, turn, tried, lsn } = wanted;
  const left = servers.filter(({ key }) => !tried?.has(key));
  const standbys = left.filter(({ facts }) => facts.told?.isStandby);
  if (!standbys.length) {
    const areGone = left.some(({ facts }) => facts.failure !== undefined);
    return { is: "primary", reason: areGone ? "unreachable" : "none" };
  }
  const fresh = standbys.filter(({ facts }) => lagOf(facts, now) <= maxLag);
  if (!fresh.length) return { is: "primary", reason: "lag" };
  const there = lsn === undefined ? fresh : fresh.filter(({ facts }) => facts.told!.lsn >= lsn);
  const suitable = there.length ? there : fresh;
  const shortest = Math.min(...suitable.map(distance));
  const near = suitable.filter((server) => distance(server) <= shortest * NEAR + ALIKE);
  return { is: "standby", server: near[turn % near.length]! };
}

/** Since when it may lack something. */
export function lagOf({ hasAllOf }: Facts, now: number): number {
  return now - hasAllOf;
}

function distance({ facts }: Candidate): number {
  return facts.roundTrip ?? Infinity;
}
