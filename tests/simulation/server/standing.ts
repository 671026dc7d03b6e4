// What a server is in a cluster of a primary and its standbys, as its own functions and views tell it.
//
// Knows facts. Must not know other servers, or who changes them (cluster/).

/** `pg_control_system()`: a cluster's, on each of its servers. */
export const SYSTEM = 7_412_345_678_901_234_567n;

export class Standing {
  isStandby = false;
  /** That of what it writes, or replays. */
  timeline = 1;
  /** That of its last restart point: `pg_control_checkpoint()`. */
  restartTimeline = 1;
  /** That of what it receives now; `undefined`: it receives nothing. */
  receives: number | undefined;
  /** Its roles may see what it receives: they are members of pg_read_all_stats. */
  showsReceiver = false;
  /** How far it was when it was promoted. */
  replayed: number | undefined;
  /** `cluster_name`. */
  name = "";
}
