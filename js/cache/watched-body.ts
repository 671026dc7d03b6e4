// A body that tells when it has ended, and breaks off when it is too late to end well.
//
// Knows streams. Must not know why either matters.
import { TimeoutError } from "../index.ts";

interface Watch {
  /** Whether it is too late for the body to end well. */
  readonly isOver: () => boolean;
  /** Called once, after the last byte, or when no more are wanted. */
  readonly end: () => void;
}

/** The same bytes. */
export function watched(bytes: ReadableStream<Uint8Array>, { isOver, end }: Watch): ReadableStream<Uint8Array> {
  const reader = bytes.getReader();
  let hasEnded = false;
  const endOnce = () => {
    if (!hasEnded) end(); // cancelling ends a read that is pending
    hasEnded = true;
  };
  reader.closed.catch(endOnce); // it may have failed while nothing is read
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const { done, value } = await reader.read();
          if (isOver()) throw tooLate();
          if (!done) return controller.enqueue(value);
          controller.close();
        } catch (error) {
          await reader.cancel(error).catch(() => {});
          endOnce();
          throw error;
        }
        endOnce();
      },
      async cancel(reason) {
        await reader.cancel(reason).catch(() => {});
        endOnce();
      },
    },
    { highWaterMark: 0 },
  );
}

function tooLate(): TimeoutError {
  const text =
    "The answer took longer than maxFill of the invalidator, so no cache may store it: read it faster, or use respond().";
  return new TimeoutError("QUERY_TIMEOUT", text);
}
