// Stops an operation before its end: sends CancelRequest, and repeats it, until ReadyForQuery comes; or waits for
// ReadyForQuery without a cancel. If that takes too long, the connection is destroyed.
//
// Knows when a cancel may be sent and when a connection is in doubt. Must not know how a cancel travels (cancel.ts), or
// why the operation must stop.
import { connectionLost } from "../runtime/contract.ts";
import type { PgzError } from "../util/errors.ts";
import { CANCEL_AGAIN, CANCEL_DEADLINE, CANCEL_END, CANCEL_NEXT } from "../util/limits.ts";
import { withDeadline } from "../util/deadline.ts";
import { sendCancelRequest } from "./cancel.ts";
import type { Target } from "./dial.ts";
import type { Operation } from "./operation.ts";

/** The part of the operation's connection that this file needs. */
interface Stoppable {
  readonly closed: PgzError | undefined;
  readonly startup: Operation;
  /** Returns the bytes of a CancelRequest, and counts it as sent. */
  cancelRequest(): Uint8Array;
  destroy(error: PgzError): void;
}

/** Waits for an operation that ends soon by itself. Resolves when the connection is free for the next one, or gone. */
export async function waitForEnd(operation: Operation, connection: Pick<Stoppable, "destroy">): Promise<void> {
  const timer = setTimeout(() => connection.destroy(notReadyInTime()), CANCEL_DEADLINE);
  await operation.done.catch(() => {});
  clearTimeout(timer);
}

/** Asks the server to stop. Resolves when the connection is free for the next operation, or gone. */
export async function stop(operation: Operation, connection: Stoppable, target: Target): Promise<void> {
  const giveUp = new AbortController();
  const waitNoLonger = () => {
    // If a cancel has ended the operation, that cancel cannot hit another call.
    if (!operation.ended || !operation.canceled) connection.destroy(notReadyInTime());
    giveUp.abort();
  };
  let timer = setTimeout(waitNoLonger, CANCEL_DEADLINE);
  const isOver = () => operation.ended || connection.closed !== undefined;
  let sent = false;
  // After the operation has ended, no cancel may be sent. A cancel that was sent is waited for, because otherwise it
  // could hit the next call.
  const ended = operation.done
    .catch(() => {})
    .then(() => {
      if (!sent) return giveUp.abort();
      if (operation.canceled) return;
      clearTimeout(timer);
      timer = setTimeout(waitNoLonger, CANCEL_END);
    });
  const key = (): Uint8Array | undefined => {
    if (isOver()) return undefined;
    sent = true;
    return connection.cancelRequest();
  };
  const send = () => sendCancelRequest(target, key, giveUp.signal).catch(() => true);
  // An early query can be abandoned before BackendKeyData has arrived.
  let over = await connection.startup.done.then(send, () => true);
  // A batch of several transactions continues after a cancel. And a pooler may have dropped the cancel of a client that
  // was waiting for a server.
  while (!isOver()) {
    await withDeadline(operation.conversation.isolated ? CANCEL_NEXT : CANCEL_AGAIN, ended);
    if (isOver()) break;
    over = (await send()) && over;
  }
  await ended;
  clearTimeout(timer);
  // A cancel whose end was not seen may still be in flight, unless it is the one that ended the operation.
  if (!over && !operation.canceled) connection.destroy(connectionLost("a cancel request may still reach it"));
}

function notReadyInTime(): PgzError {
  return connectionLost("it was not ready in time after a cancelled call");
}
