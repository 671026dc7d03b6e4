// The sources of COPY FROM (js/statement/copy.ts): each kind of source, how much of it is written together, and how a
// source is cancelled when no more is wanted.
import { Readable } from "node:stream";
import { expect, test } from "vitest";
import { each, leave, sendSource, type CopyProgress, type CopySource } from "../../js/statement/copy.ts";
import { PgzError } from "../../js/util/errors.ts";
import { PIECE } from "../../js/util/limits.ts";
import { FakeTarget } from "../support/copy-target.ts";
import { isPending, quiet } from "../support/memory-session.ts";

async function sent(source: unknown): Promise<string> {
  const target = new FakeTarget();
  await sendSource(target, source as CopySource);
  return target.sent.toString();
}

const bytes = (text: string) => new TextEncoder().encode(text);

async function* slowly<T>(...items: T[]): AsyncGenerator<T> {
  for (const item of items) {
    await Promise.resolve();
    yield item;
  }
}

/** Yields these items and then never another. Records whether the source was cancelled. */
function endless<T>(...items: T[]) {
  const seen = { next: 0, returned: 0 };
  const iterator = {
    next: () => {
      const value = items[seen.next++];
      return value === undefined ? new Promise<never>(() => {}) : Promise.resolve({ done: false, value });
    },
    return: () => {
      seen.returned++;
      return Promise.reject(new Error("of no interest"));
    },
  };
  return { seen, source: { [Symbol.asyncIterator]: () => iterator } as AsyncIterable<T> };
}

function streamOf(...items: unknown[]) {
  const canceled: unknown[] = [];
  const stream = new ReadableStream<Uint8Array>({
    pull(controller) {
      const item = items.shift();
      if (item === undefined) controller.close();
      else controller.enqueue(item as Uint8Array);
    },
    cancel: (reason) => void canceled.push(reason),
  });
  return { stream, canceled };
}

test.each<[string, unknown, string]>([
  ["text", "a\tb\n", "a\tb\n"],
  ["text of more than ASCII", "é😀\u{1f600}", "é😀\u{1f600}"],
  ["nothing", "", ""],
  ["bytes", bytes("one"), "one"],
  ["a part of bytes", bytes("one").subarray(1, 2), "n"],
  ["a buffer", bytes("one").buffer, "one"],
  ["a view", new DataView(bytes("one").buffer, 1), "ne"],
  ["a Blob", new Blob(["on", bytes("e")]), "one"],
  ["pieces", ["on", bytes("e"), "", "."], "one."],
  ["no pieces", [], ""],
  ["a Set", new Set(["a", "b"]), "ab"],
  ["a generator", slowly<unknown>("on", bytes("e")), "one"],
  ["a stream", streamOf(bytes("on"), "e").stream, "one"],
  ["a function that is iterable", Object.assign(() => 1, { [Symbol.asyncIterator]: () => slowly("a", "b") }), "ab"],
])("%s", async (_, source, text) => {
  expect(await sent(source)).toBe(text);
});

test.each([5, null, undefined, {}, () => 1, { stream: "a" }, { getReader: 1 }])(
  "a value that is no source is refused: %j",
  async (source) => {
    await expect(sent(source)).rejects.toMatchObject({ name: "UsageError", code: "INVALID_OPTION" });
  },
);

test.each([[[5]], [[null]], [["a", ["b"]]], ["\ud83d"], [["\ud83d", "\ude00"]], [slowly("a\udc00")]])(
  "pieces that are neither bytes nor whole characters are refused: %j",
  async (source) => {
    await expect(sent(source)).rejects.toMatchObject({ name: "UsageError", code: "INVALID_PARAMETER" });
  },
);

// -- pieces ----------------------------------------------------------------------------------------------------------

async function pieces(source: unknown) {
  const target = new FakeTarget();
  const told: CopyProgress[] = [];
  await sendSource(target, source as CopySource, (progress) => void told.push(progress));
  return { sizes: target.writes.map(({ length }) => length), told: told.map(({ bytes }) => bytes), target };
}

test("small pieces are written together, and progress is reported after each write and at the end", async () => {
  const { sizes, told, target } = await pieces(Array<string>(30_000).fill("abcd\n"));
  expect(sizes).toEqual([PIECE - 1, PIECE - 1, 150_000 - 2 * (PIECE - 1)]);
  expect(told).toEqual([PIECE - 1, 2 * (PIECE - 1), 150_000]);
  expect(target.sent.toString()).toBe("abcd\n".repeat(30_000));
  expect((await pieces(Array<string>(20_000).fill("abcd"))).sizes).toEqual([PIECE, 80_000 - PIECE]);
  expect((await pieces([])).told).toEqual([0]);
  expect(await pieces(["ab", "c"])).toMatchObject({ sizes: [3], told: [3] });
});

