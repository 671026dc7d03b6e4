// `pgz-edge/cluster`: a primary and its standbys, and reads that never show a state before a position.
export {
  createCluster,
  type Cluster,
  type ClusterCalls,
  type ClusterScope,
  type ClusterStats,
  type Positioned,
  type PositionedCalls,
  type ServerStats,
  type WithPosition,
} from "./cluster/cluster.ts";
export type { ClusterOptions } from "./cluster/options.ts";
export type { Reads } from "./cluster/reads.ts";
export type { After } from "./cluster/after.ts";
