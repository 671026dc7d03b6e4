// gzip, since no runtime's CompressionStream may be left. Node's, while data wait in it, throws in a tick of its own
// (`Controller is already closed`, nodejs/node#64529), where nobody can catch it, and the process ends. Bun's and
// Deno's tell the source milliseconds later, and meanwhile the client's next call is refused (`STREAM_OPEN`). workerd's
// never tells, and the query goes on. A client that leaves its response does just that.
//
// So it is read to its end, which comes soon when nothing goes in any more. Not by pipeThrough with a signal: that
// first waits for what has been written, and so for a reader that has left.
//
// workerd's takes whatever it is given, whether anybody reads or not: a client that did not read cost 15 MB a second,
// and one that did got 4 KiB in the time in which 512 KiB were read from the server. So there what waits is read before
// more goes in. The others hold writers back, and to look there costs Node 1 ms for each look.
//
// Knows web streams only.

/** The stream, compressed; leaving it leaves `stream` at once. `takesAll`: the runtime holds no writer back. */
export function gzip(stream: ReadableStream<Uint8Array>, takesAll = false): ReadableStream<Uint8Array> {
  const source = stream.getReader();
  const { readable, writable } = new CompressionStream("gzip") as unknown as TransformStream<Uint8Array, Uint8Array>;
  const reader = readable.getReader();
  const writer = writable.getWriter();
  /** Nothing goes in any more. */
  let isFed = false;
  /** A chunk is going in; where writers are held back, until more is read. */
  let feeding: Promise<void> | undefined;
  /** Why the source ended; workerd's tells it as a text only. */
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
    { highWaterMark: 0 }, // what waits, waits in CompressionStream
  );
}

/** Whether it comes before a timer does, as what waits in workerd's CompressionStream. */
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
    // Its end, too.
  }
}
