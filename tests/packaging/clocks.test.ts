// tests/clocks.md lists each clock and each fixed wait in the tests, with its reason. This test counts them, file by
// file.
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import ts from "typescript";
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

/** Arguments of these calls behind which only a limit can stand; of a test's options in the middle only HOURS. */
const MOST: Readonly<Record<string, number>> = {
  ...Object.fromEntries(["beforeAll", "afterAll", "beforeEach", "afterEach"].map((hook) => [hook, 1])),
  ...Object.fromEntries(["test", "it", "describe"].map((name) => [name, 2])),
  "expect.poll": 1,
};
/** Calls that set a limit, or have a short one of their own. */
const FORBIDDEN = /^vi\.(setConfig|waitFor|waitUntil)$/;
const ALLOWED = /^\{ (timeout: HOURS|interval: \d+) \}$/;

/**
 * Returns the calls of Vitest with a limit, as they are written. Its configuration has the one for all, which only a
 * hang reaches.
 */
function limitsIn(file: string): string[] {
  const found: string[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isCallExpression(node)) {
      const name = node.expression.getText().replaceAll(/\s/g, "");
      // `test.each(…)`, `test.concurrent` and the like take what `test` takes; `each` itself takes the cases.
      const most =
        MOST[name] ?? (/\beach$/.test(name) ? undefined : MOST[/^(test|it|describe)\b/.exec(name)?.[0] ?? ""]);
      const limit = [...node.arguments].find(
        (argument, at) => at > 0 && ALLOWED.test(argument.getText()) && most !== undefined,
      );
      const rest = node.arguments.length - (limit ? 1 : 0);
      if (FORBIDDEN.test(name) || rest > (most ?? Infinity)) found.push(node.getText().slice(0, 80));
    }
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile(file, read(file), ts.ScriptTarget.Latest, true));
  return found;
}

test("no test has a time limit of its own, but HOURS for one that works for so long in a release", () => {
  const files = sources().filter((file) => file.endsWith(".ts") && !EXEMPT.includes(file));
  const withVitest = files.filter((file) => /from "vitest"/.test(read(file)));
  expect(withVitest.length).toBeGreaterThan(100);
  expect(withVitest.flatMap((file) => limitsIn(file).map((call) => `${file}: ${call}`))).toEqual([]);
  // Under another name the functions would not be seen.
  expect(
    withVitest.filter((file) => /import \{[^}]*\b(test|it|describe) as [^}]*\} from "vitest"/.test(read(file))),
  ).toEqual([]);
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
