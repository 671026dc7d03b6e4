// What peers need of Node in addition to what the driver needs of its runtime (../patches.ts): `setImmediate`, as an
// event of the session's world. process.nextTick needs no replacement: ticks come to rest before the world's next
// event.
//
// An error that such an event throws is kept, as Node would pass it to `uncaughtException`. Knows a clock and errors.
// Must not know what waits. It must be loaded after ../patches.ts, which keeps Node's own for the world itself.
import "../patches.ts";
import type { Clock, Timer } from "../contract.ts";

let current: Clock | undefined;

/** Makes immediates events of this clock. `undefined` restores Node's own. */
export function immediatesOf(clock: Clock | undefined): void {
  current = clock;
}

/** Errors that no code has caught since the list was emptied. */
export const uncaught: unknown[] = [];
for (const event of ["unhandledRejection", "uncaughtException"] as const)
  process.on(event, (error: unknown) => void uncaught.push(error));

/** Returns `run` with errors handled as Node does in the callback of an event. */
export function guarded(run: () => void): () => void {
  return () => {
    try {
      run();
    } catch (error) {
      uncaught.push(error);
    }
  };
}

/** Runs in an event of its own, after those of this moment. Outside a session nothing happens. */
export function soon(run: () => void): void {
  current?.after(0, guarded(run));
}

type Callback = (...args: unknown[]) => void;

class Immediate {
  constructor(readonly timer: Timer) {}
  ref(): this {
    return this;
  }
  unref(): this {
    return this;
  }
}

const { setImmediate: own, clearImmediate: ownClear } = globalThis;
Object.assign(globalThis, {
  setImmediate: (run: Callback, ...args: unknown[]): unknown =>
    current
      ? new Immediate(
          current.after(
            0,
            guarded(() => run(...args)),
          ),
        )
      : own(run, ...args),
  clearImmediate: (immediate: unknown) => {
    if (immediate instanceof Immediate) immediate.timer.cancel();
    else ownClear(immediate as NodeJS.Immediate);
  },
});