test.each([
  ["ASCII", "a", 0],
  ["two bytes", "é", 0],
  ["three bytes", "€", 1],
  ["four bytes", "😀", 0],
])("a long text is cut between characters: %s", async (_, character, left) => {
  const text = character.repeat(100_000);
  const { sizes, target } = await pieces(text);
  expect(sizes[0]).toBe(PIECE - left);
  expect(target.sent.equals(Buffer.from(text))).toBe(true);
});

test("a piece with up to three bytes left is not filled with a part of a four-byte character", async () => {
  for (const before of [0, 1, 2, 3]) {
    const text = "a".repeat(before) + "😀".repeat(40_000);
    const { sizes, target } = await pieces(text);
    expect(target.sent.equals(Buffer.from(text))).toBe(true);
    expect(sizes[0]).toBeGreaterThan(PIECE - 4);
  }
});

test("long byte arrays fill each piece", async () => {
  const data = Uint8Array.from({ length: 3 * PIECE + 7 }, (_, index) => index % 251);
  const { sizes, told, target } = await pieces(data);
  expect(sizes).toEqual([PIECE, PIECE, PIECE, 7]);
  expect(told).toEqual([PIECE, 2 * PIECE, 3 * PIECE, 3 * PIECE + 7]);
  expect(target.sent.equals(Buffer.from(data))).toBe(true);
  const { sizes: exact, told: exactly } = await pieces(data.subarray(0, PIECE));
  expect([exact, exactly]).toEqual([[PIECE], [PIECE, PIECE]]);
});

test("a source is asked for more once the socket has taken the previous piece", async () => {
  const target = new FakeTarget();
  target.holds = true;
  let asked = 0;
  async function* source() {
    for (; asked < 3; asked++) yield await Promise.resolve("x".repeat(PIECE));
  }
  const sending = sendSource(target, source());
  for (const count of [1, 2, 3]) {
    await quiet();
    expect([target.writes.length, asked]).toEqual([count, count - 1]);
    target.goOn();
  }
  await sending;
  expect(asked).toBe(3);
});

test("a promise that onProgress returns is awaited", async () => {
  const target = new FakeTarget();
  let goOn = () => {};
  const sending = sendSource(target, "a", () => new Promise<void>((resolve) => (goOn = resolve)) as unknown as void);
  expect(await isPending(sending)).toBe(true);
  goOn();
  await sending;
});

// -- the end ---------------------------------------------------------------------------------------------------------

test("once no more is wanted, the rest of a piece is dropped without progress", async () => {
  const target = new FakeTarget();
  target.mostWrites = 1;
  const told: CopyProgress[] = [];
  await sendSource(target, "x".repeat(5 * PIECE), (progress) => void told.push(progress));
  expect([target.writes.length, told]).toEqual([1, [{ bytes: PIECE }]]);
});

test("once no more is wanted, an iterable is left at its next item", async () => {
  let asked = 0;
  let isLeft = false;
  function* items() {
    try {
      for (; asked < 9; asked++) yield asked;
    } finally {
      isLeft = true;
    }
  }
  const target = new FakeTarget();
  await each(target, items(), (item) => (item === 2 ? target.end() : undefined));
  expect([asked, isLeft]).toEqual([2, true]);
});

test("once no more is wanted, a source that never yields again is left and told at once", async () => {
  const target = new FakeTarget();
  const { seen, source } = endless("a");
  const sending = sendSource(target, source);
  expect(await isPending(sending)).toBe(true);
  target.end();
  await sending;
  await quiet();
  expect(seen).toEqual({ next: 2, returned: 1 });
});

test("once no more is wanted, a source that yields is not asked again, and its item is not used", async () => {
  const target = new FakeTarget();
  const used: string[] = [];
  const { seen, source } = endless("a", "b", "c");
  await each(target, source, (item) => {
    used.push(item);
    if (item === "b") target.end();
  });
  expect([used, seen]).toEqual([["a", "b"], { next: 2, returned: 1 }]);
  const over = new FakeTarget();
  over.end();
  const other = endless("a");
  await each(over, other.source, () => expect.unreachable());
  expect(other.seen).toEqual({ next: 0, returned: 1 });
});

test("a slow use of an item is awaited, in iterables of both kinds", async () => {
  for (const items of [["a", "b"], slowly("a", "b")]) {
    const log: string[] = [];
    await each(new FakeTarget(), items, async (item) => {
      log.push(`${item} begins`);
      await quiet();
      log.push(`${item} ends`);
    });
    expect(log).toEqual(["a begins", "a ends", "b begins", "b ends"]);
  }
});

