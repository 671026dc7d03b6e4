// A cache by texts stays within two bounds.
import { expect, test } from "vitest";
import { TextCache } from "../../js/util/text-cache.ts";

test("the oldest entries are dropped when there are too many", () => {
  const cache = new TextCache<number>(2, 100);
  ["a", "b", "c"].forEach((text, n) => cache.put(text, n));
  expect(["a", "b", "c"].map((text) => cache.get(text))).toEqual([undefined, 1, 2]);
});

test("the oldest entries are dropped when their texts are too long in total", () => {
  const cache = new TextCache<number>(100, 5);
  ["aaa", "bb", "ccc"].forEach((text, n) => expect(cache.put(text, n)).toBe(n));
  expect(["aaa", "bb", "ccc"].map((text) => cache.get(text))).toEqual([undefined, 1, 2]);
  cache.put("dddd", 3);
  expect(["bb", "ccc", "dddd"].map((text) => cache.get(text))).toEqual([undefined, undefined, 3]);
});

test("a text that alone is too long is not cached, and drops no other entry", () => {
  const cache = new TextCache<number>(100, 5);
  cache.put("aaaaa", 1);
  expect(cache.put("bbbbbb", 2)).toBe(2);
  expect([cache.get("aaaaa"), cache.get("bbbbbb")]).toEqual([1, undefined]);
});

test("a text that is put twice counts once", () => {
  const cache = new TextCache<number>(100, 4);
  for (let n = 0; n < 3; n++) cache.put("aa", n);
  cache.put("bb", 5);
  expect([cache.get("aa"), cache.get("bb")]).toEqual([0, 5]);
});
