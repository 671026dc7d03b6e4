// PostgreSQL 19 for tests: Debian's package, since npm has none. It is unpacked once, separate from the installed
// packages.
import { existsSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import path from "node:path";
import { unpack, useOwnLibraries } from "./debian.mjs";
import { world } from "./home.mjs";

const PACKAGES = ["postgresql-19", "postgresql-client-19"];
/** Debian's unstable release has no PostgreSQL 19 before its final release. */
const EXPERIMENTAL = [...PACKAGES, "libpq5"];

/** Returns the folder of its binaries, as `native` of `newCluster`. Rejects with the reason if it is unavailable. */
export async function postgres19() {
  const folder = path.join(world(), "postgresql-19");
  if (!existsSync(folder)) await bring(folder);
  const native = path.join(folder, "usr/lib/postgresql/19");
  // The scripts contain the folder's name, so they are written after it has its final name.
  useOwnLibraries(folder, [path.join(native, "bin/postgres"), path.join(native, "bin/initdb")]);
  return native;
}

async function bring(folder) {
  const partial = mkdtempSync(`${folder}.`);
  try {
    await unpack(PACKAGES, EXPERIMENTAL, partial);
    renameSync(partial, folder);
  } catch (error) {
    rmSync(partial, { recursive: true, force: true });
    if (!existsSync(folder)) throw error; // otherwise another run was faster
  }
}
