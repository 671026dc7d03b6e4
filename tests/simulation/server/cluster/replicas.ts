// A cluster of a primary and its standbys: which server follows which, promotions, and the fate of a primary that was
// left behind.
//
//   promote(b, "dies")     the primary is gone, b takes its place, the others follow it a little later
//   promote(b, "lives")    the same, but the old primary accepts writes for a while on a timeline that is split off
//
// Knows the whole cluster. Must not know the driver, or when something happens (the program of a session).
import type { Clock, Dice } from "../../contract.ts";
import { Server, type ServerOptions } from "../server.ts";
import { History } from "./history.ts";
import { Node, type Lag } from "./node.ts";

export interface ReplicaOptions extends Omit<ServerOptions, "roles"> {
  readonly roles: ServerOptions["roles"];
  readonly names: readonly string[];
  /** The lag of each standby, and of the primary once it is a standby. */
  readonly lags: readonly Lag[];
  readonly isSynchronous: boolean;
  readonly showsReceiver: boolean;
  readonly fillsPages: number;
  /** Maximum milliseconds until other standbys follow a new primary. */
  readonly turns: number;
}

/** Milliseconds for which a server is stopped while its data is copied again. */
const REWINDS = 300;

export class Replicas {
  readonly history = new History();
  readonly nodes: readonly Node[];
  readonly #clock: Clock;
  readonly #dice: Dice;
  readonly #isSynchronous: boolean;
  readonly #turns: number;
  #primary: Node;
  /** The number of promotions so far. */
  promotions = 0;

  constructor(clock: Clock, dice: Dice, options: ReplicaOptions) {
    const { names, lags, isSynchronous, showsReceiver, fillsPages, turns, ...ofServer } = options;
    this.#clock = clock;
    this.#dice = dice;
    this.#isSynchronous = isSynchronous;
    this.#turns = turns;
    const { history } = this;
    const wrote = (node: Node) => {
      for (const other of this.nodes) if (other.upstream === node) other.goOn();
    };
    const around = { clock, dice, history, isSynchronous, showsReceiver, fillsPages, wrote };
    this.nodes = names.map((name, at) => new Node(name, new Server(clock, dice, ofServer), lags[at]!, around));
    [this.#primary] = this.nodes as [Node];
    this.#primary.lead(1);
    for (const node of this.nodes.slice(1)) node.follow(this.#primary);
  }

  /** The primary of the newest timeline. */
  get primary(): Node {
    return this.#primary;
  }

  /** The servers that claim to be a primary. */
  get primaries(): Node[] {
    return this.nodes.filter((node) => node.isUp && !node.isStandby);
  }

  /**
   * Promotes a standby. Returns whether that was possible: it must follow the primary, and where commits are
   * synchronous it must have all of them. The old primary continues for `livesFor`, and returns as a standby after
   * `returnsAfter`.
   */
  promote(node: Node, livesFor: number, returnsAfter: number): boolean {
    const old = this.#primary;
    if (node.upstream !== old || !node.isUp) return false;
    if (this.#isSynchronous && node.entries.length < old.entries.length) return false;
    // With synchronous commits the old primary could not acknowledge anything more.
    if (!livesFor || this.#isSynchronous) old.server.stop("crash");
    node.promote();
    this.#primary = node;
    this.promotions++;
    for (const other of this.nodes)
      if (other.upstream === old && other !== node)
        this.#clock.after(this.#dice.below(this.#turns), () => this.#turn(other));
    const stopped = this.#isSynchronous ? 0 : livesFor;
    if (stopped) this.#clock.after(stopped, () => old.server.stop(this.#dice.oneIn(2) ? "crash" : "shutdown"));
    this.#clock.after(stopped + returnsAfter, () => this.#rejoin(old));
    return true;
  }

  /** Makes a standby follow the primary of that time. */
  #turn(node: Node): void {
    if (node === this.#primary || node.upstream === this.#primary) return;
    if (node.canFollow(this.#primary)) return node.follow(this.#primary);
    node.leave();
    node.server.stop("shutdown");
    this.#clock.after(REWINDS, () => this.#rejoin(node));
  }

  #rejoin(node: Node): void {
    if (node !== this.#primary && this.#primary.isUp) return node.copy(this.#primary);
    if (node !== this.#primary) this.#clock.after(REWINDS, () => this.#rejoin(node));
  }

  /** Restarts a server. A server that is already stopped stays stopped. */
  restart(node: Node, downFor: number): boolean {
    if (!node.isUp) return false;
    node.server.restart(downFor);
    this.#clock.after(downFor + 1, () => {
      node.goOn();
      for (const other of this.nodes) if (other.upstream === node) other.goOn();
    });
    return true;
  }
}
