// The environments in which npm, npx, Deno and Bun run for tests: no result may depend on what this machine's caches
// hold, on its user's settings, or on a registry. With a cached description of a peer, npm 11 chooses other packages
// than without one, even under `--offline`.
//
//   { ...process.env, ...ownCaches(folder) }   caches below this folder, which is empty at first, and no registry
//   withoutCaches(process.env)                 the environment of all tests: caches and registry that do not exist
//
// tests/support/run-folder.ts sets `withoutCaches` for every process of vitest. A call that goes around `ownCaches`
// then fails wherever it is made, because it inherits this: tests/packaging/own-caches.test.ts shows it for each tool.
//
// Cargo is different: Cargo.lock has a checksum of each crate, so cargo's cache can hold only the right bytes.
// scripts/setup fetches them, and in tests cargo is offline.
//
// Must not know what is installed, or by which test.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import process from "node:process";

/** Nothing listens at port 9 ("discard"), so that a request fails at once. */
const NO_REGISTRY = "http://127.0.0.1:9/";

const cachesIn = (folder) => ({
  npm_config_cache: path.join(folder, "npm"),
  DENO_DIR: path.join(folder, "deno"),
  BUN_INSTALL_CACHE_DIR: path.join(folder, "bun"),
});

/** npm, Bun and Deno read a name in small or in capital letters, and the user may have set either. */
const from = (registry) => ({ npm_config_registry: registry, NPM_CONFIG_REGISTRY: registry });
/** npm would ask a registry that does not exist again for a minute. */
const ONCE = { npm_config_fetch_retries: "0" };

/**
 * Returns the variables for caches below the folder. Without `registry` there is none. `registry: null` is the user's,
 * with the user's settings, for a test that installs other projects' packages.
 */
export function ownCaches(folder, { registry = NO_REGISTRY } = {}) {
  const users = { ...from(process.env.PGZ_TEST_USERS_REGISTRY || undefined), npm_config_fetch_retries: undefined };
  if (registry === null) return { ...cachesIn(folder), ...users };
  return {
    ...cachesIn(folder),
    ...from(registry),
    // The user's settings for npm and Bun are in HOME.
    HOME: path.join(folder, "home"),
    npm_config_userconfig: path.join(folder, "home/.npmrc"),
    ...ONCE,
  };
}

/** No folder can be below a device, so a tool that needs its cache fails. Its message contains this path. */
const NOWHERE = "/dev/null/call-ownCaches-of-scripts";

/** Returns the variables of all tests, in the place of those in `env`. */
export const withoutCaches = (env) => ({
  ...cachesIn(NOWHERE),
  ...from(NO_REGISTRY),
  ...ONCE,
  PGZ_TEST_USERS_REGISTRY: env.PGZ_TEST_USERS_REGISTRY ?? env.npm_config_registry ?? env.NPM_CONFIG_REGISTRY ?? "",
  CARGO_NET_OFFLINE: "true",
});

/**
 * Packs the package in `cwd` into the folder `to`, or only says what it would pack. Returns what npm says about the
 * tarball: `filename`, `name`, `size`, `unpackedSize`, `files`.
 */
export function npmPack(cwd, to) {
  const caches = mkdtempSync(path.join(tmpdir(), "pgz-npm-"));
  const where = to === undefined ? ["--dry-run"] : ["--pack-destination", to];
  const words = ["pack", "--json", "--ignore-scripts", "--loglevel=error", ...where];
  try {
    const env = { ...process.env, ...ownCaches(caches) };
    const [told] = JSON.parse(execFileSync("npm", words, { cwd, env, encoding: "utf8", stdio: "pipe" }));
    return told;
  } finally {
    rmSync(caches, { recursive: true, force: true });
  }
}
