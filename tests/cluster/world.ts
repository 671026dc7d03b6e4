// The common parts of the tests of clusters: servers of one major version for a file, and a cluster over them.
import type * as pgz from "../../js/index.ts";
import type * as entry from "../../js/cluster.ts";
import { logFile } from "../servers/index.mjs";
import { newestMajor } from "../servers/postgres-19.mjs";
import { startStandbys, type ClusterNode, type ClusterOfServers } from "../servers/standbys.mjs";

export const driver = (await import("../../dist/node.js" as string)) as typeof pgz;
export const { createCluster } = (await import("../../dist/cluster.js" as string)) as typeof entry;

/** From 19 on a call can wait for a position in the server. On 15 it must ask. */
export const majors = [newestMajor(), 15] as const;

export type Options = NonNullable<Parameters<typeof createCluster>[1]>;

export function start(name: string, options: Partial<Parameters<typeof startStandbys>[0]> = {}) {
  return startStandbys({ ...options, log: logFile(`cluster-${name}`) });
}

export function clusterOf(
  { primary, standbys }: Pick<ClusterOfServers, "primary" | "standbys">,
  options: Options = {},
) {
  return createCluster(
    [primary, ...standbys].map(({ url }) => url),
    { sslmode: "disable", connectTimeout: 2_000, ...options },
  );
}

/** Returns the names of standbys by their ports. */
export function names(nodes: readonly ClusterNode[]): Map<number, string> {
  return new Map(nodes.map(({ name, descriptor }) => [descriptor.port, name]));
}

/** Asks for the port of the server that answers, and whether it is a standby. */
export const PORT = "select current_setting('port')::int4 as port, pg_is_in_recovery() as standby";

export interface Answered {
  readonly port: number;
  readonly standby: boolean;
}
