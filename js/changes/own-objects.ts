// What a stream has made on its server for itself alone: the slot of a snapshot, until all its rows have been yielded,
// and the publication of option `tables`. Both are dropped when the stream ends.
//
// Knows what exists. Must not know why a stream ends.
import type { Client, Pool } from "../index.ts";
import { withDeadline } from "../util/deadline.ts";
import { Core } from "./core.ts";
import { identifier } from "./options.ts";
import type { OwnPublication } from "./own-publication.ts";
import { Replication } from "./replication.ts";

/** Maximum message size for a connection that only receives responses to commands. */
const MAX_MESSAGE_BYTES = 1 << 20;
/** Milliseconds to connect, and then again to drop. */
const LONGEST_DROP = 5_000;
/** Milliseconds for the answer of a server that has made a slot, when the stream ends meanwhile. */
const LONGEST_CREATION = 500;

export class OwnObjects {
  readonly #db: Client | Pool;
  readonly #slot: string;
  #hasSlot = false;
  /** The publication that was made and has not been dropped. */
  #publication: OwnPublication | undefined;
  /** Settles when the server has said whether the slot was made. */
  #creation: Promise<void> | undefined;
  #dropping: Promise<Error | undefined> | undefined;

  constructor(db: Client | Pool, slot: string) {
    this.#db = db;
    this.#slot = slot;
  }

  get hasSlot(): boolean {
    return this.#hasSlot;
  }

  async publish(publication: OwnPublication, connection: Replication): Promise<void> {
    await publication.make(connection);
    this.#publication = publication;
  }

  /** The slot is made when `creation` resolves. */
  addSlot(creation: Promise<unknown>): void {
    this.#creation = creation.then(
      () => void (this.#hasSlot = true),
      () => {},
    );
  }

  /** From now on the slot is the user's. */
  giveSlot(): void {
    this.#hasSlot = false;
  }

  /** A slot whose answer is on its way must be dropped, too. A server that waits for transactions has not made it. */
  async untilCreated(): Promise<void> {
    if (this.#creation) await withDeadline(LONGEST_CREATION, this.#creation);
  }

  /** Drops all. The stream's own connection is closed before. Resolves with the reason if it failed; never rejects. */
  async drop(): Promise<Error | undefined> {
    if (!this.#hasSlot && !this.#publication) return await this.#dropping;
    return await (this.#dropping ??= this.#dropAll());
  }

  async #dropAll(): Promise<Error | undefined> {
    const [hasSlot, publication] = [this.#hasSlot, this.#publication];
    this.#hasSlot = false;
    this.#publication = undefined;
    // On a connection of its own and with a new signal: `db` may be closed, and the stream's signal is often what ended
    // it.
    const core = new Core(MAX_MESSAGE_BYTES, 0);
    try {
      const connection = await Replication.open(this.#db, core, AbortSignal.timeout(LONGEST_DROP));
      const timer = setTimeout(() => void connection.close(), LONGEST_DROP);
      try {
        // The server may not have noticed yet that the slot's connection has ended.
        if (hasSlot) await connection.run(`DROP_REPLICATION_SLOT ${identifier(this.#slot)} WAIT`);
        await publication?.drop(connection);
      } finally {
        clearTimeout(timer);
        await connection.close();
      }
      return undefined;
    } catch (error) {
      return error as Error;
    } finally {
      core.free();
    }
  }
}
