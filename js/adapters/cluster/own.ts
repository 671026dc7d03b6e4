// Our own questions on a session, which no call has a deadline for: where the link is silent, or the server, the
// connection is given up after the time that a call has.
//
// Knows operations. Must not know what is asked, or why.
import { TimeoutError, type CallOptions } from "../../index.ts";
import { COPY_NONE, ROWS_NONE } from "../../wasm/numbers.ts";
import type { Config, Operation, Session } from "./inside.ts";

export const NO_LIMITS = new Float64Array();

/** Milliseconds for an answer: the `timeout` of the call that it is asked for. 0: any. */
export function patienceOf({ timeout }: Pick<Config, "timeout">, options: CallOptions): number {
  return (Object(options) as CallOptions).timeout ?? timeout;
}

/** Begins the question: its connection ends when it is not answered within `patience`. */
export function ask(
  { connection }: Session,
  patience: number,
  command: Parameters<Session["connection"]["operate"]>[0],
  conversation?: Parameters<Session["connection"]["operate"]>[1],
): Operation {
  const operation = connection.operate(command, conversation);
  if (!patience) return operation;
  const timer = setTimeout(() => {
    const text = `A question of the cluster's own was not answered within ${patience} ms (timeout).`;
    connection.interrupt(operation, new TimeoutError("QUERY_TIMEOUT", text, { retryable: true }), false);
  }, patience);
  operation.whenOver(() => clearTimeout(timer));
  return operation;
}

/** The same for a statement that is known to be a simple one, and whose rows nobody wants. */
export function simply(statement: string): Parameters<Session["connection"]["operate"]>[0] {
  return (handle) => handle.simple_query(statement, COPY_NONE, ROWS_NONE, NO_LIMITS);
}
