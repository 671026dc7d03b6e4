// PostgreSQL 19 for tests: Debian's packages, since npm has none. `node tests/servers/postgres-19.mjs` (scripts/setup)
// unpacks them once, separate from the installed packages. Where they cannot be had, 18 is the newest.
import { execFileSync } from "node:child_process";
import { existsSync, rmSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { unpackServer } from "./debian.mjs";
import { identity, world } from "./home.mjs";

const PACKAGES = ["postgresql-19", "postgresql-client-19"];
/** Debian's unstable release has no PostgreSQL 19 before its final release. */
const EXPERIMENTAL = [...PACKAGES, "libpq5"];
/** Milliseconds for which a failure is remembered: without a network an attempt takes minutes. */
const A_DAY = 86_400_000;

const folder = () => path.join(world(), "postgresql-19");
const failed = () => `${folder()}.failed`;

/** The newest major version that tests have on this machine, or an older one that PGZ_TEST_NEWEST names. */
export const newestMajor = () => Number(process.env.PGZ_TEST_NEWEST ?? (existsSync(folder()) ? 19 : 18));

/** Returns the folder of its binaries, as `native` of `newCluster`. */
export const native19 = () => path.join(folder(), "usr/lib/postgresql/19");

/** Returns the file with its SQLSTATEs. */
export const errcodes19 = () => path.join(folder(), "usr/share/postgresql/19/errcodes.txt");

/** Unpacks the packages if they are missing, and rejects if no server starts from them. */
async function bring() {
  if (existsSync(folder())) return check();
  const lately = statSync(failed(), { throwIfNoEntry: false })?.mtimeMs ?? 0;
  if (Date.now() - lately < A_DAY) throw new Error(`${failed()} has the reason; without it setup tries again`);
  say("unpacking Debian's packages");
  try {
    await unpackServer(PACKAGES, EXPERIMENTAL, folder(), "usr/lib/postgresql/19/bin");
  } catch (error) {
    writeFileSync(failed(), error.message);
    throw error;
  }
  check();
  say(`unpacked in ${Math.round(process.uptime())} s`);
}

/** Throws if the server does not start here, and then removes it. */
function check() {
  try {
    execFileSync(path.join(native19(), "bin/postgres"), ["--version"], { ...identity, cwd: "/", stdio: "pipe" });
  } catch (error) {
    rmSync(folder(), { recursive: true, force: true });
    throw error;
  }
}

const say = (text) => console.error(`[setup] PostgreSQL 19: ${text}`);

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  try {
    await bring();
  } catch (error) {
    say(`left out, tests run on 18: ${error.message.split("\n")[0]}`);
  }
}
