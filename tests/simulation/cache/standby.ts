// A standby whose answers are stored too: it replays what is on the primary's disk, a while later.
//
// Rows are replayed. Definitions are not, so nothing may change them. Knows the log. Must not know the cache.
import type { Clock, Dice } from "../contract.ts";
import { redo } from "../server/cluster/node.ts";
import type { Server } from "../server/server.ts";
import { Transaction } from "../server/transactions.ts";

export class Standby {
  readonly #clock: Clock;
  readonly #primary: Server;
  readonly #server: Server;
  /** The number of the primary's commits that are known here, and that are replayed. */
  #received = 0;
  #replayed = 0;
  /** When the newest of them is replayed. */
  #due = 0;
  /** The first transaction id that is not known here. */
  #next: number;

  /** Both have the same content. `replays`: maximum milliseconds from the primary's disk to the tables here. */
  constructor(clock: Clock, dice: Dice, primary: Server, server: Server, replays: number) {
    this.#clock = clock;
    this.#primary = primary;
    this.#server = server;
    this.#next = primary.world.nextTransaction();
    server.world.standing.isStandby = true;
    server.world.standing.snapshot = () => this.#snapshot();
    const { log } = primary.world;
    log.open();
    log.onCommit(() => {
      for (; this.#received < log.committed.length; this.#received++) this.#receive(dice.below(replays * 10) / 10);
    });
  }

  #receive(delay: number): void {
    const { now } = this.#clock;
    this.#due = Math.max(this.#due, now + delay);
    this.#clock.after(this.#due - now, () => this.#replayNext());
  }

  #replayNext(): void {
    const { world } = this.#server;
    const { xid, at, changes } = this.#primary.world.log.committed[this.#replayed++]!;
    const transaction = new Transaction(world.nextTransaction(), at, world.locks);
    for (const change of changes) redo(world, transaction, change);
    world.commit(transaction);
    this.#next = Math.max(this.#next, xid + 1);
  }

  /** The list is empty, although transactions between xmin and xmax may run (visibility.ts). */
  #snapshot(): string {
    const { world } = this.#primary;
    const running = Number(world.snapshot().split(":")[0]);
    const waiting = [...world.log.committed.slice(this.#replayed), ...world.log.unflushed].map(({ xid }) => xid);
    return `${Math.min(running, this.#next, ...waiting)}:${this.#next}:`;
  }
}
