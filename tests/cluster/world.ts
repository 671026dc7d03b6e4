// The common parts of the tests of clusters: servers of one major version for a file, and a cluster over them.
import type * as pgz from "../../js/index.ts";
import type * as entry from "../../js/cluster.ts";
import process from "node:process";
import { logFile } from "../servers/index.mjs";
import { startStandbys, type ClusterNode, type ClusterOfServers } from "../servers/standbys.mjs";

export const driver = (await import("../../dist/node.js" as string)) as typeof pgz;
export const { createCluster } = (await import("../../dist/cluster.js" as string)) as typeof entry;

/**
 * The majors of these tests: the newest, on which a call can wait for a position in the server, and the oldest, on
 * which it must ask. 18 takes the place of 19 where Debian's packages cannot be had (tests/servers/postgres-19.mjs).
 */
export const majors = [process.env["PGZ_TEST_POSTGRES_19"] === undefined ? 18 : 19, 15] as const;

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
