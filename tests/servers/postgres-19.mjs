// PostgreSQL 19 for tests: Debian's packages, since npm has none. `node tests/servers/postgres-19.mjs` (scripts/setup)
// unpacks them once, separate from the installed packages. Where they cannot be had, 18 is the newest.
import { existsSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { unpack, useOwnLibraries } from "./debian.mjs";
import { world } from "./home.mjs";

const PACKAGES = ["postgresql-19", "postgresql-client-19"];
/** Debian's unstable release has no PostgreSQL 19 before its final release. */
const EXPERIMENTAL = [...PACKAGES, "libpq5"];

const folder = () => path.join(world(), "postgresql-19");

/** The newest major version that tests have on this machine. */
export const newestMajor = () => (existsSync(folder()) ? 19 : 18);

/** Returns the folder of its binaries, as `native` of `newCluster`. */
export const native19 = () => path.join(folder(), "usr/lib/postgresql/19");

/** Returns the file with its SQLSTATEs. */
export const errcodes19 = () => path.join(folder(), "usr/share/postgresql/19/errcodes.txt");

async function bring() {
  const partial = mkdtempSync(`${folder()}.`);
  try {
    await unpack(PACKAGES, EXPERIMENTAL, partial);
    const programs = path.join(partial, "usr/lib/postgresql/19/bin");
    useOwnLibraries(
      partial,
      ["postgres", "initdb"].map((name) => path.join(programs, name)),
      folder(),
    );
    renameSync(partial, folder());
  } catch (error) {
    rmSync(partial, { recursive: true, force: true });
    if (!existsSync(folder())) throw error; // otherwise another run was faster
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href && !existsSync(folder())) {
  const how = await bring().then(
    () => "Debian's packages are unpacked",
    (error) => `left out, tests run on 18: ${error.message.split("\n")[0]}`,
  );
  console.error(`[setup] PostgreSQL 19: ${how}`);
}
