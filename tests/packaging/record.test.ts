// A release's tests after a stop: what has passed at this commit does not run again (tests/run/record.mjs).
import { mkdtempSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { recordOf } from "../run/record.mjs";

const cost = { seconds: 2, cpu: 3 };
const green = [
  { passed: 4, failed: 0 },
  { passed: 1, failed: 0 },
];
const folder = mkdtempSync(path.join(process.env["PGZ_TEST_RUN_FOLDER"]!, "record-"));
const file = path.join(folder, "runs.json");

test("a suite that has passed does not run again at its commit, in a later process either", () => {
  recordOf("a1", file).add("node-22", green, cost);
  recordOf("a1", file).add("citus", [...green, { passed: 0, failed: 1 }], cost);
  const later = recordOf("a1", file);
  expect(later.passed("node-22")).toMatchObject({ commit: "a1", passed: 5, failed: 0 });
  expect(later.passed("citus")).toBeUndefined();
  expect(later.passed("never run")).toBeUndefined();
  expect(recordOf("b2", file).passed("node-22")).toBeUndefined();
  expect(later.lines(["node-22", "citus", "fresh"])).toEqual([
    ["node-22", "a1", 5, 0, "2.0", "3.0"],
    ["citus", "a1", 5, 1, "2.0", "3.0"],
    ["fresh", "never", "", "", "", ""],
  ]);
});

test("a tree with changes has no commit, and what passes there runs again", () => {
  const changed = recordOf(undefined, path.join(folder, "changed.json"));
  changed.add("node-22", green, cost);
  expect(changed.passed("node-22")).toBeUndefined();
});
