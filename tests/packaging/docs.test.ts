// The claims of the documents hold: the figures of README and of the benchmarks are those of bench/results, README's
// Worker is short, and links lead to something that exists.
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { textOf } from "../../bench/lib/results.mjs";
import { read, root } from "./repository.ts";

test("the README's figures are those of bench/results", () => {
  execFileSync(process.execPath, ["bench/readme.mjs", "--check"], { cwd: root, stdio: "pipe" });
});

test("the names and the table of SQLSTATEs are those of the server's errcodes.txt", () => {
  execFileSync(process.execPath, ["scripts/sqlstates.mjs", "--check"], { cwd: root, stdio: "pipe" });
});

test("docs/benchmarks.md, benchmark-tables.md and bench/losses.md show the figures of bench/results", () => {
  execFileSync(process.execPath, ["bench/docs.mjs", "--check"], { cwd: root, stdio: "pipe" });
});

test("docs/comparison.md names every entry of the package, and no other", () => {
  const { exports } = JSON.parse(read("package.json")) as { exports: Record<string, unknown> };
  const entries = Object.keys(exports).filter((name) => name !== "." && !/\.(json|wasm)$/.test(name));
  const named = [...read("docs/comparison.md").matchAll(/`pgz-edge\/([\w/-]+)`/g)].map(([, name]) => `./${name}`);
  expect(new Set(named)).toEqual(new Set(entries));
});

test("results of benchmarks have one row per line", () => {
  for (const name of readdirSync(path.join(root, "bench/results"))) {
    const text = read(`bench/results/${name}`);
    expect(text === textOf(JSON.parse(text) as object), name).toBe(true);
  }
});

test("the README's Worker handler has at most 12 lines", () => {
  const [, code = ""] = /```ts run\n(import \{ createClient[^]*?)```/.exec(read("README.md")) ?? [];
  expect(code).toContain("export default");
  expect(code.split("\n").filter((line) => line.trim() !== "").length).toBeLessThanOrEqual(12);
});

test("each row of the table in docs/where.md links its test", () => {
  const [, table = ""] = /\n\|.*\n\|.*\n((?:\|.*\n)+)/.exec(read("docs/where.md")) ?? [];
  const rows = table
    .trim()
    .split("\n")
    .map((row) => row.split(" | "));
  const groups = rows.filter(([name]) => /^\| \*\*/.test(name!)).map(([name]) => name!.slice(2));
  expect(groups).toEqual(["**Runtimes**", "**Frameworks**", "**Bundlers**", "**Libraries**"]);
  for (const row of rows) {
    if (row[0]!.startsWith("| **")) continue;
    const tests = [...row.at(-1)!.matchAll(/\]\(\.\.\/(tests\/[^)]+)\)/g)].map(([, file]) => file!);
    expect(tests, row[0]).not.toEqual([]);
    for (const file of tests) expect(existsSync(path.join(root, file)), file).toBe(true);
  }
});

/** Prose is everything except code and tables, whose cells cannot be broken. */
const markdown = execFileSync("git", ["ls-files", "*.md"], { cwd: root, encoding: "utf8" }).trim().split("\n");
test.each(markdown)("no line of prose in %s is wider than 120 columns", (page) => {
  let code = false;
  const wide = read(page)
    .split("\n")
    .flatMap((line, index) => {
      const fence = /^\s*(```|~~~)/.test(line);
      if (fence) code = !code;
      return !fence && !code && !line.startsWith("|") && [...line].length > 120 ? [`${page}:${index + 1}`] : [];
    });
  expect(wide).toEqual([]);
});

test.each(markdown)("each table in %s has a line of dashes below its head, without which it is no table", (page) => {
  const lines = read(page).split("\n");
  const isHead = (line: string, index: number) => line.startsWith("|") && !lines[index - 1]?.startsWith("|");
  const heads = lines.flatMap((line, index) => (isHead(line, index) ? [index] : []));
  const without = heads.filter((index) => !/^\|(?:\s*:?-+:?\s*\|)+$/.test(lines[index + 1] ?? ""));
  expect(without.map((index) => `${page}:${index + 1}`)).toEqual([]);
});

const pages = [
  "README.md",
  "HACKING.md",
  "CHANGELOG.md",
  "SECURITY.md",
  ...readdirSync(path.join(root, "docs"), { recursive: true }).map((name) => `docs/${name}`),
];
test.each(pages.filter((name) => name.endsWith(".md")))("every link and every file named in %s exists", (page) => {
  const text = read(page);
  const links = [...text.matchAll(/\]\(([^)#:]+)(#[^)]*)?\)/g)].map(([, target]) =>
    path.join(path.dirname(page), target!),
  );
  const files = [...text.matchAll(/`((?:src|js|tests|docs|bench|scripts)\/[\w./-]+)`/g)].map(([, target]) => target!);
  const missing = [...links, ...files].filter((target) => !existsSync(path.join(root, target)));
  expect(missing).toEqual([]);
});
