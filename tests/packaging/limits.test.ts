// docs/limits.md has every number that bounds something, with the value of the code.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { resolveConfig } from "../../js/config/config.ts";
import { optionNames } from "../../js/config/table.ts";
import { poolOptionNames, resolvePool } from "../../js/pool/options.ts";
import * as limits from "../../js/util/limits.ts";

const page = readFileSync(new URL("../../docs/limits.md", import.meta.url), "utf8");

/** Returns the rows of a section's table, keyed by the name in their first cell. */
function rowsOf(section: string): Map<string, string[]> {
  const [, text = ""] = page.split(`\n## ${section}\n`);
  const [own = ""] = text.split("\n## ");
  const rows = own.split("\n").flatMap((line) => {
    const [name, ...cells] = line.split("|").slice(1, -1);
    const [, word] = /^ `(\w+)` $/.exec(name ?? "") ?? [];
    return word === undefined ? [] : [[word, cells.map((cell) => cell.trim())] as const];
  });
  return new Map(rows);
}

/** Returns the number at the beginning of a cell. */
const numberOf = (cell: string) => Number(/^[\d,]+/.exec(cell)?.[0].replaceAll(",", "") ?? NaN);

const everywhere = (isWorkerd: boolean): Record<string, unknown> => ({
  ...resolveConfig({ user: "ada", host: "db.example.org" }, { isWorkerd }),
  ...resolvePool({}, undefined, isWorkerd),
});

test("every option that is a number is in docs/limits.md, with its default on Workers and elsewhere", () => {
  const rows = rowsOf("What you can set");
  const [plain, workers] = [everywhere(false), everywhere(true)];
  const numeric = [...optionNames, ...poolOptionNames()].filter(
    (name) => typeof plain[name] === "number" && name !== "port",
  );
  expect(numeric.length).toBeGreaterThan(20);
  expect([...rows.keys()].sort()).toEqual(numeric.sort());
  for (const [name, [value = "", onWorkers = "", what = ""]] of rows) {
    expect(numberOf(value), name).toBe(plain[name]);
    if (onWorkers === "the same" || onWorkers === "no effect there") expect(workers[name], name).toBe(plain[name]);
    else expect(numberOf(onWorkers), name).toBe(workers[name]);
    expect(what, name).not.toBe("");
  }
});

test("every bound of js/util/limits.ts is in docs/limits.md, with its value", () => {
  const written = [...rowsOf("What is fixed")].map(([name, [value = ""]]) => [name, numberOf(value)]);
  expect(Object.fromEntries(written)).toEqual({ ...limits });
});
