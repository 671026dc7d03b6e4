// Checks the licences and sources of the crates in Cargo.lock against deny.toml, as cargo-deny does. cargo-deny is not
// installed everywhere, and this test runs everywhere. Only cargo-deny knows advisories: the workflow `crates` runs it.
import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";
import { read, root } from "./repository.ts";

interface Crate {
  readonly name: string;
  readonly version: string;
  readonly license: string;
  /** null for a crate of this workspace. */
  readonly source: string | null;
}

const options = { cwd: root, encoding: "utf8", maxBuffer: 1 << 28 } as const;
const { packages: crates } = JSON.parse(
  execFileSync("cargo", ["metadata", "--format-version", "1", "--locked"], options),
) as { packages: Crate[] };

/** Returns the quoted strings of a list in deny.toml. */
function listed(key: string): string[] {
  const [, list] = new RegExp(`^${key} = \\[([^\\]]*)\\]`, "m").exec(read("deny.toml")) ?? [];
  return [...list!.replaceAll(/#.*/g, "").matchAll(/"([^"]*)"/g)].map(([, entry]) => entry!);
}

/** Returns whether these licences satisfy an SPDX expression. Cargo once wrote `/` for OR. */
function suffice(allowed: readonly string[], expression: string): boolean {
  const tokens = expression.replaceAll("/", " OR ").match(/[()]|[^\s()]+/g)!;
  const either = (): boolean => {
    let holds = both();
    while (tokens[0] === "OR") holds = [tokens.shift(), both()][1] === true || holds;
    return holds;
  };
  const both = (): boolean => {
    let holds = one();
    while (tokens[0] === "AND") holds = [tokens.shift(), one()][1] === true && holds;
    return holds;
  };
  const one = (): boolean => {
    const token = tokens.shift()!;
    if (token !== "(") return allowed.includes(token);
    const holds = either();
    tokens.shift();
    return holds;
  };
  return either();
}

const refused = (allowed: readonly string[]) =>
  crates.filter(({ license }) => !suffice(allowed, license)).map(({ name, license }) => `${name}: ${license}`);

test.each([
  ["MIT", true],
  ["GPL-3.0-only", false],
  ["MIT/Apache-2.0", true],
  ["Apache-2.0 OR MIT", true],
  ["MIT AND Apache-2.0", false],
  ["(MIT OR Apache-2.0) AND Unicode-3.0", true],
  ["(Apache-2.0 OR BSD-3-Clause) AND Unicode-3.0", false],
  ["Apache-2.0 OR MIT AND GPL-3.0-only", false],
])("%s is allowed: %s", (expression, wanted) => {
  expect(suffice(["MIT", "Unicode-3.0"], expression)).toBe(wanted);
});

test("deny.toml allows the licences of all crates, and no licence that no crate needs", () => {
  const allowed = listed("allow");
  expect(crates.length).toBe(read("Cargo.lock").match(/^name = /gm)!.length);
  expect(refused(allowed)).toEqual([]);
  expect(allowed.filter((one) => refused(allowed.filter((other) => other !== one)).length === 0)).toEqual([]);
});

test("all crates but our own come from the registry that deny.toml allows", () => {
  const registries = listed("allow-registry").map((url) => `registry+${url}`);
  const strays = crates.filter(({ source }) => source !== null && !registries.includes(source));
  expect(strays).toEqual([]);
  expect(crates.filter(({ source }) => source === null).map(({ name }) => name)).toEqual([
    "pgz-edge",
    "pgz-edge-wasm",
    "pgz-edge-wasm-changes",
  ]);
});

test("cargo-deny checks the whole workspace, including src/wasm, which it would leave out by default", () => {
  const commands = [read(".github/workflows/crates.yml"), read("tests/run/checks.mjs").replaceAll(/[",]/g, "")];
  for (const text of commands) expect(/^.*cargo deny .* check\b/m.exec(text)?.[0]).toContain(" --workspace ");
  const versions = [commands[0]!, read("HACKING.md")].map((text) => /cargo-deny@([\d.]+)/.exec(text)?.[1]);
  expect(new Set(versions).size).toBe(1);
});
