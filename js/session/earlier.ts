// What a call may wait for that only the user's code can finish: the callback of a transaction, or the source of a
// COPY. If that code waits for the call, each waits for the other.
//
// Knows when an earlier call is idle. Must not know what the later one does then.
import { withDeadline } from "../util/deadline.ts";
import { LONGEST_IDLE } from "../util/limits.ts";

/** A call, as far as another one waits for it. */
interface Awaited {
  readonly finished: boolean;
  whenOver(listener: () => void): void;
}

/** A call that runs the user's code: what one that waits for it needs to know. */
export interface Earlier {
  readonly call: Awaited;
  /**
   * How often the user's code has gone on so far; equal numbers mean that it has not gone on in between. `undefined`:
   * it is not waited for, but the server.
   */
  readonly idleMark: number | undefined;
}

/**
 * Resolves with `true` once the earlier call has been idle for `LONGEST_IDLE`, with `false` when one of the two is
 * over. Only AsyncLocalStorage could tell a call that the user's code waits for from one that runs beside it, but it
 * needs a flag in workerd, and before Node 24 it slows down each promise of the process.
 */
export async function becomesIdle(earlier: Earlier, waiting: Awaited): Promise<boolean> {
  const over = new Promise<void>((resolve) => [earlier.call, waiting].forEach((one) => one.whenOver(resolve)));
  for (;;) {
    const idle = earlier.idleMark;
    await withDeadline(LONGEST_IDLE, over);
    if (waiting.finished || earlier.call.finished) return false;
    if (idle !== undefined && earlier.idleMark === idle) return true;
  }
}
