// Bytes on their way out of the program: compressed, and in the stream that a Response of this runtime wants.
//
// Knows web streams and gzip. Must not know HTTP, or what the bytes are.
import { oneOf } from "../config/rules.ts";
import { runtime, type ByteChannel } from "../runtime/runtime.ts";
import { UsageError } from "../util/errors.ts";
import type { StreamOptions } from "./options.ts";

/** Throws unless the runtime can do what `gzip` asks for. */
export function checkGzip({ gzip = false }: StreamOptions): void {
  oneOf(true, false)(gzip, "gzip");
  if (gzip && typeof CompressionStream === "undefined") {
    throw new UsageError(
      "UNSUPPORTED_ON_RUNTIME",
      `${runtime().name} has no CompressionStream: leave out option "gzip".`,
    );
  }
}

/** Compresses a stream. `channel`: the runtime's own channel, which then carries the result. */
export function compressed(stream: ReadableStream<Uint8Array>, channel?: ByteChannel): ReadableStream<Uint8Array> {
  const bytes =
    runtime().gzip?.(stream) ??
    stream.pipeThrough(new CompressionStream("gzip") as unknown as TransformStream<Uint8Array, Uint8Array>);
  return channel ? carried(bytes, channel) : bytes;
}

/**
 * The same bytes as the body of a Response: compressed if that is asked for, and in the runtime's own channel where it
 * has one.
 *
 * @internal
 */
export function asBody(bytes: ReadableStream<Uint8Array>, gzip = false): ReadableStream<Uint8Array> {
  const channel = runtime().responseBody?.();
  if (gzip) return compressed(bytes, channel);
  return channel ? carried(bytes, channel) : bytes;
}

/** The same bytes in the runtime's own stream. Not by pipeTo: workerd does not tell it that the reader has left. */
function carried(bytes: ReadableStream<Uint8Array>, { readable, writable }: ByteChannel): ReadableStream<Uint8Array> {
  const reader = bytes.getReader();
  const writer = writable.getWriter();
  const leave = (reason: unknown) => reader.cancel(reason).catch(() => {});
  const carry = async () => {
    try {
      for (let step; !(step = await reader.read()).done;) await writer.write(step.value);
      await writer.close();
    } catch (error) {
      await Promise.allSettled([leave(error), writer.abort(error)]);
    }
  };
  writer.closed.catch(leave);
  runtime().background(carry());
  return readable;
}
