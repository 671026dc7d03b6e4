// An empty project with the packed tarball installed, as a user has it, optionally with the tarball of the command
// line.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { makePackages } from "../../scripts/packages.mjs";

export const root = fileURLToPath(new URL("../../", import.meta.url));
export const bin = (name: string) => path.join(root, "node_modules/.bin", name);

export class Project {
  readonly folder = mkdtempSync(path.join(tmpdir(), "pgz-edge-pack-"));
  readonly tarball: string;

  constructor({ hasCommandLine = false } = {}) {
    const packages = makePackages(this.at("packages"));
    this.tarball = this.#packed(packages["pgz-edge"]!);
    const tarballs = hasCommandLine ? [this.tarball, this.#packed(packages["@pgz-edge/cli"]!)] : [this.tarball];
    rmSync(this.at("packages"), { recursive: true });
    this.write("package.json", JSON.stringify({ private: true, type: "module" }));
    execFileSync("npm", ["install", "--offline", "--no-audit", "--no-fund", "--loglevel=error", ...tarballs], {
      cwd: this.folder,
      stdio: "pipe",
    });
  }

  #packed(cwd: string): string {
    const words = ["pack", "--json", "--pack-destination", this.folder, "--loglevel=error"];
    const [{ filename }] = JSON.parse(execFileSync("npm", words, { cwd, encoding: "utf8" })) as [{ filename: string }];
    return this.at(filename);
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
