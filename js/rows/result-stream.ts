// Bytes of rows on their way to a consumer, with back-pressure: a ReadableStream fed on demand, or the runtime's own
// byte channel.
//
// Knows web streams. Must not know the core (it is lent views) nor what the bytes mean. An end is clean only by
// `end()`.
import type { PgzError } from "../util/errors.ts";
import type { ByteChannel } from "../sockets/runtime.ts";

export interface ResultStream {
  readonly readable: ReadableStream<Uint8Array>;
  /** The view is valid until this returns. */
  write(view: Uint8Array): void;
  /** A promise while the consumer has enough. */
  full(): Promise<unknown> | undefined;
  /** Resolves when the consumer has got everything, where that can be told. */
  end(): Promise<void>;
  fail(error: PgzError): void;
}

/** `left`: the consumer went away. `copied` is told of bytes that had to be copied. */
export function resultStream(
  left: (reason: unknown) => void,
  copied: (bytes: number) => void,
  channel?: ByteChannel,
): ResultStream {
  return channel ? channelStream(left, channel) : pullStream(left, copied);
}

function pullStream(left: (reason: unknown) => void, copied: (bytes: number) => void): ResultStream {
  let controller!: ReadableStreamDefaultController<Uint8Array>;
  let wait: Promise<void> | undefined;
  let wanted: (() => void) | undefined;
  const readable = new ReadableStream<Uint8Array>(
    {
      start: (given) => void (controller = given),
      pull() {
        wait = undefined;
        wanted?.();
      },
      cancel: left,
    },
    { highWaterMark: 1 }, // one chunk of `flushBytes` waits, no more
  );
  return {
    readable,
    write(view) {
      copied(view.length);
      controller.enqueue(view.slice()); // the stream keeps what it is given
    },
    full: () =>
      (controller.desiredSize ?? 0) > 0 ? undefined : (wait ??= new Promise<void>((resolve) => (wanted = resolve))),
    end() {
      controller.close();
      return Promise.resolve();
    },
    fail: (error) => controller.error(error),
  };
}

/**
 * The channel copies at call time (seen for IdentityTransformStream, also with a view of wasm memory that grew
 * afterwards).
 */
function channelStream(left: (reason: unknown) => void, { readable, writable }: ByteChannel): ResultStream {
  const writer = writable.getWriter();
  let writing: Promise<void> | undefined;
  writer.closed.catch(left);
  return {
    readable,
    write(view) {
      const written = writer.write(view).then(() => {
        if (writing === written) writing = undefined;
      }, left);
      writing = written;
    },
    full: () => writing,
    end: () => writer.close().catch(left),
    fail: (error) => void writer.abort(error).catch(() => {}),
  };
}
