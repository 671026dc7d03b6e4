// The history can be read in a list: `area: what it does now` on at most 72 columns.
//
// Knows what git tells of the checkout. A checkout without the whole history is judged by the commits that it has.
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../../", import.meta.url));

/** Older subjects stay as they are: a history is not rewritten. */
const SINCE = "2026-11-27T16:45:00Z";
const WIDTH = 72;

/** Returns the subjects that a reader of `git log --oneline` could not read whole, or whose area is missing. */
function misfits(subjects: readonly string[]): string[] {
  return subjects.filter((subject) => subject.length > WIDTH || !/^[\w/., -]+: \S/.test(subject));
}

test("subjects of commits have an area, and 72 columns at most", () => {
  const log = execFileSync("git", ["log", "--no-merges", `--since=${SINCE}`, "--format=%s"], {
    cwd: root,
    encoding: "utf8",
  });
  expect(misfits(log.split("\n").filter(Boolean))).toEqual([]);
});

test("a subject without an area, or that is too long, is found", () => {
  const long = `pool: ${"x".repeat(67)}`;
  expect(misfits(["pool: a waiter is told why", "js, src: names", "mend", "pool:", long])).toEqual([
    "mend",
    "pool:",
    long,
  ]);
});
