// The role of a server in a cluster of a primary and its standbys, as its own functions and views report it.
//
// Knows facts. Must not know other servers, or what changes the facts (cluster/).

/** The system identifier of `pg_control_system()`, which all servers of a cluster share. */
export const SYSTEM = 7_412_345_678_901_234_567n;

export class Standing {
  isStandby = false;
  /** The timeline that the server writes or replays. */
  timeline = 1;
  /** The timeline of the last restart point: `pg_control_checkpoint()`. */
  restartTimeline = 1;
  /** The timeline that the server receives now, or `undefined` if it receives nothing. */
  receives: number | undefined;
  /** Whether the server's roles may see what it receives, as members of pg_read_all_stats. */
  showsReceiver = false;
  /** The position that the server had replayed when it was promoted. */
  replayed: number | undefined;
  /** What `pg_current_snapshot()` shows on a standby. */
  snapshot: (() => string) | undefined;
  /** `cluster_name`. */
  name = "";
}
