// Listens to an AbortSignal for a while. A signal that aborted earlier counts too, and no listener is left on a signal
// that lives long.
//
// All calls with one signal share one listener of the signal: Node 20 warns of a leak when there are more than ten.

/** What is called when the signal aborts, in the order in which it came. An array: most signals have one or two. */
const listeners = new WeakMap<AbortSignal, (() => void)[]>();

/** Calls `listener` when the signal aborts, or at once if it already has. Returns a function that stops listening. */
export function onAbort(signal: AbortSignal | undefined, listener: () => void): () => void {
  if (!signal) return nothing;
  if (signal.aborted) {
    listener();
    return nothing;
  }
  const all = listeners.get(signal) ?? firstOf(signal);
  all.push(listener);
  return () => {
    const at = all.indexOf(listener);
    if (at < 0) return;
    all.splice(at, 1);
    if (all.length > 0 || listeners.get(signal) !== all) return;
    listeners.delete(signal);
    signal.removeEventListener("abort", aborted);
  };
}

function nothing(): void {}

function firstOf(signal: AbortSignal): (() => void)[] {
  const all: (() => void)[] = [];
  listeners.set(signal, all);
  signal.addEventListener("abort", aborted);
  return all;
}

/** One that is stopped by another is not called any more, and one that throws stops no other. */
function aborted(this: AbortSignal): void {
  const all = listeners.get(this) ?? [];
  listeners.delete(this);
  this.removeEventListener("abort", aborted);
  for (let listener; (listener = all.shift());) {
    try {
      listener();
    } catch (error) {
      queueMicrotask(() => {
        throw error;
      });
    }
  }
}
