// tests/clocks.md lists each clock and each fixed wait in the tests, with its reason. This test counts them, file by
// file.
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = new URL("../../", import.meta.url);
const read = (file: string) => readFileSync(new URL(file, root), "utf8");

/**
 * Matches code that reads a clock or waits for a fixed time. `pg_sleep` belongs to the server, and `setTimeout as` is
 * only the import of a wait.
 */
const USE =
  /(?<![\w.])(?:performance\.now|Date\.now|setTimeout|setInterval|pause|AbortSignal\.timeout)\(|setTimeout as/g;
/** The parts of `until` itself, and this file. */
const EXEMPT = ["tests/support/until.mjs", "tests/support/until.d.mts", "tests/packaging/clocks.test.ts"];
/** Simulated sessions: there a wait is an event in virtual time, and no machine is slow. */
const VIRTUAL = "tests/simulation/";
/** Its parts that talk to real servers. */
const REAL = /^tests\/simulation\/(conform[^/]*\.mjs|server\/pooler-conformance\.ts)$/;

function sources(): string[] {
  const all = readdirSync(fileURLToPath(new URL("tests", root)), { recursive: true, encoding: "utf8" });
  const files = all.map((file) => `tests/${file.replaceAll("\\", "/")}`);
  return files.filter(
    (file) => /\.m?[jt]s$/.test(file) && !/node_modules/.test(file) && (!file.startsWith(VIRTUAL) || REAL.test(file)),
  );
}

function counted(): Record<string, number> {
  const uses = sources().map((file) => [file, read(file).match(USE)?.length ?? 0] as const);
  return Object.fromEntries(uses.filter(([file, count]) => count > 0 && !EXEMPT.includes(file)));
}

/** A limit of one test, hook or poll. Vitest's configuration has the one for all, which only a hang reaches. */
const LIMIT = /["'`],\s*\{ timeout: [\d_]+ \},\s*(?:async )?\(|expect\.poll\([^\n]*timeout:|vi\.waitFor\(/;

test("no test has a time limit of its own", () => {
  const limited = sources().filter((file) => LIMIT.test(read(file)) && !EXEMPT.includes(file));
  expect(limited).toEqual([]);
});

test("each clock and each fixed wait of the tests is listed with its reason", () => {
  const rows = [...read("tests/clocks.md").matchAll(/^\| `([^`]+)` \| (\d+) \| \S.* \|$/gm)];
  const listed = Object.fromEntries(rows.map(([, file, count]) => [`tests/${file}`, Number(count)]));
  expect(
    counted(),
    "Wait with until(), count steps or use a fake clock. Where neither does, write the new count and the reason into " +
      "tests/clocks.md",
  ).toEqual(listed);
});
