// The world of one simulated session: a clock that jumps from event to event, dice for each purpose, and the record of
// what happened.
//
// Between two events all promises come to rest, so the outcome depends on the seed alone. An event is a timer of the
// driver, an arrival of bytes, or a moment of the server. Knows no driver, no bytes and no PostgreSQL.
import type { Clock, Dice, Timer } from "./contract.ts";
import { Dice as SeededDice } from "../random/dice.ts";
import { real, substitute, type Substitute } from "./patches.ts";

interface Event {
  readonly at: number;
  /** Orders events of equal time: the one scheduled first runs first. */
  readonly number: number;
  run: (() => void) | undefined;
}

/** How a session's main program ended. */
export type End =
  | { readonly kind: "done" }
  | { readonly kind: "failed"; readonly error: unknown }
  | { readonly kind: "stuck" };

/** A session that needs more events is assumed never to end. */
const MOST_EVENTS = 400_000;

export class World implements Clock, Substitute {
  readonly #queue = new Heap();
  readonly #timers = new Map<number, Timer>();
  readonly #seed: number;
  readonly #lines: string[] | undefined;
  readonly #random: SeededDice;
  #now = 0;
  #lastNumber = 0;
  #hash = 0x811c9dc5;
  /** The number of events that have run. */
  events = 0;
  /** Called between two events, after all promises have come to rest. */
  onRest: () => void = () => {};

  /** `keepsLines`: keeps the timeline as text, not only as a hash. */
  constructor(seed: number, keepsLines: boolean) {
    this.#seed = seed;
    this.#lines = keepsLines ? [] : undefined;
    this.#random = this.dice("Math.random") as SeededDice;
  }

  get now(): number {
    return this.#now;
  }

  /** Returns the dice of one purpose. Throws for another purpose do not change them. */
  dice(purpose: string): Dice {
    let hash = this.#seed | 0;
    for (let at = 0; at < purpose.length; at++) hash = Math.imul(hash ^ purpose.charCodeAt(at), 0x01000193);
    return new SeededDice(hash >>> 0);
  }

  after(milliseconds: number, event: () => void): Timer {
    const entry: Event = { at: this.#now + Math.max(0, milliseconds), number: ++this.#lastNumber, run: event };
    this.#queue.add(entry);
    return {
      cancel: () => {
        if (!entry.run) return;
        entry.run = undefined;
        this.#queue.cancelled++;
      },
    };
  }

  /** The number of events that have not run yet. */
  get pending(): number {
    return this.#queue.size - this.#queue.cancelled;
  }

  /** The number of timers of the driver and of programs that are still set. */
  get timers(): number {
    return this.#timers.size;
  }

  /** Stops the process: its clocks advance, and none of its timers fires meanwhile. */
  freeze(milliseconds: number): void {
    this.#now += milliseconds;
  }

  // -- the record -----------------------------------------------------------------------------------------------------

  note(who: string, text: string): void {
    const line = this.#line(who, text);
    this.#mix(line);
    this.#lines?.push(line);
  }

  /**
   * Notes bytes that moved, and in the timeline what `describe` returns, if anything. `describe` is called only where
   * lines are kept.
   */
  noteBytes(who: string, bytes: Uint8Array, describe: () => string): void {
    let hash = this.#hash;
    for (let at = 0; at < bytes.length; at++) hash = Math.imul(hash ^ bytes[at]!, 0x01000193);
    this.#hash = hash;
    const text = this.#lines && describe();
    if (text) this.#lines.push(this.#line(who, text));
  }

  /** Equal for equal sessions. */
  get fingerprint(): string {
    return (this.#hash >>> 0).toString(16).padStart(8, "0");
  }

  get lines(): readonly string[] {
    return this.#lines ?? [];
  }

  #line(who: string, text: string): string {
    return `${this.#now.toFixed(3).padStart(12)} ${who} ${text}`;
  }

  #mix(line: string): void {
    let hash = this.#hash;
    for (let at = 0; at < line.length; at++) hash = Math.imul(hash ^ line.charCodeAt(at), 0x01000193);
    this.#hash = hash;
  }

