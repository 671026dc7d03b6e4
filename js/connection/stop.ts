// Stopping an operation before its end: CancelRequest, and again, until ReadyForQuery; within a bound, else the
// connection goes.
//
// Knows when a cancel may be sent and when a connection is in doubt. Must not know how a cancel travels (cancel.ts), or
// why the operation is to stop.
import { connectionLost } from "../sockets/contract.ts";
import type { PgzError } from "../util/errors.ts";
import { CANCEL_AGAIN, CANCEL_DEADLINE, CANCEL_END, CANCEL_NEXT } from "../util/limits.ts";
import { withDeadline } from "../util/deadline.ts";
import { sendCancelRequest } from "./cancel.ts";
import type { Target } from "./dial.ts";
import type { Operation } from "./operation.ts";

/** What this needs of the operation's connection. */
interface Stoppable {
  readonly closed: PgzError | undefined;
  readonly startup: Operation;
  /** The bytes of a CancelRequest, which is counted as sent. */
  cancelRequest(): Uint8Array;
  destroy(error: PgzError): void;
}

/**
 * Resolves when the connection is free for the next operation, or gone. `cancel`: the server is asked to stop; else its
 * ReadyForQuery is on its way already.
 */
export async function stop(
  operation: Operation,
  connection: Stoppable,
  target: Target,
  cancel: boolean,
): Promise<void> {
  const giveUp = new AbortController();
  const waitNoLonger = () => {
    // A cancel that is what ended the operation meets no other one.
    if (!operation.ended || !operation.canceled)
      connection.destroy(connectionLost("it was not ready in time after a cancelled call"));
    giveUp.abort();
  };
  let timer = setTimeout(waitNoLonger, CANCEL_DEADLINE);
  const isOver = () => operation.ended || connection.closed !== undefined;
  let sent = false;
  // Once the operation has ended no cancel may be sent; one that was sent is waited for, else it could meet the next
  // call.
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
  // An early query can be abandoned before BackendKeyData has come.
  let over = !cancel || (await connection.startup.done.then(send, () => true));
  // A batch of several transactions goes on behind a cancel, and a pooler may have dropped one for a client that waited
  // for a server.
  while (cancel && !isOver()) {
    await withDeadline(operation.conversation.isolated ? CANCEL_NEXT : CANCEL_AGAIN, ended);
    if (isOver()) break;
    over = (await send()) && over;
  }
  await ended;
  clearTimeout(timer);
  // A cancel that has not been seen to end may be under way still, unless it is what ended the operation.
  if (!over && !operation.canceled) connection.destroy(connectionLost("a cancel request may still reach it"));
}