test("a source that has ended or failed is not left", async () => {
  const failure = new Error("mine");
  for (const ends of [() => Promise.resolve({ done: true, value: undefined }), () => Promise.reject(failure)]) {
    let returned = 0;
    const iterator = { next: ends, return: () => Promise.resolve((returned++, { done: true, value: undefined })) };
    const sending = each(new FakeTarget(), { [Symbol.asyncIterator]: () => iterator } as never, () => {});
    await sending.catch((error: unknown) => expect(error).toBe(failure));
    expect(returned).toBe(0);
  }
  const sending = each(
    new FakeTarget(),
    { [Symbol.asyncIterator]: () => ({ next: () => Promise.reject(failure) }) },
    () => {},
  );
  await expect(sending).rejects.toBe(failure);
});

test("a source whose item cannot be used is left, even if its iterator has no `return`", async () => {
  const failure = new Error("mine");
  const use = () => {
    throw failure;
  };
  const { seen, source } = endless("a");
  await expect(each(new FakeTarget(), source, use)).rejects.toBe(failure);
  expect(seen.returned).toBe(1);
  const next = () => Promise.resolve({ done: false, value: "a" });
  const bare = { [Symbol.asyncIterator]: () => ({ next }) };
  await expect(each(new FakeTarget(), bare as never, use)).rejects.toBe(failure);
});

test("an iterator may return its items without promises", async () => {
  const items = ["a", "b"];
  const next = () => ({ done: !items.length, value: items.shift() });
  expect(await sent({ [Symbol.asyncIterator]: () => ({ next }) })).toBe("ab");
});

test("a stream that is not read to its end is cancelled, with a reason", async () => {
  const target = new FakeTarget();
  target.mostWrites = 1;
  const { stream, canceled } = streamOf(new Uint8Array(PIECE), new Uint8Array(PIECE));
  await sendSource(target, stream);
  await quiet();
  expect(canceled).toEqual(["nothing more is wanted"]);
  const whole = streamOf(bytes("a"));
  await sendSource(new FakeTarget(), whole.stream);
  expect(whole.canceled).toEqual([]);
});

test("a stream of Node's and a generator stay as they are if their COPY does not happen", async () => {
  const readable = Readable.from(["a"]);
  leave(readable, new Error("no table"));
  expect(readable.destroyed).toBe(false);
  const rows = (function* () {
    yield "a";
  })();
  leave(rows, new Error("no table"));
  await quiet();
  expect([...rows]).toEqual(["a"]);
});

test("bytes that are taken away while they are sent fail the source", async () => {
  for (const size of [0, 100]) {
    // ES2024, which the types of this project do not have yet.
    const Resizable = ArrayBuffer as unknown as new (
      size: number,
      options: object,
    ) => ArrayBuffer & {
      resize(size: number): void;
    };
    const buffer = new Resizable(3 * PIECE, { maxByteLength: 3 * PIECE });
    const target = new FakeTarget();
    const taken = () => buffer.resize(size);
    await expect(sendSource(target, new Uint8Array(buffer), taken)).rejects.toThrow("were taken away");
  }
});

test("a stream that was never read is cancelled if its COPY does not happen", async () => {
  const { stream, canceled } = streamOf("a");
  leave(stream, new PgzError("ACQUIRE_TIMEOUT", "", { retryable: true }));
  expect(canceled).toEqual([]);
  leave(stream, undefined);
  expect(canceled).toEqual(["nothing more is wanted"]);
  const locked = streamOf("a");
  locked.stream.getReader();
  leave(locked.stream, new Error("no table"));
  expect(locked.canceled).toEqual([]);
  const cancel = () => Promise.reject(new Error("of no interest"));
  leave({ cancel, getReader() {}, locked: false }, new Error("no table"));
  for (const source of ["a", null, undefined, [], { cancel }, new Uint8Array(1), new Set([1])]) leave(source, null);
  await quiet();
});

test("two COPYs at once have a buffer each, and one that was broken off while it wrote keeps its own", async () => {
  const buffers = new Set<ArrayBufferLike>();
  const target = (mostWrites = Infinity) =>
    Object.assign(new FakeTarget(), {
      mostWrites,
      async write(this: FakeTarget, buffer: Uint8Array, end: number) {
        buffers.add(buffer.buffer);
        return FakeTarget.prototype.write.call(this, buffer, end);
      },
    });
  await sendSource(target(), "a");
  await sendSource(target(), "b");
  expect(buffers.size).toBe(1);
  await Promise.all([sendSource(target(), slowly("c", "d")), sendSource(target(), slowly("e", "f"))]);
  expect(buffers.size).toBe(2);
  buffers.clear();
  await sendSource(target(1), "g");
  await sendSource(target(), "h");
  expect(buffers.size).toBe(2);
});
