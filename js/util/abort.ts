// Listening to an AbortSignal for a while: what has aborted before counts too, and nothing stays behind on a signal
// that lives long.

/** Calls `listener` when the signal aborts, at once when it already has. Returns what stops that. */
export function onAbort(signal: AbortSignal | undefined, listener: () => void): () => void {
  if (signal?.aborted) listener();
  else signal?.addEventListener("abort", listener);
  return () => signal?.removeEventListener("abort", listener);
}
