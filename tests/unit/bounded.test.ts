// The caches of an isolate are bounded, and the oldest entry is dropped first.
import { expect, test } from "vitest";
import { BoundedMap, BoundedSet } from "../../js/util/bounded.ts";

test("a map drops the entry that was inserted first", () => {
  const map = new BoundedMap<string, number>(2);
  map.set("a", 1).set("b", 2).set("a", 3);
  expect([...map]).toEqual([
    ["a", 3],
    ["b", 2],
  ]);
  map.set("c", 4);
  expect([...map.keys()]).toEqual(["b", "c"]);
});

test("a set drops the value that was inserted first", () => {
  const set = new BoundedSet<string>(2);
  set.add("a").add("b").add("a").add("c");
  expect([...set]).toEqual(["b", "c"]);
});
