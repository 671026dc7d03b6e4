// @pgz-edge/cli, the package of the command line: it has the driver's version and requires exactly that version, it has
// only its own built files, and no text sends the reader to the driver's package for the commands. tests/cli runs it as
// it is installed.
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import process from "node:process";
import { expect, test } from "vitest";
import { npmPack, ownCaches } from "../../scripts/own-caches.mjs";
import { makePackages, makeTarballs } from "../../scripts/packages.mjs";
import { read, root } from "./repository.ts";

interface Manifest {
  readonly version: string;
  readonly bin?: Record<string, string>;
  readonly peerDependencies: Record<string, string>;
}
const manifestOf = (folder: string) => JSON.parse(read(`${folder}/package.json`)) as Manifest;

test("both packages have one version, and the command line requires exactly that driver", () => {
  const { version, bin, peerDependencies } = manifestOf(".");
  const commands = manifestOf("js/cli");
  expect(commands.version).toBe(version);
  expect(commands.peerDependencies["pgz-edge"]).toBe(version);
  expect(commands.bin).toEqual({ "pgz-edge": "dist/main.js" });
  expect(bin).toBeUndefined();
  expect(Object.keys(peerDependencies)).not.toContain("typescript");
  expect(Object.keys(peerDependencies)).not.toContain("@modelcontextprotocol/sdk");
});

test("the tarball of the command line has its built files, and not the driver", () => {
  const folder = mkdtempSync(path.join(tmpdir(), "pgz-edge-cli-"));
  try {
    const { files, unpackedSize } = npmPack(makePackages(folder)["@pgz-edge/cli"]!);
    const names = files.map(({ path: name }) => name);
    expect(names).toEqual(expect.arrayContaining(["LICENSE", "README.md", "dist/main.js", "package.json"]));
    expect(names.filter((name) => !/^(dist\/[\w-]+\.js|LICENSE|README\.md|package\.json)$/.test(name))).toEqual([]);
    // It has 215,300 bytes; the driver would add 400,000.
    expect(unpackedSize).toBeLessThan(240_000);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("make pack makes the three tarballs, and npm pack of the command line names it", () => {
  const folder = mkdtempSync(path.join(tmpdir(), "pgz-edge-tarballs-"));
  try {
    const made = Object.entries(makeTarballs(folder)).map(([name, file]) => [name, path.basename(file)]);
    const { version } = manifestOf(".");
    const alias = manifestOf("js/adapters/pg-alias").version;
    expect(made).toEqual([
      ["pgz-edge", `pgz-edge-${version}.tgz`],
      ["pgz-edge-pg", `pgz-edge-pg-${alias}.tgz`],
      ["@pgz-edge/cli", `pgz-edge-cli-${version}.tgz`],
    ]);
    expect(readdirSync(folder).sort()).toEqual(made.map(([, file]) => file!).sort());
    const env = { ...process.env, ...ownCaches(folder) };
    const empty = spawnSync("npm", ["pack", "--dry-run"], { cwd: path.join(root, "js/cli"), env, encoding: "utf8" });
    expect([empty.status === 0, empty.stderr]).toEqual([false, expect.stringContaining("make pack") as string]);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("no text calls the command by the driver's name", () => {
  const old = ["npx pgz-edge", "bunx pgz-edge", "bunx --bun pgz-edge", "deno run -A npm:pgz-edge", "-p pgz-edge"];
  const patterns = old.flatMap((words) => ["-e", words]);
  const { stdout } = search(["grep", "-n", "-F", ...patterns, "--", ".", ":!tests"]);
  expect(stdout.split("\n").filter(Boolean)).toEqual([]);
});

function search(words: string[]): { stdout: string } {
  try {
    return { stdout: execFileSync("git", words, { cwd: root, encoding: "utf8" }) };
  } catch (error) {
    if ((error as { status?: number }).status === 1) return { stdout: "" }; // git grep has found nothing
    throw error;
  }
}
