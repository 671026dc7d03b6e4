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

const OF_VITEST = /^(test|it|describe|beforeAll|afterAll|beforeEach|afterEach|vi)\b|^expect\.poll$/;

/**
 * Returns the limits of tests, hooks and polls, as they are written. Vitest's configuration has the one for all, which
 * only a hang reaches.
 */
function limitsIn(file: string): string[] {
  const found: string[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isCallExpression(node) && OF_VITEST.test(node.expression.getText().replaceAll(/\s/g, "")))
      found.push(
        ...node.arguments
          .slice(1)
          .filter(isLimit)
          .map((limit) => limit.getText()),
      );
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile(file, read(file), ts.ScriptTarget.Latest, true));
  return found;
}

/** Whether an argument after the first can only be a limit: a number, or options with `timeout`. */
function isLimit(argument: ts.Expression): boolean {
  if (ts.isObjectLiteralExpression(argument))
    return argument.properties.some((property) => property.name?.getText() === "timeout");
  return ts.isNumericLiteral(argument) || ts.isBinaryExpression(argument);
}

test("no test has a time limit of its own, but one for hours of a release", () => {
  const files = sources().filter((file) => file.endsWith(".ts") && !EXEMPT.includes(file));
  const limited = files.flatMap((file) => limitsIn(file).map((limit) => `${file}: ${limit}`));
  expect(limited.filter((limit) => !limit.endsWith("{ timeout: HOURS }"))).toEqual([]);
  expect(limited.length).toBeGreaterThan(3); // so it finds them
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
