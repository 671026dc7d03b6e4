// gzip, since no runtime's CompressionStream may be left. Node's, while data wait in it, throws in a tick of its own
// (`Controller is already closed`, nodejs/node#64529), where nobody can catch it, and the process ends. Bun's and
// Deno's tell the source milliseconds later, and meanwhile the client's next call is refused (`STREAM_OPEN`). workerd's
// never tells, and the query goes on. A client that leaves its response does just that.
//
// So it is read to its end, which comes soon when nothing goes in any more. Not by pipeThrough with a signal: that
// first waits for what has been written, and so for a reader that has left. Knows web streams only.

/** The stream, compressed; leaving it leaves `stream` at once. */
export function gzip(stream: ReadableStream<Uint8Array>): ReadableStream<Uint8Array> {
  const source = stream.getReader();
  const { readable, writable } = new CompressionStream("gzip") as unknown as TransformStream<Uint8Array, Uint8Array>;
  const reader = readable.getReader();
  void feed(source, writable.getWriter());
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await reader.read();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      cancel(reason) {
        void drain(reader);
        return source.cancel(reason);
      },
    },
    { highWaterMark: 0 }, // what waits, waits in CompressionStream
  );
}

async function feed(
  source: ReadableStreamDefaultReader<Uint8Array>,
  writer: WritableStreamDefaultWriter<Uint8Array>,
): Promise<void> {
  try {
    for (let step; !(step = await source.read()).done;) await writer.write(step.value);
    await writer.close();
  } catch (error) {
    writer.abort(error).catch(() => {});
  }
}

async function drain(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<void> {
  try {
    while (!(await reader.read()).done);
  } catch {
    // Its end, too.
  }
}
