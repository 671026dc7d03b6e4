// An empty project with the packed tarball installed, as a user has it, optionally with the tarball of the command
// line.
import { execFileSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { npmPack, ownCaches } from "../../scripts/own-caches.mjs";
import { makePackages } from "../../scripts/packages.mjs";
import { bin, root } from "./repository.ts";

export { bin, root };

/**
 * Returns the folder of an empty project in which npm has installed the packed tarballs. It is made once in a run of
 * vitest (tests/support/run-folder.ts), because npm packs and installs for five seconds. Two files that need it at the
 * same time both make it, and one of them is kept.
 */
function installed(hasCommandLine: boolean): string {
  const done = path.join(process.env["PGZ_TEST_RUN_FOLDER"]!, hasCommandLine ? "with-command-line" : "driver");
  if (existsSync(done)) return done;
  const folder = `${done}-${process.pid}`;
  const packages = makePackages(path.join(folder, "packages"));
  const names = ["pgz-edge", ...(hasCommandLine ? ["@pgz-edge/cli"] : [])];
  const tarballs = names.map((name) => npmPack(packages[name]!, folder).filename);
  rmSync(path.join(folder, "packages"), { recursive: true });
  writeFileSync(path.join(folder, "package.json"), JSON.stringify({ private: true, type: "module" }));
  npmInstall(folder, tarballs);
  try {
    renameSync(folder, done);
  } catch (error) {
    if (!existsSync(done)) throw error;
  }
  return done;
}

/**
 * Installs tarballs of ours in the project, as a user does in an empty project: npm resolves our peers, and so would
 * refuse a command line for another driver. `--legacy-peer-deps` would not. Optional peers are not installed: npm looks
 * for their descriptions, and the empty cache has none.
 */
export function npmInstall(cwd: string, tarballs: readonly string[]): void {
  const caches = mkdtempSync(path.join(tmpdir(), "pgz-npm-"));
  const words = ["install", "--offline", "--no-audit", "--no-fund", "--loglevel=error", ...tarballs];
  try {
    execFileSync("npm", words, { cwd, env: { ...process.env, ...ownCaches(caches) }, stdio: "pipe" });
  } finally {
    rmSync(caches, { recursive: true, force: true });
  }
}

export class Project {
  readonly folder: string;
  readonly tarball: string;

  constructor({ hasCommandLine = false } = {}) {
    const from = installed(hasCommandLine); // first, because no test removes the folder of a constructor that throws
    this.folder = mkdtempSync(path.join(tmpdir(), "pgz-edge-pack-"));
    cpSync(from, this.folder, { recursive: true, verbatimSymlinks: true });
    this.tarball = this.at(readdirSync(this.folder).find((name) => /^pgz-edge-\d.*\.tgz$/.test(name))!);
  }

  at(...names: string[]): string {
    return path.join(this.folder, ...names);
  }

  /** Writes the file, and creates its folder. */
  write(name: string, text: string): string {
    mkdirSync(path.dirname(this.at(name)), { recursive: true });
    writeFileSync(this.at(name), text);
    return this.at(name);
  }

  /** Links a package of this repository's node_modules, as if it were installed in the project. */
  link(name: string, as = name): void {
    mkdirSync(path.dirname(this.at("node_modules", as)), { recursive: true });
    symlinkSync(path.join(root, "node_modules", name), this.at("node_modules", as));
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}
