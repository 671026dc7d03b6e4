// The cluster's own queries on a session. They belong to no call, so no call's deadline covers them. If there is no
// answer within the `timeout` of the call that needs it, the connection is closed.
//
// Knows operations. Must not know what is asked, or why.
import { TimeoutError, type CallOptions } from "../index.ts";
import { COPY_NONE, ROWS_NONE } from "../wasm/numbers.ts";
import type { Config, Operation, Session } from "./pool-queue.ts";

export const NO_LIMITS = new Float64Array();

/**
 * Returns how many milliseconds an answer may take: the `timeout` of the call that the question is for. 0: any time.
 */
export function patienceOf({ timeout }: Pick<Config, "timeout">, options: CallOptions): number {
  return (Object(options) as CallOptions).timeout ?? timeout;
}

/** Sends the question. Its connection ends if the answer does not arrive within `patience` milliseconds. */
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
    connection.interruptWithoutCancel(operation, new TimeoutError("QUERY_TIMEOUT", text, { hasNoEffect: true }));
  }, patience);
  operation.whenOver(() => clearTimeout(timer));
  return operation;
}

/** The command for `ask` that sends one statement by the simple query protocol and drops its rows. */
export function simpleQuery(statement: string): Parameters<Session["connection"]["operate"]>[0] {
  return (handle) => handle.simple_query(statement, COPY_NONE, ROWS_NONE, NO_LIMITS);
}
