// Every list of the output formats that no compiler compares is complete. The source is the table RowFormat::facts in
// src/encode/form.rs.
import { existsSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { readers } from "../../bench/stream/formats.mjs";
import { FORMATS } from "../../js/wasm/numbers.ts";
import { formats } from "../support/numbers.mjs";
import { read, root } from "./repository.ts";

const names = Object.keys(FORMATS);

test("the programs that read numbers.ts as text find every format", () => {
  expect(formats).toEqual(Object.fromEntries(Object.entries(FORMATS).map(([name, { code }]) => [name, code])));
});

test("the README shows two rows in each format", () => {
  const [, table = ""] = /\n## Output modes\n([^]*?)\n## /.exec(read("README.md")) ?? [];
  // The first match is the head of the table; `toon` has a second row for its option.
  const shown = [...table.matchAll(/^\| `(\w+)`/gm)].map(([, name]) => name).slice(1);
  expect([...new Set(shown)]).toEqual(names);
});

test("the demo's page offers each format", () => {
  const [, select = ""] = /<select id="format">([^]*?)<\/select>/.exec(read("worker-example/src/page.html")) ?? [];
  expect([...select.matchAll(/value="(\w+)"/g)].map(([, name]) => name)).toEqual(names);
});

test("benchmarks can check the rows of each format", () => {
  expect(Object.keys(readers)).toEqual(names);
});

test.each(names)("a transcript of the format %s is recorded", (name) => {
  expect(existsSync(path.join(root, `tests/transcripts/format-${name}.md`))).toBe(true);
});
