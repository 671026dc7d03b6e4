// gzip with a CompressionStream that accepts any amount of input, like that of workerd: the data waiting inside stays
// small, and all of it comes out.
import { afterEach, expect, test, vi } from "vitest";
import { gzip } from "../../js/runtime/gzip.ts";
import { pause } from "../support/until.mjs";

const CHUNK = 65_536;
const OUT = 4_096;
let waiting = 0;
let most = 0;

/** Compresses nothing and never blocks a writer. Yields 4 KiB at a time, after a chunk was written, before a timer. */
class TakesAll {
  #ended = false;
  #isHeard = () => {};
  readonly writable = {
    getWriter: () => ({
      write: async ({ length }: Uint8Array) => {
        waiting += length;
        most = Math.max(most, waiting);
        this.#isHeard();
      },
      close: async () => {
        this.#ended = true;
        this.#isHeard();
      },
      abort: async () => {},
    }),
  };
  readonly readable = {
    getReader: () => ({
      read: async () => {
        while (!waiting && !this.#ended) await new Promise<void>((resolve) => (this.#isHeard = resolve));
        for (let turn = 0; turn < 50; turn++) await Promise.resolve();
        if (!waiting) return { done: true, value: undefined };
        const size = Math.min(OUT, waiting);
        waiting -= size;
        return { done: false, value: new Uint8Array(size) };
      },
    }),
  };
}

afterEach(() => {
  vi.unstubAllGlobals();
  waiting = most = 0;
});

function source(count: number) {
  const given = { chunks: 0 };
  const stream = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        if (given.chunks++ < count) controller.enqueue(new Uint8Array(CHUNK));
        else controller.close();
      },
    },
    { highWaterMark: 0 },
  );
  return { given, stream };
}

test("waiting output is read before more is written", async () => {
  vi.stubGlobal("CompressionStream", TakesAll);
  const { stream } = source(100);
  let bytes = 0;
  for await (const chunk of gzip(stream, true) as unknown as AsyncIterable<Uint8Array>) bytes += chunk.length;
  expect(bytes).toBe(100 * CHUNK);
  expect(most).toBeLessThanOrEqual(2 * CHUNK);
});

test("nothing is written while the reader wants nothing, and a cancel ends the stream", async () => {
  vi.stubGlobal("CompressionStream", TakesAll);
  const { given, stream } = source(1_000);
  const reader = gzip(stream, true).getReader();
  await reader.read();
  const { chunks } = given;
  expect(chunks).toBeLessThan(10);
  // gzip() gives the compressor a turn of the timers before it writes more. This loop gives ten such turns.
  for (let turns = 0; turns < 10; turns++) await pause(0);
  expect(given.chunks).toBe(chunks);
  await reader.cancel();
  await expect(reader.read()).resolves.toEqual({ done: true, value: undefined });
  expect(given.chunks).toBe(chunks);
});
