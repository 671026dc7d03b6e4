// What a newcomer would deploy: wrangler accepts the configuration, resolves pgz-edge by its export conditions and
// finds its wasm.
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { here, linkDriver } from "../../worker-example/build.mjs";
import { wrangler } from "../support/wrangler.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "pgz-edge-wrangler-"));
  linkDriver();
});
afterAll(() => rm(folder, { recursive: true, force: true }));

test("wrangler deploy --dry-run bundles the example", async () => {
  const words = ["deploy", "--dry-run", "--outdir", path.join(folder, "out")];
  const { stdout, stderr } = await wrangler(words, { cwd: here, home: folder });
  for (const binding of ["HYPERDRIVE", "HYPERDRIVE_APP", "DATABASE", "FEED", "INVALIDATIONS"])
    expect(stdout).toMatch(new RegExp(`env\\.${binding} `));
  expect(stdout).toMatch(/--dry-run: exiting now/);
  expect(stderr).not.toMatch(/warn|error/i);
  const files = await readdir(path.join(folder, "out"));
  // The driver's wasm, and the wasm of its changes.
  expect(files.filter((name) => name.endsWith(".wasm"))).toHaveLength(2);
  const script = await readFile(path.join(folder, "out", "worker.js"), "utf8");
  expect(script).not.toMatch(/from "node:/); // with no_nodejs_compat such an import would fail at the first request
});

test("the compatibility date is the README's, and neither sets a flag", async () => {
  const configs = [path.join(here, "wrangler.jsonc"), path.join(here, "../README.md")];
  const [own, shown] = await Promise.all(configs.map((file) => readFile(file, "utf8")));
  const set = /^ *"compatibility_(?:date|flags)": .*?,/gm;
  expect(own!.match(set)).toHaveLength(1);
  expect(own!.match(set)).toEqual(shown!.match(set));
});

test("the platform's cache is in front of Summary only, which is called after the check of a token", async () => {
  const text = await readFile(path.join(here, "wrangler.jsonc"), "utf8");
  const config = JSON.parse(text.replaceAll(/^\s*\/\/.*$/gm, "")) as { exports: Record<string, unknown> };
  const worker = (enabled: boolean) => ({ type: "worker", cache: { enabled } });
  expect(config.exports).toEqual({ default: worker(false), Summary: worker(true) });
  const entrypoints = await readFile(path.join(here, "src", "cached.ts"), "utf8");
  expect(entrypoints.match(/class \w+ extends WorkerEntrypoint/g)).toEqual(["class Summary extends WorkerEntrypoint"]);
});

test("the example handler is at most 12 lines", async () => {
  const handler = await readFile(path.join(here, "src", "users.ts"), "utf8");
  expect(handler.trimEnd().split("\n").length).toBeLessThanOrEqual(12);
});
