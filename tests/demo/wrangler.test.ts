// What a newcomer would deploy: wrangler accepts the configuration, resolves pgz-edge by its export conditions and
// finds its wasm.
import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { workerd } from "../../scripts/node/index.mjs";
import { here, linkDriver, root } from "../../worker-example/build.mjs";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "pgz-edge-wrangler-"));
  linkDriver();
});
afterAll(() => rm(folder, { recursive: true, force: true }));

test("wrangler deploy --dry-run bundles the example", async () => {
  const { resolve } = createRequire(path.join(root, "scripts/tests/package.json"));
  const wrangler = path.join(path.dirname(resolve("wrangler/package.json")), "bin", "wrangler.js");
  const env = {
    ...process.env,
    HOME: folder,
    XDG_CONFIG_HOME: folder,
    WRANGLER_SEND_METRICS: "false",
    WRANGLER_HIDE_BANNER: "true",
    CI: "1",
  };
  const { stdout, stderr } = await promisify(execFile)(
    workerd().execPath,
    [wrangler, "deploy", "--dry-run", "--outdir", path.join(folder, "out")],
    { cwd: here, env },
  );
  for (const binding of ["HYPERDRIVE", "HYPERDRIVE_APP", "DATABASE", "FEED"])
    expect(stdout).toMatch(new RegExp(`env\\.${binding} `));
  expect(stdout).toMatch(/--dry-run: exiting now/);
  expect(stderr).not.toMatch(/warn|error/i);
  const files = await readdir(path.join(folder, "out"));
  // The driver's wasm, and the wasm of its changes.
  expect(files.filter((name) => name.endsWith(".wasm"))).toHaveLength(2);
  const script = await readFile(path.join(folder, "out", "worker.js"), "utf8");
  expect(script).not.toMatch(/from "node:/); // nodejs_compat is off: such an import would fail at the first request
});

test("the compatibility flags are those that the README names, without nodejs_compat", async () => {
  const config = await readFile(path.join(here, "wrangler.jsonc"), "utf8");
  expect(config).toMatch(/"compatibility_flags": \["enable_request_signal"\]/);
});

test("the example handler is at most 12 lines", async () => {
  const handler = await readFile(path.join(here, "src", "users.ts"), "utf8");
  expect(handler.trimEnd().split("\n").length).toBeLessThanOrEqual(12);
});
