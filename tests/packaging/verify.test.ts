// How `make verify` compares two builds. Showing that two builds are equal takes two builds: `make test-release` does.
import { expect, test } from "vitest";
import { differing } from "../../scripts/verify.mjs";

test("a file that is changed, missing or new is named", () => {
  const built = { "a.js": "1", "b.js": "2", "c.js": "3" };
  expect(differing(built, { ...built })).toEqual([]);
  expect(differing(built, { ...built, "b.js": "other" })).toEqual(["b.js"]);
  expect(differing(built, { "a.js": "1", "c.js": "3", "d.js": "4" })).toEqual(["b.js", "d.js"]);
});
