// A body that is watched: its end is told once, and it breaks off when it is too late. That `cached` watches the time,
// tests/cache shows.
import { expect, test } from "vitest";
import { watched } from "../../js/cache/watched-body.ts";

function bodyOf(chunks: readonly string[]) {
  let isOver = false;
  let ends = 0;
  let cancelled = 0;
  const left = chunks.map((chunk) => new TextEncoder().encode(chunk));
  const source = new ReadableStream<Uint8Array>(
    {
      pull: (controller) => (left.length ? controller.enqueue(left.shift()!) : controller.close()),
      cancel: () => void cancelled++,
    },
    { highWaterMark: 0 },
  );
  const body = watched(source, { isOver: () => isOver, end: () => void ends++ });
  return { body, pass: () => (isOver = true), counts: () => ({ ends, cancelled }) };
}

test("the bytes are the same, and the end is told after the last", async () => {
  const { body, counts } = bodyOf(["a", "bc"]);
  const reader = body.getReader();
  await reader.read();
  await reader.read();
  expect(counts().ends).toBe(0);
  expect(await reader.read()).toEqual({ done: true, value: undefined });
  expect(counts()).toEqual({ ends: 1, cancelled: 0 });
});

test.each([0, 1])("when it is too late after %i chunks it fails, ends once, and reads no more", async (read) => {
  const { body, pass, counts } = bodyOf(["a", "b"]);
  const reader = body.getReader();
  for (let chunk = 0; chunk < read; chunk++) await reader.read();
  pass();
  await expect(reader.read()).rejects.toMatchObject({ code: "QUERY_TIMEOUT" });
  expect(counts()).toEqual({ ends: 1, cancelled: 1 });
});

test("a body whose last byte has come too late does not end well", async () => {
  const { body, pass } = bodyOf(["a"]);
  const reader = body.getReader();
  await reader.read();
  pass();
  await expect(reader.read()).rejects.toThrow("maxFill");
});

test("a reader that leaves ends it once", async () => {
  const { body, counts } = bodyOf(["a", "b"]);
  await body.cancel();
  expect(counts()).toEqual({ ends: 1, cancelled: 1 });
});
