// The queue between the pump and a loop, and the iterators over it. tests/integration/cases/rows.ts has what a server
// sees of them.
import { expect, test } from "vitest";
import { RowQueue, Rows } from "../../js/rows/rows.ts";
import { UsageError } from "../../js/util/errors.ts";

function open(size = 0) {
  const queue = new RowQueue<number>(size);
  let left = 0;
  const rows = new Rows<number>(() => ({ queue, leave: () => left++ }));
  return { queue, rows, left: () => left };
}

test("concurrent calls of next() get each row once, in order", async () => {
  const { queue, rows } = open();
  const iterator = rows[Symbol.asyncIterator]();
  const waiting = [iterator.next(), iterator.next(), iterator.next(), iterator.next()];
  queue.write([1]);
  await null;
  queue.write([2, 3]);
  queue.end();
  const got = (await Promise.all(waiting)).map(({ value }) => value);
  expect(got).toEqual([1, 2, 3, undefined]);
});

test("the queue is full from its first waiting batch on until that was taken", async () => {
  const queue = new RowQueue<number>(2);
  queue.write([1]);
  expect(queue.full()).toBeUndefined();
  queue.write([2, 3]);
  let released = false;
  void queue.full()!.then(() => (released = true));
  expect(await queue.take()).toEqual([1, 2]);
  await null;
  expect(released).toBe(true);
  expect(queue.full()).toBeUndefined();
  queue.end();
  expect(await queue.take()).toEqual([3]);
  expect(await queue.take()).toBeUndefined();
});

test("an error drops the waiting rows and ends the loop", async () => {
  const { queue, rows } = open(1);
  const iterator = rows.batches(1)[Symbol.asyncIterator]();
  queue.write([1, 2]);
  expect(await iterator.next()).toEqual({ done: false, value: [1] });
  queue.fail(new UsageError("INVALID_OPTION", "mine"));
  await expect(iterator.next()).rejects.toMatchObject({ message: "mine" });
  expect(await iterator.next()).toEqual({ done: true, value: undefined });
});

test("a loop that is left reports this once", async () => {
  const { queue, rows, left } = open();
  queue.write([1, 2]);
  for await (const row of rows) {
    expect(row).toBe(1);
    break;
  }
  expect(left()).toBe(1);
});
