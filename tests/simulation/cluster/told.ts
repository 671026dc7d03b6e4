// Whether `onRoute` and `stats()` of a cluster report what happened.
//
// Knows events and what the model has seen. Must not know calls.
import type * as pgz from "../../../js/index.ts";
import { positionOf } from "../../../js/cluster/position.ts";
import type { Lane } from "./lane.ts";
import type { Asked } from "./oracle.ts";
import { nameOf, type ClusterSession } from "./session.ts";
import type { Row } from "./ways.ts";

/** Milliseconds of a call that are not waiting: requests and responses on slow links. */
const SLACK = 400;

/** Checks one successful call, with its events and its result. */
export function checkRoutes(
  { replicas, program, isDisturbed, maxLag }: ClusterSession,
  events: readonly pgz.RouteEvent[],
  rows: readonly Row[],
  { says, after, since, until }: Asked,
): string[] {
  const last = events.at(-1);
  if (!last) return [`${says}: onRoute was not told`];
  const wrong: string[] = [];
  const told = (text: string) => void wrong.push(`${says} (${since.toFixed(1)} to ${until.toFixed(1)}): ${text}`);
  const server = rows[0]?.server;
  const isKnown = last.role === "standby" || !isDisturbed;
  if (isKnown && server !== nameOf(last))
    told(`onRoute says ${nameOf(last)}, ${last.role}, and ${server} has answered`);
  for (const { role, reason, lagMs } of events) {
    if ((role === "standby") !== (reason === "nearest")) told(`onRoute says ${role} for ${reason}`);
    if (role === "standby" && !(lagMs! <= maxLag)) told(`a standby lags by ${lagMs}`);
  }
  const { wait = 1_000 } = program.options;
  if (!isDisturbed && last.waitedMs > wait + SLACK + 20 * program.weather.latency + 20 * program.thinks)
    told(`has waited for ${last.waitedMs} ms`);
  if (last.reason === "position" && after !== undefined) {
    const { timeline, lsn } = positionOf(after);
    const due = replicas.history.upTo(timeline, Number(lsn)).at(-1);
    const isThere = (node: (typeof replicas.nodes)[number]) =>
      !due || node.replays.some((to) => to.timeline === due.timeline && to.ends >= due.ends && to.at <= since);
    const standbys = replicas.nodes.filter((node) => node.isStandby);
    if (!isDisturbed && standbys.every(isThere)) told("onRoute says that no standby has come as far");
  }
  return wrong;
}

export function checkStats({ cluster, routes }: Lane): string[] {
  const wrong: string[] = [];
  const { servers, reads } = cluster.stats();
  for (const [reason, count] of Object.entries(reads)) {
    const found = routes.filter((event) => event.reason === reason).length;
    if (found !== count) wrong.push(`stats() has ${count} calls for ${reason}, and onRoute ${found}`);
  }
  for (const { host, reads: count, lagMs, role } of servers) {
    const found = routes.filter((event) => event.role === "standby" && event.host === host).length;
    if (found !== count) wrong.push(`stats() has ${count} calls on ${host}, and onRoute ${found}`);
    if (role === "standby" && !(lagMs! >= 0)) wrong.push(`${host} lags by ${lagMs}`);
  }
  return wrong;
}
