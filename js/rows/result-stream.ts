// Passes bytes of rows to a consumer with back-pressure: by a ReadableStream fed on demand, or by the runtime's own
// byte channel.
//
// Knows web streams. Must not know the core, which lends it views, nor what the bytes mean. Only `end()` ends the
// stream cleanly.
import type { PgzError } from "../util/errors.ts";
import type { ByteChannel } from "../runtime/runtime.ts";

interface ResultStream {
  readonly readable: ReadableStream<Uint8Array>;
  /** The view is valid until this returns. */
  write(view: Uint8Array): void;
  /** Returns a promise while the consumer has enough. */
  full(): Promise<unknown> | undefined;
  /** Resolves when the consumer has received everything, where the runtime can tell. */
  end(): Promise<void>;
  fail(error: PgzError): void;
}

/** `left` is called when the consumer leaves. `copied` is called with the number of bytes that were copied. */
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
      controller.enqueue(view.slice()); // the stream keeps the array that it is given
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
 * The channel copies the view during the call (seen for IdentityTransformStream, also with a view of wasm memory that
 * grew afterwards).
 */
function channelStream(left: (reason: unknown) => void, { readable, writable }: ByteChannel): ResultStream {
  const writer = writable.getWriter();
  let writing: Promise<void> | undefined;
  writer.closed.catch(left);
  return {
    readable,
    write(view) {
      const written = writer
        .write(view)
        .catch(left)
        .then(() => {
          if (writing === written) writing = undefined;
        });
      writing = written;
    },
    full: () => writing,
    end: () => writer.close().catch(left),
    fail: (error) => void writer.abort(error).catch(() => {}),
  };
}
