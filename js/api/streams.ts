// Rows as bytes on their way to a user: a stream, and the headers of the Response around it.
//
// Knows web streams and HTTP. Must not know SQL, formats, whose turn it is, or how bytes are compressed (body.ts).
import type { Operation, RowSink } from "../connection/operation.ts";
import type { Output } from "../rows/form.ts";
import { resultStream } from "../rows/result-stream.ts";
import type { Call } from "../session/call.ts";
import type { Session } from "../session/session.ts";
import { runtime, type ByteChannel } from "../runtime/runtime.ts";
import { AbortError, UsageError, type PgzError } from "../util/errors.ts";
import type { RespondOptions } from "./options.ts";

/** How a stream takes rows, and what follows them. */
export interface Feed {
  readonly sink: RowSink;
  /** Called when the statement is over: ends the stream, and the call with it. */
  readonly ended: (operation: Operation) => void;
}

/**
 * Hands the user a stream at the first rows, and feeds it until the end. `channel`: the runtime's own channel; without
 * it the stream is made in JavaScript.
 */
export function feed(
  call: Call<ReadableStream<Uint8Array>>,
  session: Session,
  output: Output,
  delivery: NonNullable<RowSink["delivery"]>,
  channel?: ByteChannel,
): Feed {
  const { stats } = session.connection.core;
  const stream = resultStream(
    (reason) => call.interrupt((facts) => new AbortError(reason, facts)),
    (bytes) => void (stats.copiedBytes += bytes),
    channel,
  );
  // A reader that has left cancels the stream meanwhile, which then has no error. One that stays gets the error.
  const fail = (error: PgzError) => {
    if (error.code === "ABORTED" && runtime().abortsBeforeCancel) setTimeout(() => stream.fail(error));
    else stream.fail(error);
  };
  call.consumer = { fail, isUnread: () => stream.full() !== undefined };
  const rows = output.rows((view) => {
    stream.write(view);
    call.hand(stream.readable);
  });
  const ended = (operation: Operation) => {
    // An aborted stream must not end as if it were whole, although its error may still wait.
    if (call.finished) return;
    const behind = output.rest(operation);
    if (behind) stream.write(behind);
    runtime().background(stream.end());
    call.succeed(stream.readable);
  };
  const { columns, comesAtEnd } = output;
  const sink: RowSink = comesAtEnd ? { columns, rows } : { delivery, columns, rows, full: () => stream.full() };
  return { sink, ended };
}

// -- Response --------------------------------------------------------------------------------------------------------

/** Headers and status, checked before anything is sent: Response would throw after the query has started. */
export function responseInit(options: RespondOptions, contentType: string): ResponseInit {
  const { status = 200, gzip } = options;
  const headers = headersOf(options.headers);
  if (!headers.has("content-type")) headers.set("content-type", contentType);
  if (gzip) headers.set("content-encoding", "gzip");
  // Response takes 200 to 599, and allows no body for three of them.
  if (!Number.isInteger(status) || status < 200 || status > 599 || [204, 205, 304].includes(status)) {
    throw new UsageError("INVALID_OPTION", 'Option "status" must be one that has a body.');
  }
  // "manual" tells workerd that the body is already compressed. Other runtimes ignore it.
  return { status, headers, ...(gzip && { encodeBody: "manual" }) };
}

function headersOf(given: RespondOptions["headers"]): Headers {
  try {
    return new Headers(given as HeadersInit);
  } catch (cause) {
    throw new UsageError("INVALID_OPTION", 'Option "headers" has a name or value that HTTP does not allow.', { cause });
  }
}
