// Listens to an AbortSignal for a while. A signal that aborted earlier counts too, and no listener is left on a signal
// that lives long.

/** Calls `listener` when the signal aborts, or at once if it already has. Returns a function that stops listening. */
export function onAbort(signal: AbortSignal | undefined, listener: () => void): () => void {
  if (signal?.aborted) listener();
  else signal?.addEventListener("abort", listener);
  return () => signal?.removeEventListener("abort", listener);
}
