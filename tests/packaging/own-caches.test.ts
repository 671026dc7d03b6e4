// No test depends on this machine's caches or on a registry: each tool fails when it is called without `ownCaches`, by
// whatever file and in whatever process, because it inherits the environment of tests/support/run-folder.ts.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { expect, test } from "vitest";
import { npmPack, ownCaches } from "../../scripts/own-caches.mjs";
import { bin } from "./project.ts";

const folder = mkdtempSync(path.join(process.env["PGZ_TEST_RUN_FOLDER"]!, "caches-"));
const at = (...names: string[]) => path.join(folder, ...names);
mkdirSync(at("package"));
writeFileSync(at("package/package.json"), '{ "name": "one", "version": "1.0.0" }');
npmPack(at("package"), folder);
mkdirSync(at("project"));
writeFileSync(at("project/package.json"), '{ "private": true, "dependencies": { "left-pad": "1.3.0" } }');

function run(words: string[], project: string, env: NodeJS.ProcessEnv = {}): { status: number | null; text: string } {
  const options = { cwd: at(project), env: { ...process.env, ...env }, encoding: "utf8" } as const;
  const { status, stdout, stderr } = spawnSync(words[0]!, words.slice(1), options);
  return { status, text: stdout + stderr };
}

const NOWHERE = "/dev/null/call-ownCaches";
const NO_REGISTRY = /127\.0\.0\.1:9|ConnectionRefused|only-if-cached/;

test.each<[words: string[], project: string, reason: string | RegExp]>([
  [["npm", "pack"], "package", NOWHERE],
  [["npm", "pack", "--dry-run"], "package", NOWHERE],
  [["npm", "install"], "project", NO_REGISTRY],
  [["npm", "install", "--offline"], "project", NO_REGISTRY],
  [["npm", "install", "--offline", "../one-1.0.0.tgz"], "package", NOWHERE],
  [["npm", "view", "left-pad"], "package", NO_REGISTRY],
  [["npx", "--yes", "left-pad"], "package", NO_REGISTRY],
  [["sh", "-c", "npm pack"], "package", NOWHERE],
  [[bin("deno"), "run", "-A", "npm:left-pad"], "package", NO_REGISTRY],
  [[bin("deno"), "install"], "project", NO_REGISTRY],
  [[bin("bun"), "install"], "project", NO_REGISTRY],
  [[bin("bun"), "x", "left-pad"], "package", NO_REGISTRY],
  [["cargo", "search", "itoa"], "package", "offline"],
])("%j fails without caches of its own", (words, project, reason) => {
  const { status, text } = run(words, project);
  expect(status).not.toBe(0);
  if (typeof reason === "string") expect(text).toContain(reason);
  else expect(text).toMatch(reason);
});

test("with caches of its own npm leaves everything in their folder", () => {
  const { status, text } = run(["npm", "pack", "--json"], "package", ownCaches(at("caches")));
  expect([status, JSON.parse(text)]).toMatchObject([0, [{ name: "one" }]]);
  expect(existsSync(at("caches/npm"))).toBe(true);
});
