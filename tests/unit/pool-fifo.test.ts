// First in, first out, compared with a list in the plainest form, over sequences that a seed decides.
import { expect, test } from "vitest";
import { Fifo, type Queued } from "../../js/pool/fifo.ts";

interface Item extends Queued {
  readonly n: number;
}

/** Numbers from 0 to 1, the same each time. */
function* dice(seed: number): Generator<number, never> {
  for (let state = seed; ;) {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    yield state / 2 ** 31;
  }
}

test.each([1, 2, 3])("a Fifo behaves like a list from which each item may leave (seed %i)", (seed) => {
  const fifo = new Fifo<Item>();
  const list: Item[] = [];
  const numbers = dice(seed);
  const next = () => numbers.next().value;
  for (let n = 0; n < 4_000; n++) {
    // Grows and shrinks by turns, and is empty now and then.
    const isGrowing = n % 1_000 < 450;
    if (next() < (isGrowing ? 0.7 : 0.3)) {
      const item = { n, queueIndex: -1 };
      fifo.add(item);
      list.push(item);
    } else {
      const at = next() < 0.7 ? 0 : Math.floor(next() * list.length);
      const [item = { n: -1, queueIndex: -1 }] = list.splice(at, 1);
      expect(fifo.delete(item)).toBe(item.n >= 0);
      expect(fifo.delete(item)).toBe(false);
    }
    expect(fifo.size).toBe(list.length);
    expect(fifo.first).toBe(list[0]);
    if (n % 50 === 0) expect([...fifo]).toEqual(list);
  }
});

test("each step costs the same, however many items there are", () => {
  const fifo = new Fifo<Item>();
  const items = Array.from({ length: 100_000 }, (_, n) => ({ n, queueIndex: -1 }));
  for (const item of items) fifo.add(item);
  let reads = 0;
  // Like a queue that never becomes empty: one item leaves, one comes.
  for (const item of items) {
    reads += fifo.first === item ? 1 : 0;
    fifo.delete(item);
    fifo.add({ n: -1, queueIndex: -1 });
  }
  expect(reads).toBe(items.length);
  expect(fifo.size).toBe(items.length);
});

test("an item that stays at the head does not keep the places of those that have left", () => {
  const fifo = new Fifo<Item>();
  const head = { n: 0, queueIndex: -1 };
  fifo.add(head);
  const later = Array.from({ length: 10_000 }, (_, n) => ({ n: n + 1, queueIndex: -1 }));
  for (const item of later) {
    fifo.add(item);
    expect(item.queueIndex).toBeLessThan(100);
    fifo.delete(item);
  }
  expect([...fifo]).toEqual([head]);
  expect(fifo.first).toBe(head);
});
