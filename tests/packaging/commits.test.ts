// The history can be read as a list: `area: what it does now` on at most 72 columns. No message names a folder that
// only its author's machine has.
//
// Knows the history that git has in this checkout. A shallow checkout is judged by the commits that it has.
import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";
import { root } from "./repository.ts";

/** Older subjects stay, because a history is not rewritten. The rules for merges and for folders came later. */
const SINCE = "2026-11-27T18:20:00Z";
const ALL_SINCE = "2026-11-28T20:00:00Z";
const WIDTH = 72;

/** Returns the subjects that are cut in `git log --oneline`, or that have no area. */
function misfits(subjects: readonly string[]): string[] {
  return subjects.filter((subject) => subject.length > WIDTH || !/^(?!Merge\b)[\w/., -]+: \S/.test(subject));
}

/** Where people have their own folders. Paths of a system, such as /usr/bin, are the same everywhere. */
const FOLDER = /(?<![\w.:/~-])(\/(work|home|root|Users|mnt|tmp|var\/tmp)\/[\w.-]|[A-Z]:\\)/;

/** Returns the first line of each text that names a folder of a machine. */
function withFolders(texts: readonly string[]): string[] {
  return texts.filter((text) => FOLDER.test(text)).map((text) => text.split("\n")[0]!);
}

/** Returns what git prints of each commit since then. */
function commits(since: string, format: string, ...options: string[]): string[] {
  const words = ["log", "-z", `--since=${since}`, `--format=${format}`, ...options];
  return execFileSync("git", words, { cwd: root, encoding: "utf8" }).split("\0").filter(Boolean);
}

test("subjects of commits have an area and at most 72 columns", () => {
  expect(misfits(commits(SINCE, "%s", "--no-merges"))).toEqual([]);
});

test("subjects of merges have an area, too", () => {
  expect(misfits(commits(ALL_SINCE, "%s", "--merges"))).toEqual([]);
});

test("no message names a folder of a machine", () => {
  expect(withFolders(commits(ALL_SINCE, "%B"))).toEqual([]);
});

test("a subject that is too long or has no area is found", () => {
  const long = `pool: ${"x".repeat(67)}`;
  const merges = ["Merge branch 'fresh'", "Merge /work/main", "Merge /work/main: comments", "Merge pools: names"];
  expect(misfits(["pool: a waiter is told why", "js, src: names", "mend", "pool:", long, ...merges])).toEqual([
    "mend",
    "pool:",
    long,
    ...merges,
  ]);
});

test.each([
  ["Merge branch '/work/wt/fresh'", true],
  ["tests: less\n\nSee /home/ann/pgz-edge.", true],
  ["tests: less\n\n- (/root/.npm)", true],
  ["cli: reads C:\\Users", true],
  ["tests: /tmp/x is removed", true],
  ["tests: no folder stays in /tmp", false],
  ["cli: /dev/fd/63 and /proc/1/environ are read", false],
  ["example: /users and /api/work/1", false],
  ["docs: https://host/home/x, ~/.npmrc, tests/tmp/x", false],
])("%j names a folder: %j", (text, isFound) => {
  expect(withFolders([text])).toHaveLength(isFound ? 1 : 0);
});
