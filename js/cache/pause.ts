// A pause that a signal ends.
//
// Must not know why there is one.
import { onAbort } from "../util/abort.ts";

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
