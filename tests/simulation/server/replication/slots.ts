// Replication slots: which slots exist, which process uses each, and what has been confirmed.
//
// Only what is on disk survives the end of the server. A slot is written to disk when it is created, sometimes while it
// is read, and from PostgreSQL 17 on at each orderly shutdown. The server sends again what was confirmed since then.
//
// Knows names, owners and positions. Must not know connections or commands.
import type { Dice } from "../../contract.ts";
import { PgError } from "../errors.ts";
import type { Log } from "./log.ts";

export interface Slot {
  readonly name: string;
  readonly isTemporary: boolean;
  /** Whether the slot is still being created. It is dropped if that fails. */
  isBeingMade: boolean;
  /** The process that uses the slot. A temporary slot belongs to its session all the time. */
  processId: number | undefined;
  confirmed: number;
  /** The confirmed position on disk. */
  saved: number;
}

const exists = (name: string): PgError => new PgError("42710", `replication slot "${name}" already exists`);
const isMissing = (name: string): PgError => new PgError("42704", `replication slot "${name}" does not exist`);
const isActive = ({ name, processId }: Slot): PgError =>
  new PgError("55006", `replication slot "${name}" is active for PID ${processId}`);

/** A confirmed position reaches the disk once in this many times. */
const SAVED = 3;

export class Slots {
  readonly #log: Log;
  readonly #slots = new Map<string, Slot>();
  readonly #waiting = new Set<() => void>();
  /** The start of each slot that ever existed. */
  readonly beginnings = new Map<string, number>();

  constructor(log: Log) {
    this.#log = log;
  }

  get all(): readonly Slot[] {
    return [...this.#slots.values()];
  }

  /** Creates a slot for a process. Changes are recorded from now on; the slot begins where `made` says. */
  create(name: string, isTemporary: boolean, processId: number): Slot {
    if (this.#slots.has(name)) throw exists(name);
    const slot: Slot = { name, isTemporary, isBeingMade: true, processId, confirmed: 0, saved: 0 };
    this.#slots.set(name, slot);
    this.#log.open();
    return slot;
  }

  made(slot: Slot): void {
    slot.isBeingMade = false;
    slot.confirmed = slot.saved = this.#log.flushed;
    this.beginnings.set(slot.name, slot.confirmed);
  }

  acquire(name: string, processId: number): Slot {
    const slot = this.#slots.get(name);
    if (!slot) throw isMissing(name);
    if (slot.processId !== undefined && slot.processId !== processId) throw isActive(slot);
    slot.processId = processId;
    return slot;
  }

  confirm(slot: Slot, position: number, dice: Dice): void {
    if (position <= slot.confirmed) return;
    slot.confirmed = position;
    if (dice.oneIn(SAVED)) slot.saved = position;
  }

  /** Releases the slots of a process. `dropsTemporary`: its session has ended, or a command has failed. */
  release(processId: number, dropsTemporary: boolean): void {
    for (const slot of this.#slots.values()) {
      if (slot.processId !== processId) continue;
      if (slot.isBeingMade || (slot.isTemporary && dropsTemporary)) this.#remove(slot);
      else if (!slot.isTemporary) slot.processId = undefined;
    }
    for (const wake of [...this.#waiting]) wake();
  }

  drop(name: string, processId: number): void {
    this.#remove(this.acquire(name, processId));
    for (const wake of [...this.#waiting]) wake();
  }

  #remove(slot: Slot): void {
    this.#slots.delete(slot.name);
    this.#log.close();
  }

  /** Whether another process uses the slot. */
  isTaken(name: string, processId: number): boolean {
    const owner = this.#slots.get(name)?.processId;
    return owner !== undefined && owner !== processId;
  }

  /** Calls `wake` when a slot is free. Returns a function that stops this. */
  onFree(wake: () => void): () => void {
    this.#waiting.add(wake);
    return () => this.#waiting.delete(wake);
  }

  /** The server has ended. `isSaved`: it had time to write its slots. */
  restart(isSaved: boolean): void {
    for (const slot of this.#slots.values()) {
      if (slot.isTemporary || slot.isBeingMade) this.#remove(slot);
      else if (isSaved) slot.saved = slot.confirmed;
      else slot.confirmed = slot.saved;
      slot.processId = undefined;
    }
  }
}
