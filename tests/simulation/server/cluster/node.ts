// One server of a cluster: what it has received of the log, how much of that it has replayed, and which server it
// follows.
//
//   primary ── commit ──> entries ── after `receives` ms ──> entries of a standby ── after `replays` ms ──> its tables
//
// A standby replays a commit by making its changes again. Knows the log, and how it reaches tables. Must not know which
// server is promoted when (replicas.ts).
import type { Clock, Dice, Timer } from "../../contract.ts";
import type { LoggedChange } from "../replication/log.ts";
import type { Server } from "../server.ts";
import type { Table, Version } from "../tables.ts";
import { Transaction } from "../transactions.ts";
import type { Value } from "../values.ts";
import type { World } from "../world.ts";
import type { Entry, History } from "./history.ts";

/** Milliseconds: a minimum, and a random part added to it. */
export type Delay = readonly [least: number, jitter: number];

export interface Lag {
  readonly receives: Delay;
  readonly replays: Delay;
}

/** When the server was on which timeline, and in which role. */
export interface Stay {
  readonly since: number;
  readonly timeline: number;
  readonly isStandby: boolean;
}

export class Node {
  /** The entries that the server has received, or has written itself. */
  #entries: Entry[] = [];
  /** The number of these entries that are in its tables. */
  #replayed = 0;
  #upstream: Node | undefined;
  /** The times from which the entries not yet replayed may be replayed. */
  #due: number[] = [];
  #receiving: Timer | undefined;
  #replaying: Timer | undefined;
  #isPaused = false;
  #isCut = false;
  #stopListening = () => {};
  readonly stays: Stay[] = [];

  constructor(
    readonly name: string,
    readonly server: Server,
    readonly lag: Lag,
    private readonly around: {
      readonly clock: Clock;
      readonly dice: Dice;
      readonly history: History;
      /** Whether the other servers have each commit at once. */
      readonly isSynchronous: boolean;
      readonly showsReceiver: boolean;
      /** Once in this many commits the log's last record fills its page. */
      readonly fillsPages: number;
      /** Called after something was written. */
      wrote(node: Node): void;
    },
  ) {
    this.#settle(server.world);
  }

  get entries(): readonly Entry[] {
    return this.#entries;
  }

  get isStandby(): boolean {
    return this.server.world.standing.isStandby;
  }

  get isUp(): boolean {
    return this.server.isRunning;
  }

  /** The position up to which the tables have the log. */
  get position(): number {
    return this.server.world.log.end;
  }

  get timeline(): number {
    return this.stays.at(-1)!.timeline;
  }

  get upstream(): Node | undefined {
    return this.#upstream;
  }

