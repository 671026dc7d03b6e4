// What peers ask of Node besides what the driver asks of its runtime (../patches.ts): `setImmediate`, as an event of the
// session's world. process.nextTick needs nothing: ticks come to rest before the world's next event.
//
// An error that such an event throws is kept, as Node would hand it to `uncaughtException`. Knows a clock and errors.
// Must not know who waits. It must be loaded behind ../patches.ts, which keeps Node's own for the world itself.
import "../patches.ts";
import type { Clock, Timer } from "../contract.ts";

let current: Clock | undefined;

/** From now on immediates are events of this clock; `undefined`: they are Node's own again. */
export function immediatesOf(clock: Clock | undefined): void {
  current = clock;
}

/** What nobody caught, since the list was emptied. */
export const uncaught: unknown[] = [];
for (const event of ["unhandledRejection", "uncaughtException"] as const)
  process.on(event, (error: unknown) => void uncaught.push(error));

/** `run`, as Node runs the callback of an event. */
export function guarded(run: () => void): () => void {
  return () => {
    try {
      run();
    } catch (error) {
      uncaught.push(error);
    }
  };
}

/** An event of its own, behind those of this moment. Outside of a session nothing happens. */
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
