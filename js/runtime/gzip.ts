// gzip, because no runtime's CompressionStream can safely be cancelled. Node's then throws, if data wait in it, in a
// tick of its own (`Controller is already closed`, nodejs/node#64529), where no code can catch it, and the process
// ends. Bun's and Deno's cancel the source milliseconds later, and until then the client's next call is refused
// (`STREAM_OPEN`). workerd's never cancels the source, and the query continues. A client that leaves its response
// cancels the stream in just this way.
//
// So the CompressionStream is read to its end, which comes soon when nothing more goes in. pipeThrough with a signal
// does not work: it first waits until written data have been read, and the reader has left.
//
// A CompressionStream cannot flush. Rows arrive when its window is full, so the timed flush is off.
//
// workerd's takes all input, even if no consumer reads. A client that did not read cost 15 MB a second, and one that
// read got 4 KiB in the time in which 512 KiB were read from the server. So on workerd, waiting output is read before
// more input goes in. The other runtimes hold writers back, and in Node each check for waiting output would cost 1 ms.
//
// Knows web streams only.

/**
 * Returns the stream, compressed. Cancelling it cancels `stream` at once. `takesAll`: the runtime holds no writer back.
 */
export function gzip(stream: ReadableStream<Uint8Array>, takesAll = false): ReadableStream<Uint8Array> {
  const source = stream.getReader();
  const { readable, writable } = new CompressionStream("gzip") as unknown as TransformStream<Uint8Array, Uint8Array>;
  const reader = readable.getReader();
  const writer = writable.getWriter();
  /** No more input goes in. */
  let isFed = false;
  /** Pending while a chunk goes in; where writers are held back, until more output is read. */
  let feeding: Promise<void> | undefined;
  /** The error that the source ended with; workerd's CompressionStream reports it as text only. */
  let failure: { readonly error: unknown } | undefined;

  const feed = async () => {
    try {
      const { done, value } = await source.read();
      if (isFed) return;
      isFed = done;
      await (done ? writer.close() : writer.write(value));
    } catch (error) {
      isFed = true;
      failure = { error };
      writer.abort(error).catch(() => {});
    } finally {
      feeding = undefined;
    }
  };

  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const next = reader.read();
        let hasCome = false;
        const come = () => void (hasCome = true);
        const came = next.then(come, come);
        while (!isFed && !hasCome) {
          if (takesAll && (await isBeforeTimer(came))) break;
          await Promise.race([came, (feeding ??= feed())]);
        }
        const { done, value } = await next.catch((cause: unknown) => {
          throw failure ? failure.error : cause;
        });
        if (done) controller.close();
        else controller.enqueue(value);
      },
      cancel(reason) {
        const isOpen = !isFed;
        isFed = true;
        const left = source.cancel(reason);
        if (isOpen) writer.close().catch(() => {}); // the end that `drain` reads up to
        void drain(reader);
        return left;
      },
    },
    { highWaterMark: 0 }, // data wait only in CompressionStream
  );
}

/** Whether `come` resolves before a timer does. It does if output already waits in workerd's CompressionStream. */
async function isBeforeTimer(come: Promise<void>): Promise<boolean> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<false>((resolve) => (timer = setTimeout(() => resolve(false))));
  const isFirst = await Promise.race([come.then(() => true), late]);
  clearTimeout(timer);
  return isFirst;
}

async function drain(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<void> {
  try {
    while (!(await reader.read()).done);
  } catch {
    // An error ends the stream, too.
  }
}
