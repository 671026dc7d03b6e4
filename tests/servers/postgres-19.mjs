// PostgreSQL 19 for tests: Debian's package, since npm has none. It is unpacked once, beside what is installed.
import { existsSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import path from "node:path";
import { unpack, useOwnLibraries } from "./debian.mjs";
import { world } from "./home.mjs";

const PACKAGES = ["postgresql-19", "postgresql-client-19"];
/** Debian's unstable release has no PostgreSQL 19 before its first real release. */
const EXPERIMENTAL = [...PACKAGES, "libpq5"];

/** The folder of its binaries, as `native` of `newCluster`. Rejects with why it cannot be had. */
export async function postgres19() {
  const folder = path.join(world(), "postgresql-19");
  if (!existsSync(folder)) await bring(folder);
  const native = path.join(folder, "usr/lib/postgresql/19");
  // Its scripts name the folder, so they are written when it has its name.
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
    if (!existsSync(folder)) throw error; // else another run was quicker
  }
}
