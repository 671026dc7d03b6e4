// What `make test-fresh` gives its commands: a HOME without caches and programs, and all that a registry needs.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import process from "node:process";
import { expect, onTestFinished, test } from "vitest";
import { commands, freshEnvironment } from "../run/fresh.mjs";

/** The HOME of a user who has built this project, and the environment that `make test-fresh` makes of theirs. */
function freshOf(variables: NodeJS.ProcessEnv) {
  const folder = mkdtempSync(path.join(tmpdir(), "pgz-fresh-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const user = path.join(folder, "user");
  for (const name of [
    ".npm/_cacache/x",
    ".npmrc",
    ".m2/settings.xml",
    ".cargo/config.toml",
    ".cargo/bin/wasm-bindgen",
  ]) {
    mkdirSync(path.dirname(path.join(user, name)), { recursive: true });
    writeFileSync(path.join(user, name), name);
  }
  const PATH = [path.join(user, ".cargo/bin"), process.env["PATH"]].join(path.delimiter);
  const env = freshEnvironment(folder, { HOME: user, PATH, ...variables });
  return { folder, user, home: path.join(folder, "home"), env };
}

test("HOME has the settings for registries and rustup's programs, and nothing else", () => {
  const { home, env } = freshOf({});
  expect(env["HOME"]).toBe(home);
  expect(readdirSync(home).sort()).toEqual([".cargo", ".m2", ".npmrc"]);
  expect(readFileSync(path.join(home, ".npmrc"), "utf8")).toBe(".npmrc");
  expect(readdirSync(path.join(home, ".cargo")).sort()).toEqual(["bin", "config.toml"]);
  expect(readdirSync(path.join(home, ".cargo/bin"))).toContain("cargo");
  expect(readdirSync(path.join(home, ".cargo/bin"))).not.toContain("wasm-bindgen");
});

test("rustup runs from there with the user's toolchains", () => {
  const RUSTUP_HOME = process.env["RUSTUP_HOME"] ?? path.join(process.env["HOME"]!, ".rustup");
  const { user, env } = freshOf({ RUSTUP_HOME });
  expect(env).toMatchObject({ RUSTUP_HOME });
  expect(env["PATH"]!.split(path.delimiter)).not.toContain(path.join(user, ".cargo/bin"));
  expect(execFileSync("cargo", ["--version"], { env, encoding: "utf8" })).toMatch(/^cargo \d/);
});

test("variables that name a cache or a run are left out, and those for registries stay", () => {
  const gone = { npm_config_cache: "/c", NPM_CONFIG_CACHE: "/c", DENO_DIR: "/c", BUN_INSTALL_CACHE_DIR: "/c" };
  const more = { XDG_CACHE_HOME: "/c", CARGO_TARGET_DIR: "/c", MAKEFLAGS: "-s", PGZ_TEST_RUN: "pgz-1" };
  const kept = { npm_config_registry: "https://mirror", HTTPS_PROXY: "http://proxy", NODE_EXTRA_CA_CERTS: "/ca" };
  const { env } = freshOf({ ...gone, ...more, ...kept });
  expect(env).toMatchObject(kept);
  expect(Object.keys(env).filter((name) => name in gone || name in more)).toEqual([]);
});

test("the demo comes first, and the test with ORDER", () => {
  const [demo, all] = [
    ["make", "demo", "ONCE=1"],
    ["make", "test"],
  ];
  expect(commands({})).toEqual([demo, all]);
  expect(commands({ ORDER: "test-first" })).toEqual([all, demo]);
  expect(commands({ SUITES: "node -- tests/x" })).toEqual([demo, ["node", "tests/run.mjs", "node", "--", "tests/x"]]);
  expect(() => commands({ ORDER: "both" })).toThrow(/no order both/);
});
