// The oldest versions in docs/support.md are those that the project itself uses: in its manifests, toolchain and tests.
import { expect, test } from "vitest";
import { read } from "./repository.ts";

const page = read("docs/support.md");
/** Returns the oldest version and the others in a row of the table. */
const row = (name: string) => new RegExp(`^\\| ${name} \\| ([^|]+) \\| ([^|]+) \\|`, "m").exec(page)!.slice(1);
const packages = (name: string) =>
  JSON.parse(read(name)) as { devDependencies: Record<string, string>; engines: Record<string, string> };
const NODES = /node-\d+-linux-x64(?=": "npm:)/g;
const minor = (version: string) => version.split(".").slice(0, 2).join(".");

test("the oldest Node of docs/support.md is the one the project uses", () => {
  const [oldest, others] = row("Node");
  expect(packages("package.json").engines["node"]).toBe(`>=${oldest}`);
  expect(packages("js/cli/package.json").engines["node"]).toBe(`>=${oldest}`);
  const installed = ["scripts/tests/package.json", "scripts/node/package.json"].flatMap((name) =>
    read(name).match(NODES),
  );
  expect(installed.map((name) => name!.slice("node-".length, -"-linux-x64".length)).sort()).toEqual(
    others!.split(", "),
  );
});

test.each(["Deno", "Bun"])("the oldest %s of docs/support.md is the one the project uses", (name) => {
  const version = packages("scripts/tests/package.json").devDependencies[name.toLowerCase()]!;
  expect(row(name)[0]).toBe(minor(version));
});

test("the oldest Rust of docs/support.md is the one the project uses", () => {
  const [, toolchain] = /^channel = "([\d.]+)"/m.exec(read("rust-toolchain.toml"))!;
  const [, least] = /^rust-version = "([\d.]+)"/m.exec(read("Cargo.toml"))!;
  const [oldest] = row("Rust, to build it");
  expect([minor(toolchain!), least]).toEqual([oldest, oldest]);
});

test("the oldest TypeScript of docs/support.md is the one the project uses", () => {
  const [oldest, others] = row("TypeScript");
  const tested = read("tests/packaging/types.test.ts");
  for (const version of [oldest!, ...others!.split(", ").slice(0, -1)])
    expect(tested).toContain(`typescript-${version}`);
});
