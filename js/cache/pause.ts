// A pause that a signal ends, and how long one may be.
//
// Must not know why there is one.
import { onAbort } from "../util/abort.ts";

/** Maximum milliseconds that a timer can wait for: with more it fires at once. */
export const LONGEST_TIMER = 2 ** 31 - 1;

/** Whether a timer can wait for as many whole milliseconds. */
export const mayWait = (milliseconds: number): boolean =>
  Number.isSafeInteger(milliseconds) && milliseconds >= 1 && milliseconds <= LONGEST_TIMER;

/** Resolves after so many milliseconds, or when the signal aborts. */
export async function paused(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  let stop: (() => void) | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  await new Promise<void>((resolve) => {
    timer = setTimeout(resolve, milliseconds);
    stop = onAbort(signal, resolve);
  });
  clearTimeout(timer);
  stop?.();
}
