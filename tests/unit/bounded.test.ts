// What an isolate remembers has a bound, and the oldest goes first.
import { expect, test } from "vitest";
import { BoundedMap, BoundedSet } from "../../js/util/bounded.ts";
import { epochOf, schemaChanged } from "../../js/session/shapes.ts";
import { MOST_SERVERS } from "../../js/util/limits.ts";

test("a map drops the entry that was put first", () => {
  const map = new BoundedMap<string, number>(2);
  map.set("a", 1).set("b", 2).set("a", 3);
  expect([...map]).toEqual([
    ["a", 3],
    ["b", 2],
  ]);
  map.set("c", 4);
  expect([...map.keys()]).toEqual(["b", "c"]);
});

test("a set drops the value that was added first", () => {
  const set = new BoundedSet<string>(2);
  set.add("a").add("b").add("a").add("c");
  expect([...set]).toEqual(["b", "c"]);
});

test("a server whose epoch was dropped never has an earlier one again", () => {
  schemaChanged("first");
  const epoch = epochOf("first");
  const others = epochOf("never changed");
  for (let n = 0; n <= MOST_SERVERS; n++) schemaChanged(`server ${n}`);
  expect(epochOf("first")).toBeGreaterThan(epoch);
  expect(epochOf("never changed")).toBeGreaterThan(others);
});
