// Wrangler as a user runs it: in the Node that it wants, without an account, and with a home of its own.
import { execFile } from "node:child_process";
import { createRequire } from "node:module";
import path from "node:path";
import { promisify } from "node:util";
import { workerd } from "../../scripts/node/index.mjs";

const { resolve } = createRequire(new URL("../../scripts/tests/package.json", import.meta.url));

/** Runs it in the folder `cwd`. It throws if wrangler fails. */
export async function wrangler(words: readonly string[], { cwd, home = cwd }: { cwd: string; home?: string }) {
  const file = path.join(path.dirname(resolve("wrangler/package.json")), "bin", "wrangler.js");
  const quiet = { WRANGLER_SEND_METRICS: "false", WRANGLER_HIDE_BANNER: "true", CI: "1" };
  const env = { ...process.env, ...quiet, HOME: home, XDG_CONFIG_HOME: home };
  return await promisify(execFile)(workerd().execPath, [file, ...words], { cwd, env });
}
