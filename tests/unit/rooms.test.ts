// The rooms of js/ (docs/architecture.md). oxlint keeps the imports between rooms pointing down, and this test keeps
// the imports between files free of circles, types included. In a circle no file can be read first.
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { expect, test } from "vitest";
// @ts-expect-error: the configuration of oxlint has no types.
import { rooms } from "../../oxlint.config.mjs";

const root = join(import.meta.dirname, "../../js");
const files = readdirSync(root, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".ts"));
const imports = new Map(files.map((file) => [file, importsOf(file)]));

function importsOf(file: string): string[] {
  const text = readFileSync(join(root, file), "utf8");
  const named = [...text.matchAll(/^(?:import|export)\b[^;]*?\bfrom "(\.[^"]+\.ts)"/gms)].map((match) => match[1]!);
  return named.map((name) => normalize(join(dirname(file), name)));
}

/** The files of the first circle that is found below `file`. */
function circle(file: string, path: readonly string[] = []): readonly string[] | undefined {
  if (path.includes(file)) return [...path.slice(path.indexOf(file)), file];
  if (known.has(file)) return undefined;
  for (const next of imports.get(file) ?? []) {
    const found = circle(next, [...path, file]);
    if (found) return found;
  }
  known.add(file);
  return undefined;
}
/** Files that are in no circle. */
const known = new Set<string>();

test("no file of js/ imports itself through others", () => {
  expect([...imports.values()].flat().length).toBeGreaterThan(200);
  for (const file of files) expect(circle(file)?.join(" -> ")).toBeUndefined();
});

test("every folder of js/ is a room with a place in the order", () => {
  const folders = new Set(files.filter((file) => file.includes("/")).map((file) => file.split("/")[0]));
  expect([...folders].sort()).toEqual([...(rooms as string[])].sort());
});
