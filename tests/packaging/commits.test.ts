// The history can be read as a list: `area: what it does now` on at most 72 columns.
//
// Knows the history that git has in this checkout. A shallow checkout is judged by the commits that it has.
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../../", import.meta.url));

/** Older subjects stay, because a history is not rewritten. */
const SINCE = "2026-11-27T18:20:00Z";
const WIDTH = 72;

/** Returns the subjects that are cut in `git log --oneline`, or that have no area. */
function misfits(subjects: readonly string[]): string[] {
  return subjects.filter((subject) => subject.length > WIDTH || !/^[\w/., -]+: \S/.test(subject));
}

test("subjects of commits have an area and at most 72 columns", () => {
  const log = execFileSync("git", ["log", "--no-merges", `--since=${SINCE}`, "--format=%s"], {
    cwd: root,
    encoding: "utf8",
  });
  expect(misfits(log.split("\n").filter(Boolean))).toEqual([]);
});

test("a subject that is too long or has no area is found", () => {
  const long = `pool: ${"x".repeat(67)}`;
  expect(misfits(["pool: a waiter is told why", "js, src: names", "mend", "pool:", long])).toEqual([
    "mend",
    "pool:",
    long,
  ]);
});
