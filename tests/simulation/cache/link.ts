// The invalidator as a process of its own, and the calls that reach it: late, lost, answered by whichever process the
// platform runs now.
//
// Knows processes, messages, and which calls may be lost. Must not know what a call is for.
import { Invalidator, type CacheInvalidator } from "../../../js/cache.ts";
import type { Pool } from "../../../js/index.ts";
import type { Clock, Dice } from "../contract.ts";
import type { Network } from "../network.ts";
import { TIMES } from "./front.ts";

/** The milliseconds of the invalidator's options. */
export const OPTIONS = { settle: TIMES.settle, maxFill: 600, maxLag: 800 };

/** One process. When it is dead, nothing that it does reaches anything. */
export class Process {
  isDead = false;
  readonly invalidator: Invalidator;
  readonly over: Promise<void>;
  readonly #db: Pool;
  readonly #network: Network;
  readonly #signal = new AbortController();

  constructor(db: Pool, network: Network, purge: (tags: readonly string[]) => Promise<void>) {
    this.#db = db;
    this.#network = network;
    this.invalidator = new Invalidator(db, {
      ...OPTIONS,
      slot: "cache",
      createSlot: "permanent",
      publication: "cache",
      signal: this.#signal.signal,
      onFailure: () => {},
      purge: async (tags) => {
        if (this.isDead) return await never();
        await purge(tags);
        if (this.isDead) await never();
      },
    });
    this.over = this.invalidator.run();
  }

  /** Whether it follows, how far it is behind, and whether that is no further than it should be. */
  get state() {
    const { state, lag } = this.invalidator.stats;
    const isFollowing = !this.isDead && state === "following";
    return { isFollowing, isWell: isFollowing && lag <= OPTIONS.maxLag, lag };
  }

  /** As kill -9: its links are reset, and its memory is gone. */
  async kill(): Promise<void> {
    this.isDead = true;
    this.#network.loseAll();
    await this.end();
  }

  async end(): Promise<void> {
    this.#signal.abort();
    await this.#db.close({ timeout: 0 });
    await this.over;
  }
}

const never = (): Promise<never> => new Promise(() => {});

export interface Ways {
  readonly clock: Clock;
  readonly dice: Dice;
  /** Maximum milliseconds of each way. */
  readonly latency: number;
  /** One call in this many is lost, on its way or on the way back. 0: none. */
  readonly loses: number;
  /** One call that closes a fill in this many is lost. 0: none. */
  readonly losesCloses: number;
  /** Maximum extra milliseconds of one open() in four. */
  readonly delays: number;
}

/** The calls of isolates. `current`: the process that gets the next one. */
export function stubOf(
  current: () => Process | undefined,
  { clock, dice, latency, loses, losesCloses, delays }: Ways,
): CacheInvalidator {
  const pause = (most: number) =>
    new Promise<void>((resolve) => void clock.after(dice.below(most * 100) / 100, resolve));
  const travel = () => pause(latency);
  const isLost = () => loses > 0 && dice.oneIn(loses * 2);
  const call = async (name: keyof CacheInvalidator, given: object): Promise<never> => {
    const copy = JSON.parse(JSON.stringify(given)) as never;
    await travel();
    if (name === "open" && delays && dice.oneIn(4)) await pause(delays);
    const process = current();
    if (name === "close" && losesCloses && dice.oneIn(losesCloses)) throw new Error("the call is lost");
    if (isLost() || !process || process.isDead) throw new Error("the invalidator cannot be reached");
    const answer = process.invalidator[name](copy) as unknown;
    await travel();
    if (isLost()) return await never();
    if (process.isDead) throw new Error("the invalidator is gone");
    return (answer === undefined ? undefined : JSON.parse(JSON.stringify(answer))) as never;
  };
  return {
    open: (opening) => call("open", opening),
    remember: (learned) => call("remember", learned),
    close: (closing) => call("close", closing),
    abandon: (fill) => call("abandon", fill),
  };
}
