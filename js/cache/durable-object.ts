// The invalidator as a Durable Object: one for all isolates. The platform ends it at any time, and an alarm starts it
// again.
//
// Knows when it has to run. Must not know what it does, or import anything of the platform's: its base class is given.
import type { Pool } from "../index.ts";
import type { CacheInvalidator } from "./cached-options.ts";
import { Invalidator } from "./invalidator.ts";
import type { InvalidatorOptions, InvalidatorStats } from "./options.ts";

/** The part of a `DurableObjectState` that is used. */
export interface ObjectState {
  readonly storage: { setAlarm(time: number): Promise<void> };
}

/** Options of the invalidator, and the pool that it asks. It needs two connections. */
export interface InvalidatorObjectOptions extends Omit<InvalidatorOptions, "signal"> {
  readonly db: Pool;
}

/** The methods of the object, which its stub has too. Those of `CacheInvalidator` are for `cached`. */
export interface InvalidatorObject extends CacheInvalidator {
  stats(): InvalidatorStats;
  alarm(): Promise<void>;
}

/** Milliseconds after which an object that the platform has ended runs again. */
const PAUSE = 5_000;

/**
 * A class for a Durable Object that invalidates, on the platform's own `DurableObject`. `optionsOf` is called once for
 * each object.
 *
 * @example
 * export class Invalidations extends invalidatorObject(DurableObject, (env: Env, state: State) => ({
 *   db: createPool(env.DATABASE_URL, { max: 2 }), slot: "cache", publication: "cache",
 *   purge: (tags) => state.exports.default.purge(tags), onFailure: console.error,
 * })) {}
 */
export function invalidatorObject<Env, State extends ObjectState, Instance extends object>(
  Base: abstract new (state: never, env: never) => Instance,
  optionsOf: (env: Env, state: State) => InvalidatorObjectOptions,
): new (state: State, env: Env) => Instance & InvalidatorObject {
  const Parent: abstract new (state: never, env: never) => object = Base;
  class InvalidatorOf extends Parent implements InvalidatorObject {
    readonly #storage: ObjectState["storage"];
    readonly #invalidator: Invalidator;

    constructor(state: State, env: Env) {
      super(state as never, env as never);
      const { db, ...options } = optionsOf(env, state);
      this.#storage = state.storage;
      this.#invalidator = new Invalidator(db, options);
      void this.#invalidator.run();
      this.alarm().catch(options.onFailure);
    }

    open(...given: Parameters<Invalidator["open"]>) {
      return this.#invalidator.open(...given);
    }

    remember(...given: Parameters<Invalidator["remember"]>): void {
      this.#invalidator.remember(...given);
    }

    close(...given: Parameters<Invalidator["close"]>): void {
      this.#invalidator.close(...given);
    }

    abandon(...given: Parameters<Invalidator["abandon"]>): void {
      this.#invalidator.abandon(...given);
    }

    stats(): InvalidatorStats {
      return this.#invalidator.stats;
    }

    /** Does nothing else: the platform makes an object that it has ended anew, to call this. */
    async alarm(): Promise<void> {
      await this.#storage.setAlarm(Date.now() + PAUSE);
    }
  }
  return InvalidatorOf as never;
}