  // -- in place of the platform's -------------------------------------------------------------------------------------

  random(): number {
    return this.#random.below(0x40000000) / 0x40000000;
  }

  set(run: () => void, delay: number, every: boolean): number {
    const id = ++this.#lastNumber;
    const event = () => {
      if (every) this.#timers.set(id, this.after(delay, event));
      else this.#timers.delete(id);
      run();
    };
    this.#timers.set(id, this.after(delay, event));
    return id;
  }

  clear(id: number): void {
    this.#timers.get(id)?.cancel();
    this.#timers.delete(id);
  }

  // -- running --------------------------------------------------------------------------------------------------------

  /**
   * Runs `main` until it settles, event by event. `stuck`: `main` waits, and no event is left that could help, or there
   * were too many events.
   */
  async run(main: () => Promise<void>): Promise<End> {
    let end: End | undefined;
    substitute(this);
    try {
      main().then(
        () => (end = { kind: "done" }),
        (error: unknown) => (end = { kind: "failed", error }),
      );
      await atRest(() => {
        this.onRest();
        if (end) return false;
        if (this.#step()) return true;
        end = { kind: "stuck" };
        return false;
      });
      return end!;
    } finally {
      substitute(undefined);
    }
  }

  /** Continues for this long, for whatever must end by itself. */
  async runFor(milliseconds: number): Promise<void> {
    const until = this.#now + milliseconds;
    substitute(this);
    try {
      await atRest(() => (this.#queue.first()?.at ?? Infinity) <= until && this.#step());
      this.#now = Math.max(this.#now, until);
    } finally {
      substitute(undefined);
    }
  }

  #step(): boolean {
    const event = this.#queue.first();
    if (!event || this.events >= MOST_EVENTS) return false;
    this.#queue.takeFirst();
    this.events++;
    this.#now = Math.max(this.#now, event.at);
    const { run } = event;
    event.run = undefined;
    run!();
    return true;
  }
}

/** The number of immediates that are requested at once. */
const TURNS = 128;

/**
 * Calls `next` for as long as it returns true, each time after all promises have come to rest: Node runs microtasks and
 * ticks to the last one between two immediates. Many immediates are requested at once, since a turn of the event loop,
 * with its look at real sockets, costs as much as an event.
 */
function atRest(next: () => boolean): Promise<void> {
  return new Promise((resolve, reject) => {
    let left = 0;
    let goesOn = true;
    const turn = () => {
      left--;
      if (!goesOn) return;
      try {
        goesOn = next();
      } catch (error) {
        goesOn = false;
        return reject(error as Error);
      }
      if (!goesOn) return resolve();
      if (!left) ask();
    };
    const ask = () => {
      for (left = 0; left < TURNS; left++) real.setImmediate(turn);
    };
    ask();
  });
}

/** Events by time, then by number. */
class Heap {
  readonly #events: Event[] = [];
  /** The number of cancelled events in the heap. */
  cancelled = 0;

  get size(): number {
    return this.#events.length;
  }

  add(event: Event): void {
    const events = this.#events;
    let at = events.length;
    events.push(event);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (isBefore(events[parent]!, event)) break;
      events[at] = events[parent]!;
      at = parent;
    }
    events[at] = event;
  }

  /** Returns the next event that is not cancelled. */
  first(): Event | undefined {
    while (this.#events.length && !this.#events[0]!.run) {
      this.takeFirst();
      this.cancelled--;
    }
    return this.#events[0];
  }

  takeFirst(): void {
    const events = this.#events;
    const last = events.pop()!;
    if (!events.length) return;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= events.length) break;
      if (child + 1 < events.length && isBefore(events[child + 1]!, events[child]!)) child++;
      if (isBefore(last, events[child]!)) break;
      events[at] = events[child]!;
      at = child;
    }
    events[at] = last;
  }
}

function isBefore(a: Event, b: Event): boolean {
  return a.at < b.at || (a.at === b.at && a.number < b.number);
}
