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
import { fileURLToPath } from "node:url";
import { makePackages } from "../../scripts/packages.mjs";

export const root = fileURLToPath(new URL("../../", import.meta.url));
export const bin = (name: string) => path.join(root, "node_modules/.bin", name);

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
  const tarballs = names.map((name) => packed(packages[name]!, folder));
  rmSync(path.join(folder, "packages"), { recursive: true });
  writeFileSync(path.join(folder, "package.json"), JSON.stringify({ private: true, type: "module" }));
  const words = ["install", "--offline", "--no-audit", "--no-fund", "--loglevel=error", ...tarballs];
  execFileSync("npm", words, { cwd: folder, stdio: "pipe" });
  try {
    renameSync(folder, done);
  } catch (error) {
    if (!existsSync(done)) throw error;
  }
  return done;
}

/** Packs the package into the folder. Returns the tarball's name. */
function packed(cwd: string, folder: string): string {
  const words = ["pack", "--json", "--pack-destination", folder, "--loglevel=error"];
  const [{ filename }] = JSON.parse(execFileSync("npm", words, { cwd, encoding: "utf8" })) as [{ filename: string }];
  return filename;
}

export class Project {
  readonly folder = mkdtempSync(path.join(tmpdir(), "pgz-edge-pack-"));
  readonly tarball: string;

  constructor({ hasCommandLine = false } = {}) {
    cpSync(installed(hasCommandLine), this.folder, { recursive: true, verbatimSymlinks: true });
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