  /** Sets the initial content, with one row, so that no result is empty. */
  #settle(world: World): void {
    const transaction = new Transaction(world.nextTransaction(), 0, world.locks);
    world.tables.find(({ name }) => name === "ledger")!.insert(transaction, [0]);
    world.commit(transaction);
    world.standing.name = this.name;
    world.standing.showsReceiver = this.around.showsReceiver;
  }

  #stay(timeline: number, isStandby: boolean): void {
    this.stays.push({ since: this.around.clock.now, timeline, isStandby });
  }

  // -- a primary ------------------------------------------------------------------------------------------------------

  /** Makes the server a primary, which accepts writes from now on. */
  lead(timeline: number): void {
    const { world } = this.server;
    const { standing, log } = world;
    Object.assign(standing, { isStandby: false, timeline, receives: undefined, restartTimeline: timeline });
    this.#stay(timeline, false);
    log.open();
    const stop = log.onCommit(() => this.#wrote(log.committed.at(-1)!.changes));
    this.#stopListening = () => {
      stop();
      this.#stopListening = () => {};
    };
  }

  #wrote(changes: readonly LoggedChange[]): void {
    const { dice, fillsPages } = this.around;
    const { log } = this.server.world;
    this.#write(changes);
    if (fillsPages && dice.oneIn(fillsPages)) {
      log.fillPage();
      this.#write([]);
    }
    this.around.wrote(this);
  }

  #write(changes: readonly LoggedChange[]): void {
    const { clock, history } = this.around;
    const { log, standing } = this.server.world;
    const entry = { timeline: standing.timeline, ends: log.end, at: clock.now, changes };
    this.#entries.push(entry);
    this.#replayed++;
    history.entries.push(entry);
  }

  /** Replays what the server has received, and continues from there on a new timeline. */
  promote(): void {
    const { history } = this.around;
    const { world } = this.server;
    this.leave();
    while (this.#replayed < this.#entries.length) this.#replayNext();
    world.standing.replayed = world.log.end;
    const from = this.#entries.at(-1)?.timeline ?? 1;
    this.lead(history.fork(from, world.log.end));
    world.log.advance();
    this.#write([]);
    this.around.wrote(this);
  }

  // -- a standby ------------------------------------------------------------------------------------------------------

  /** Follows `upstream`. The server's entries must be a prefix of upstream's: {@link canFollow}. */
  follow(upstream: Node): void {
    const { clock, dice } = this.around;
    const { standing } = this.server.world;
    this.leave();
    this.#upstream = upstream;
    standing.isStandby = true;
    standing.receives = upstream.timeline;
    this.#stay(upstream.timeline, true);
    // The timeline of the restart point changes at the next restart point.
    const { world } = this.server;
    const restartsAfter = this.stays.length === 1 ? 0 : 1_000 + dice.below(60_000);
    clock.after(restartsAfter, () => {
      if (this.#upstream === upstream && this.server.world === world) standing.restartTimeline = upstream.timeline;
    });
    this.goOn();
  }

  /** Stops following a server. */
  leave(): void {
    this.#upstream = undefined;
    this.#receiving?.cancel();
    this.#replaying?.cancel();
    this.#receiving = this.#replaying = undefined;
    this.#isPaused = false;
    this.#isCut = false;
    this.server.world.standing.receives = undefined;
  }

  canFollow({ entries }: Node): boolean {
    return this.isStandby && this.#entries.every((entry, at) => entry === entries[at]);
  }

  /** Copies all of `upstream`, as pg_rewind does for a server that must be stopped meanwhile. */
  copy(upstream: Node): void {
    this.leave();
    this.#stopListening();
    const world = this.server.newWorld();
    this.#settle(world);
    world.standing.isStandby = true;
    world.standing.restartTimeline = upstream.timeline;
    this.server.start(world);
    this.#entries = [...upstream.entries];
    this.#replayed = 0;
    this.#due = [];
    while (this.#replayed < this.#entries.length) this.#replayNext();
    this.follow(upstream);
  }

  /** Continues to receive and replay, after a pause, a restart or a commit of the upstream. */
  goOn(): void {
    this.#receive();
    this.#replay();
  }

  pause(milliseconds: number): void {
    this.#isPaused = true;
    this.#replaying?.cancel();
    this.#replaying = undefined;
    this.around.clock.after(milliseconds, () => {
      this.#isPaused = false;
      this.goOn();
    });
  }

  /** Stops the arrival of the log for a while. */
  cut(milliseconds: number): void {
    this.#isCut = true;
    this.#receiving?.cancel();
    this.#receiving = undefined;
    this.around.clock.after(milliseconds, () => {
      this.#isCut = false;
      this.goOn();
    });
  }

  #receive(): void {
    const upstream = this.#upstream;
    const { clock, isSynchronous } = this.around;
    if (!upstream?.isUp || !this.isUp || this.#isCut || this.#receiving) return;
    if (this.#entries.length >= upstream.entries.length) return;
    if (isSynchronous) return this.#take(upstream, clock.now);
    const sentAt = clock.now;
    this.#receiving = clock.after(this.#thrown(this.lag.receives), () => {
      this.#receiving = undefined;
      if (upstream.isUp && this.isUp) this.#take(upstream, sentAt);
      this.#receive();
    });
  }

  /** Takes what was written until `sentAt`. */
  #take(upstream: Node, sentAt: number): void {
    const { now } = this.around.clock;
    for (let at = this.#entries.length; at < upstream.entries.length; at++) {
      const entry = upstream.entries[at]!;
      if (entry.at > sentAt) break;
      this.#entries.push(entry);
      this.#due.push(now + this.#thrown(this.lag.replays));
    }
    this.#replay();
  }

  #replay(): void {
    const { clock } = this.around;
    const [due] = this.#due;
    if (due === undefined || !this.#upstream || this.#isPaused || !this.isUp || this.#replaying) return;
    this.#replaying = clock.after(Math.max(0, due - clock.now), () => {
      this.#replaying = undefined;
      if (this.isUp) this.#replayNext();
      this.#replay();
    });
  }

  #replayNext(): void {
    const entry = this.#entries[this.#replayed++]!;
    this.#due.shift();
    const { world } = this.server;
    const transaction = new Transaction(world.nextTransaction(), entry.at, world.locks);
    for (const change of entry.changes) redo(world, transaction, change);
    world.log.moveTo(entry.ends);
    world.commit(transaction);
    this.replays.push({ timeline: entry.timeline, ends: entry.ends, at: this.around.clock.now });
  }

  /** The positions that the server has reached, and when. */
  readonly replays: { readonly timeline: number; readonly ends: number; readonly at: number }[] = [];

  #thrown([least, jitter]: Delay): number {
    return least + (jitter ? this.around.dice.below(jitter * 10) / 10 : 0);
  }
}

/** Makes a change of another server's log again. */
export function redo(world: World, transaction: Transaction, { kind, tables, old, new: row }: LoggedChange): void {
  const of = tables.map(({ name }) => world.tables.find((table) => table.name === name && !table.owner)!);
  const [table] = of as [Table];
  if (kind === "insert") table.insert(transaction, [...row!]);
  if (kind === "update") table.update(transaction, versionOf(table, old!), [...row!]);
  if (kind === "delete") table.delete(transaction, versionOf(table, old!));
  if (kind === "truncate") for (const each of of) each.truncate(transaction);
}

/** Returns a version with these values that this transaction has not changed yet. */
function versionOf(table: Table, values: readonly Value[]): Version {
  const isSame = (version: Version) =>
    !version.deletedBy && version.values.every((value, at) => String(value) === String(values[at]));
  return table.visible().find(isSame)!;
}
