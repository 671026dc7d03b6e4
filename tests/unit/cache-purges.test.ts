// Purges of pgz-edge/cache: one call at a time, repeated until the platform has answered.
import { expect, test } from "vitest";
import { Purges, type Purge } from "../../js/cache/purges.ts";
import { Heartbeat } from "../../js/cache/heartbeat.ts";

const over = new AbortController().signal;
const of = (purge: Purge) => new Purges({ purge, longest: 60_000, onFailure: () => {}, over });

test("tags that come while a call runs become one call", async () => {
  const calls: (readonly string[])[] = [];
  const purges = of(async (tags) => void calls.push(tags));
  await purges.done(); // there is nothing to purge
  const [first] = [["a"], ["b", "c"], ["c"], []].map((tags) => purges.add(tags));
  const all = purges.done();
  await first;
  expect(calls).toEqual([["a"], ["b", "c"]]);
  await all;
  await purges.done();
});

test("a platform takes 1,000 tags at a time", async () => {
  const sizes: number[] = [];
  const tags = Array.from({ length: 2_001 }, (_, n) => `${n}`);
  await of(async (tags) => void sizes.push(tags.length)).add(tags);
  expect(sizes).toEqual([1_000, 1_000, 1]);
});

test("a call that resolves without success is made again", async () => {
  const told: unknown[] = [];
  const results = [{ success: false, errors: [{ code: 1 }] }, { success: true }];
  const onFailure = (error: unknown) => void told.push(String(error));
  await new Purges({ purge: async () => results.shift(), longest: 60_000, onFailure, over }).add(["a"]);
  expect(results).toEqual([]);
  expect(told).toEqual(['Error: The platform has not purged: [{"code":1}]']);
});

test("a call that fails, or is never answered, is made again", async () => {
  const told: unknown[] = [];
  let calls = 0;
  const purge = () => {
    calls++;
    if (calls === 1) throw new Error("refused");
    return calls === 2 ? new Promise<void>(() => {}) : Promise.resolve();
  };
  const onFailure = (error: unknown) => void told.push(error);
  await new Purges({ purge, longest: 5, onFailure, over }).add(["a"]);
  expect(calls).toBe(3);
  expect(told.map(String)).toEqual(["Error: refused", "Error: The purge was not answered within 5 ms."]);
});

test("a heartbeat says which connection it was written for, when, and on which timeline", async () => {
  const sent: string[] = [];
  const heartbeat = new Heartbeat(async (beat) => void sent.push(beat), 100);
  heartbeat.tick(1, false, 1_000);
  heartbeat.tick(1, true, 1_001); // the first is still being written
  await Promise.resolve();
  await Promise.resolve();
  heartbeat.tick(1, false, 1_099);
  heartbeat.tick(2, false, 1_100);
  expect(sent).toHaveLength(2);
  const [first, second] = sent.map((content) => heartbeat.read(`${content} 7/00000001/my database`)!);
  expect(first).toEqual({ connection: 1, sentAt: 1_000, timeline: "7/00000001/my database" });
  expect(second).toMatchObject({ connection: 2, sentAt: 1_100 });
  expect(heartbeat.read(`another's 1 1149`)).toBeUndefined();
  expect(heartbeat.age(1_150)).toBe(Infinity);
  heartbeat.count(first!);
  expect(heartbeat.age(1_150)).toBe(150);
  heartbeat.count(second!);
  expect(heartbeat.age(1_150)).toBe(50);
});
