// Each option is documented once, next to its rule. The pages are generated from that.
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { CALL_OPTIONS } from "../../js/api/options.ts";
import type { Entry, Setters } from "../../js/config/entries.ts";
import { OPTIONS } from "../../js/config/table.ts";
import { poolOptions } from "../../js/pool/options.ts";
import { callEntriesOf, entriesOf } from "../../scripts/options.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
type AnyEntry = Entry<unknown, unknown, Setters>;

test("the options in docs/options.md and docs/pool.md are generated from js/", () => {
  execFileSync(process.execPath, ["scripts/options.mjs", "--check"], { cwd: root, stdio: "pipe" });
});

test.each([
  ["js/config/table.ts", ["OPTIONS"], OPTIONS],
  ["js/pool/options.ts", ["SIZES", "HOOKS"], poolOptions()],
])("each option of %s has a text, whose default is the real one", (file, tables, all) => {
  const told = entriesOf(file, ...tables);
  expect(told.map(({ name }) => name)).toEqual(Object.keys(all));
  for (const { name, text, fallback } of told) {
    expect(text, name).toMatch(/^\S.*[.`)]$/);
    const entry = (all as Record<string, AnyEntry>)[name]!;
    const value = typeof entry.fallback === "function" ? entry.fallback({ user: "" }, {}) : entry.fallback;
    const [said] = /^[^\s:;(]+?(?=[\s:;(]|, |,?$)/.exec(fallback) ?? [];
    if (typeof value === "number" || typeof value === "boolean")
      expect(said?.replaceAll(",", ""), name).toBe(`${value}`);
    else if (typeof value === "string" && value !== "") expect(said, name).toBe(`\`${value}\``);
  }
});

test("each option that only calls have is in the table of docs/options.md, with a text", () => {
  const told = callEntriesOf("js/api/options.ts", "js/rows/form.ts");
  const ofCalls = CALL_OPTIONS.filter((name) => !Object.hasOwn(OPTIONS, name));
  expect(told.map(({ name }) => name).sort()).toEqual(ofCalls.sort());
  for (const { name, text } of told) expect(text, name).toMatch(/^\S.*\.$/);
});
